// Migrates the store of an older kvrt when it is opened for writing.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/status.h"
#include "storage/store/format_file.h"

namespace kvrt {

// The catalog as it was before its last migration; replaced by the next one.
inline constexpr char kCatalogBackup[] = "catalog.db.old";

// Brings catalog.db, a part of which may be in its log alone, to kCatalogSchema: folds its log in, copies it to kCatalogBackup, changes it
// in one transaction. The caller is alone in the store. Wherever it fails or is killed, the catalog is as before or as after, and the next
// open goes on. NO_SPACE: as before. `known`: the store's id from FORMAT; without one the store gets a new id.
Status migrate_catalog(Env* env, const std::string& root, const std::optional<StoreId>& known);

}  // namespace kvrt
