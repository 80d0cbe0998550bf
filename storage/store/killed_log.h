// The catalog's log as a killed process left it.
#pragma once

#include "runtime/base/env.h"
#include "storage/store/directory.h"

namespace kvrt {

// Looks at the log before SQLite reads it. A writer that is alone puts flipped bits right; a reader is refused until that is done.
// dir->log_damage names damage that no single bit explains.
Status check_killed_log(Env* env, StoreDirectory* dir, bool for_repair);

}  // namespace kvrt
