// The table model_ids: the cache of model_id by file.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/values.h"

namespace kvrt {

class ModelIdTable {
 public:
  explicit ModelIdTable(CatalogDb* catalog) : catalog_(catalog), db_(catalog->sql()) {}

  bool find(const ModelFile& file, Hash256* out);
  Status put(const ModelFile& file, const Hash256& id);
  // A row whose checksum is wrong is a fault for check; forget_wrong removes it, and counts.
  Status check(std::vector<VerifyFault>* faults);
  Result<uint64_t> forget_wrong();

 private:
  CatalogDb* const catalog_;
  Db* const db_;
};

}  // namespace kvrt
