// What a GGUF file holds, and what of it kvrt cannot run. From the header alone: no tensor is read.
#pragma once

#include <string>

#include "runtime/compute/backend.h"
#include "runtime/model/gguf.h"

namespace kvrt {

// The JSON of kvrt_model_inspect. `whole`: arrays to their end, not their first elements. NO_MEMORY.
Result<std::string> inspect(const GgufFile& file, const Backend& backend, bool whole);

}  // namespace kvrt
