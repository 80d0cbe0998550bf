// CatalogDb: the open database of a catalog. What concerns all its tables: opening and closing, how far a transaction waits for the disk, the
// log. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "storage/catalog/schema.h"
#include "storage/catalog/sqlite_db.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

class CatalogDb {
 public:
  struct OpenMode {
    bool read_only = false;
    bool immutable = false;           // nobody writes it as long as it is open: needs no log, no shared memory, no lock
    bool check = false;               // the last writer did not close it
    int32_t oldest = kCatalogSchema;  // what it may have; others are INCOMPATIBLE
    FileLock* write_lock = nullptr;   // see Db
  };
  Status open(const std::string& path, const OpenMode& mode);
  Result<int64_t> schema() { return db_.number("PRAGMA user_version"); }
  // Whatever its header says. `read_only`: nothing is touched; nobody writes it meanwhile.
  Status open_unchecked(const std::string& path, bool read_only);
  Status check_schema(int32_t oldest = kCatalogSchema);  // INCOMPATIBLE if it has another: somebody may have migrated it since
  Result<int32_t> true_schema();                         // by what it holds; CORRUPT: by nothing that this kvrt knows
  Status migrate(const StoreId& id);                     // to kCatalogSchema, in one transaction, a part of the store `id`; see migrate.h
  const StoreId& id() const { return id_; }
  const Hash256& salt() const { return salt_; }  // of this store: names of removed sessions are kept as keyed hashes only
  Db* sql() { return &db_; }
  // With `fold` the last connection folds the log in and removes it. Else it stays, and the next one that is alone checks everything.
  Status close(bool fold);

  Status check_in_place() { return db_.check_in_place(); }

  bool sync_failed() const { return db_.sync_failed(); }
  Status set_durability(Durability d);   // of the following transactions
  bool syncs() const { return syncs_; }  // they wait for the disk
  Status settle();                       // a transaction of no other effect: what was committed before it, by whomever, is on the disk
  // Of the segments in the trash, what a transaction that waited for the disk found there: their files may go, a power cut does not bring
  // their rows back.
  std::vector<SegmentId>& settled_trash() { return settled_trash_; }

  uint64_t disk_bytes();  // database and log
  // Folds the log in. `truncate`: all of it, and its file is empty then; BUSY while a reader elsewhere is in need of it.
  Status checkpoint(bool truncate = false);
  // The log folded in full, and then zeros for what SQLite leaves of other rows in the free parts of pages, from page `scrubbed` on, as
  // long as more() says so; to the end of the file it is finished. BUSY as checkpoint.
  struct Scrub {
    uint64_t scrubbed = 0;
    bool finished = false;
  };
  Status scrub(Scrub* scrub, const std::function<bool()>& more);
  uint64_t log_bytes() const { return db_.wal_bytes(); }
  uint64_t log_file_bytes() { return db_.log_file_bytes(); }                      // what others wrote, too
  Impatient impatient(uint64_t wait_ms = 0) { return Impatient(&db_, wait_ms); }  // meanwhile so long for others that write

 private:
  Status configure();
  Status read_meta();

  Db db_;
  bool read_only_ = false;
  bool syncs_ = false;
  std::vector<SegmentId> settled_trash_;
  StoreId id_;
  int32_t identity_schema_ = 0;  // that meta says; 0: it does not
  Hash256 salt_;
};

}  // namespace kvrt
