// The schema of the catalog: its numbers, its tables, and meta's row `identity`, which names the store and the schema.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "storage/catalog/sqlite_db.h"
#include "storage/values.h"

namespace kvrt {

inline constexpr int32_t kCatalogApplicationId = 0x4B565254;  // "KVRT"
inline constexpr int32_t kCatalogSchema = 4;
inline constexpr int32_t kCatalogSchemaOldest = 2;  // the oldest schema that is migrated

extern const char kSchemaSql[];  // creates the tables
// Says which table or index is the first that is not as kSchemaSql has it: "index nodes_by_parent is missing". "": all are.
Result<std::string> find_strange_table(Db* db);

// Whether nodes has its column of items. A catalog of this schema that was made before that column gets it with the first node that has
// items.
Result<bool> nodes_have_items(Db* db);
Status add_items_column(Db* db);  // if it is missing; a part of the caller's transaction

Status put_identity(Db* db, const Hash256& salt, const StoreId& id);
// False: the checksum is wrong.
bool parse_identity(std::span<const uint8_t> value, const Hash256& salt, int32_t* schema, StoreId* id);

}  // namespace kvrt
