// EngineLock: the one lock of a model's sessions, and what its holders wait for.
#pragma once

#include "runtime/base/books_only.h"
#include "runtime/base/mutex.h"

namespace kvrt {

// It guards all sessions, the KvCache and the parts of a step. Held for bookkeeping only: never during a forward pass, a call of a store or
// another ChunkSource, a move of a block's bytes, or a callback.
struct EngineLock {
  Mutex mu{BooksOnly::watch()};
  Condition step_over;  // a step or a save is over
  Condition pressed;    // a save or a close waits for an autosave
};

}  // namespace kvrt
