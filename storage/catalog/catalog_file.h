// Looks at the header of catalog.db before it is opened, and makes new ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/status.h"
#include "storage/catalog/sqlite_db.h"

namespace kvrt {

// What the catalog's header tells. The look changes no file.
struct CatalogProbe {
  // kOld: it is to be migrated. kTorn: it has no header, but a log that may have it, since power failed while the log was folded in.
  // kFlipped: its tables and meta are ours, but one bit of application_id, of user_version or of each is wrong: mend_catalog_numbers helps.
  enum class Kind { kMissing, kOurs, kOld, kTorn, kTooNew, kTooOld, kForeign, kCorrupt, kFlipped };
  Kind kind = Kind::kMissing;
  bool whole = false;   // the file begins with an SQLite header
  bool logged = false;  // the header says that the database has a log (journal mode WAL), as every catalog of ours does
  int32_t application_id = 0, schema = 0;
  bool log = false;       // there is a log: a process has the catalog open, or did not close it
  bool log_rows = false;  // the log is not empty
  bool index = false;     // there is a log's index
};

// Reads the file through SQLite, as an immutable one: closing a descriptor of our own would free the locks that SQLite holds elsewhere in this
// process.
Result<CatalogProbe> probe_catalog(Env* env, const std::string& path);
// Looks into a database whose header's numbers are not a catalog's: it is kFlipped if its meta and tables are. Changes no file.
Status recognize_catalog(const std::string& path, CatalogProbe* probe);
// Writes the header's numbers anew. The caller is alone in the store.
Status mend_catalog_numbers(const std::string& path);
// Makes a database at `path`: the tables, and the rows that `fill` adds, in one transaction. It is on the disk, without a log, on return.
Status build_catalog(Env* env, const std::string& path, const std::function<Status(Db*)>& fill);
// Builds an empty catalog under tmp/ and gives it its name in one rename: a catalog.db that exists is whole.
Status create_catalog(Env* env, const std::string& root);

}  // namespace kvrt
