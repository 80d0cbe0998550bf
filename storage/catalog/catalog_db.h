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
    bool immutable = false;           // it is read without log, shared memory and lock; once somebody writes it, look-ups fail with IO
    bool check = false;               // run SQLite's quick check
    int32_t oldest = kCatalogSchema;  // the oldest schema that is taken; older ones are INCOMPATIBLE
    FileLock* write_lock = nullptr;   // see Db
  };
  Status open(const std::string& path, const OpenMode& mode);
  Result<int64_t> schema() { return db_.number("PRAGMA user_version"); }
  // Opens the database whatever the numbers in its header are. With `read_only` no file is changed; nobody may write it meanwhile. With `log`
  // what is in the log counts, too.
  Status open_unchecked(const std::string& path, bool read_only, bool log = false);
  Status check_schema(int32_t oldest = kCatalogSchema);  // INCOMPATIBLE: it is another schema, for a later kvrt may have migrated it since
  Result<int32_t> true_schema();                         // told by its identity or its tables; CORRUPT: neither tells
  Status migrate(const StoreId& id);                     // to kCatalogSchema, in one transaction, a part of the store `id`; see schema_migration.cc
  const StoreId& id() const { return id_; }
  const Hash256& salt() const { return salt_; }  // the store's salt: a tombstone has a hash of the name that is keyed by it, not the name
  Db* sql() { return &db_; }
  // Whether a Status of open says that SQLite could not open or make a file: it does not say why.
  static bool cannot_open(const Status& status);
  // With `fold` the last connection folds the log in and removes it. Otherwise the log stays, and the next open with nobody else in
  // the store checks it.
  Status close(bool fold);
  // Closes this connection and takes that of `other`, which has the same catalog open.
  void take(CatalogDb* other);

  Status check_in_place() { return db_.check_in_place(); }
  bool in_place() { return db_.in_place(); }  // only the database is looked at, not its log
  bool log_in_place() const { return db_.log_in_place(); }

  bool sync_failed() const { return db_.sync_failed(); }
  Status set_durability(Durability d);   // for the transactions that follow
  bool syncs() const { return syncs_; }  // transactions wait for the disk
  Status settle();                       // a transaction only for its sync: then all commits before it, of any process, are on the disk
  // The segments of the trash that a transaction found there and then waited for the disk: a power cut does not bring their rows back, so
  // their files may go.
  std::vector<SegmentId>& settled_trash() { return settled_trash_; }

  uint64_t disk_bytes();  // database and log
  uint64_t free_bytes();  // free pages of the database, which the next rows take
  // Gives free pages back, in one transaction, as long as more() is true. It returns their count.
  Result<uint64_t> vacuum(const std::function<bool()>& more);
  // Folds the log in. With `truncate` it does so in full and leaves an empty file; that is BUSY while a reader elsewhere needs the log.
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
