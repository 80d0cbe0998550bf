// The two lock files of a store, `lock` and `write.lock`: FORMAT.md, "Several processes".
#pragma once

#include "runtime/base/env.h"
#include "storage/store/directory.h"

namespace kvrt {

// Takes `lock`: exclusively if nobody else has it (dir->alone is true then), else shared. Opens `write.lock` for a writer, not taken yet.
Status enter(Env* env, StoreDirectory* dir);
// Takes `lock` exclusively, or BUSY.
Status enter_alone(Env* env, StoreDirectory* dir);
// Makes the exclusive lock shared once the repairs are done. BUSY if another process takes it exclusively meanwhile, and keeps it.
Status share(StoreDirectory* dir);

}  // namespace kvrt
