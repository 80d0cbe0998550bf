// A store of an older kvrt, brought up to date when it is opened for writing.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/status.h"
#include "storage/store/format_file.h"

namespace kvrt {

// The catalog as it was before its last migration; replaced by the next one.
inline constexpr char kCatalogBackup[] = "catalog.db.old";

// Brings catalog.db, of which a part may be in its log alone, to kCatalogSchema: folds its log in, copies it to kCatalogBackup, changes it
// in one transaction. Nobody else may have the store open. Whatever fails or ends it, the catalog is as before or as after, and the next
// open goes on. NO_SPACE: as before. `known`: the store's id, where FORMAT has it; else it gets one.
Status migrate_catalog(Env* env, const std::string& root, const std::optional<StoreId>& known);

}  // namespace kvrt
