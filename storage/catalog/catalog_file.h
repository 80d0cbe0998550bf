// catalog.db as a file: what its header says before it is opened, and how a new one is made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/status.h"
#include "storage/catalog/sqlite_db.h"

namespace kvrt {

// What the header says, read so that nothing is touched.
struct CatalogProbe {
  // kOld: to be migrated. kTorn: no header, but a log that may have it: the power went while that was folded in.
  // kFlipped: ours by all that it holds, but for a bit of one of its two numbers or of each: mend_catalog_numbers helps.
  enum class Kind { kMissing, kOurs, kOld, kTorn, kTooNew, kTooOld, kForeign, kCorrupt, kFlipped };
  Kind kind = Kind::kMissing;
  bool whole = false;  // it is a database
  int32_t application_id = 0, schema = 0;
  bool log = false;       // there is a log: somebody has it open, or did not close it
  bool log_rows = false;  // with something in it
};

// Through SQLite, immutable: closing a descriptor of our own would free the locks that SQLite holds elsewhere in this process.
Result<CatalogProbe> probe_catalog(Env* env, const std::string& path);
// Looks into a catalog that is none by the numbers in its header: kFlipped where its meta and tables say otherwise. Changes nothing.
Status recognize_catalog(const std::string& path, CatalogProbe* probe);
// The numbers again, for who is alone in the store.
Status mend_catalog_numbers(const std::string& path);
// A new database at `path` with the tables, and in the same transaction what `fill` puts into them. On the disk when it returns, without a log.
Status build_catalog(Env* env, const std::string& path, const std::function<Status(Db*)>& fill);
// Builds an empty catalog under tmp/ and gives it its name in one rename: a catalog.db that exists is whole.
Status create_catalog(Env* env, const std::string& root);

}  // namespace kvrt
