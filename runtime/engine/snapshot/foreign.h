// Takes the KV of a snapshot that another arithmetic made (a CPU's, another device's), or that was rounded, if the caller asks for that. The session
// gets a root of its own kind: no exact session ever finds its blocks, nor those computed on top of them.
#pragma once

#include "runtime/engine/resources/memory_cost.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/sources/cold_chunks.h"

namespace kvrt {

// Takes only KV of the same model, format, block size and domain: the root must be that of a known arithmetic, or of two of them mixed, or of rounded KV. The
// session has its store, its domain and the root of its own arithmetic.
void adopt_foreign(const LoadedModel& model, const ModelKv& kv, const SessionOut& saved, Session* session);

}  // namespace kvrt
