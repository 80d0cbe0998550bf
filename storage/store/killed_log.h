// The catalog's log as a killed process left it.
#pragma once

#include "runtime/base/env.h"
#include "storage/store/directory.h"

namespace kvrt {

// Looks at the log before SQLite reads it. Who is alone puts flipped bits right; a reader is refused until that is done. What no bit
// explains is told in dir->log_damage.
Status check_killed_log(Env* env, StoreDirectory* dir, bool for_repair);

}  // namespace kvrt
