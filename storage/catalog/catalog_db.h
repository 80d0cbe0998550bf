// CatalogDb: the open database of a catalog, which all its tables use: opening and closing, how far a transaction waits for the disk, the
// log. A Catalog owns it. Not thread-safe.
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
    bool immutable = false;           // it needs no log, no shared memory, no lock; once somebody writes it, look-ups are IO
    bool check = false;               // run SQLite's quick check
    int32_t oldest = kCatalogSchema;  // the oldest schema that is taken; older ones are INCOMPATIBLE
    FileLock* write_lock = nullptr;   // see Db
  };
  Status open(const std::string& path, const OpenMode& mode);
  Result<int64_t> schema() { return db_.number("PRAGMA user_version"); }
  // Opens it whatever the numbers in its header are. `read_only`: no file is changed, and nobody writes it meanwhile.
  // With `log` what is in the log counts, too.
  Status open_unchecked(const std::string& path, bool read_only, bool log = false);
  Status check_schema(int32_t oldest = kCatalogSchema);  // INCOMPATIBLE if it is another: a later kvrt may have migrated it since
  Result<int32_t> true_schema();                         // by its identity or its tables; CORRUPT: by neither
  Status migrate(const StoreId& id);                     // to kCatalogSchema, in one transaction, a part of the store `id`; see migrate.h
  const StoreId& id() const { return id_; }
  const Hash256& salt() const { return salt_; }  // the store's: a tombstone has a hash keyed by it, not the name
  Db* sql() { return &db_; }
  // True of a Status of open: SQLite could not open or make a file, and does not say why.
  static bool cannot_open(const Status& status);
  // With `fold` the last connection folds the log in and removes it. Else the log stays, and the next open that is alone checks the store.
  Status close(bool fold);
  // Closes its connection, and takes that of `other`, which has the same catalog open.
  void take(CatalogDb* other);

  Status check_in_place() { return db_.check_in_place(); }
  bool in_place() { return db_.in_place(); }  // the database alone, not its log
  bool log_in_place() const { return db_.log_in_place(); }

  bool sync_failed() const { return db_.sync_failed(); }
  Status set_durability(Durability d);   // for the transactions that follow
  bool syncs() const { return syncs_; }  // transactions wait for the disk
  Status settle();                       // a transaction for its sync alone: all commits before it, by any process, are on the disk
  // The segments of the trash that a transaction found there and then waited for the disk: a power cut does not bring their rows back, so
  // their files may go.
  std::vector<SegmentId>& settled_trash() { return settled_trash_; }

  uint64_t disk_bytes();  // database and log
  uint64_t free_bytes();  // of the database: pages that the next rows take
  // Gives free pages back, in one transaction as long as more() is true. The count.
  Result<uint64_t> vacuum(const std::function<bool()>& more);
  // Folds the log in. `truncate`: in full, and its file is empty afterwards; BUSY while a reader elsewhere needs it.
  Status checkpoint(bool truncate = false);
  // Folds the log in full. Then zeroes the rests of other rows that SQLite leaves in the free parts of pages, from page `scrubbed` on, as
  // long as more() is true. Finished at the end of the file. BUSY as checkpoint.
  struct Scrub {
    uint64_t scrubbed = 0;
    bool finished = false;
  };
  Status scrub(Scrub* scrub, const std::function<bool()>& more);
  uint64_t log_bytes() const { return db_.wal_bytes(); }
  uint64_t log_file_bytes() { return db_.log_file_bytes(); }                      // with other writers' frames
  Impatient impatient(uint64_t wait_ms = 0) { return Impatient(&db_, wait_ms); }  // a wait for other writers, while it lives

 private:
  Status configure();
  Status check_pages();
  Status read_meta();

  Db db_;
  bool read_only_ = false;
  bool syncs_ = false;
  std::vector<SegmentId> settled_trash_;
  StoreId id_;
  int32_t identity_schema_ = 0;  // the schema in meta's identity; 0: meta has none
  Hash256 salt_;
};

}  // namespace kvrt
