// The two lock files of a store, `lock` and `write.lock`: FORMAT.md, "Several processes".
#pragma once

#include "runtime/base/env.h"
#include "storage/store/directory.h"

namespace kvrt {

// Takes `lock`: exclusively if nobody else is there (dir->alone says so), else shared. A writer gets `write.lock` too, not taken yet.
Status enter(Env* env, StoreDirectory* dir);
// Takes `lock` exclusively, or BUSY.
Status enter_alone(Env* env, StoreDirectory* dir);
// Lets others in, when the one that was alone has done its repairs. BUSY if another alone one does not end.
Status share(StoreDirectory* dir);

}  // namespace kvrt
