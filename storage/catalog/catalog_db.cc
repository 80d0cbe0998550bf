#include "storage/catalog/catalog_db.h"

#include <sqlite3.h>

#include <algorithm>
#include <vector>

#include "storage/catalog/rows.h"
#include "storage/catalog/transaction.h"

namespace kvrt {

namespace {

constexpr int64_t kPageBytes = 4096;

// Reads the file to its end through SQLite's own file calls.
bool can_be_read(Db* db, int which) {
  sqlite3_file* file = nullptr;
  sqlite3_int64 size = 0;
  sqlite3_file_control(db->handle(), "main", which, &file);
  if (file == nullptr || file->pMethods == nullptr) return true;
  int code = file->pMethods->xFileSize(file, &size);
  std::vector<uint8_t> page(4096);
  const int n = static_cast<int>(page.size());
  for (sqlite3_int64 at = 0; code == SQLITE_OK && at + n <= size; at += n) code = file->pMethods->xRead(file, page.data(), n, at);
  return code == SQLITE_OK;
}

// CORRUPT, or IO where the files cannot be read: SQLite's check does not tell the two apart.
Status quick_check(Db* db, const std::string& path) {
  std::string found;
  for (int i = 0; i < 2; i++) {
    Query q = db->query("PRAGMA quick_check(1)");
    KVRT_ASSIGN(bool row, q.next());
    found = row ? q.text(0) : "quick_check";
    if (found == "ok") return {};
  }
  const bool readable = can_be_read(db, SQLITE_FCNTL_FILE_POINTER) && can_be_read(db, SQLITE_FCNTL_JOURNAL_POINTER);
  return error(readable ? Code::kCorrupt : Code::kIo, readable ? Detail::kCatalogCorrupt : Detail::kNone, "%s: %s", path.c_str(),
               found.c_str());
}

}  // namespace

Status CatalogDb::open(const std::string& path, const OpenMode& mode) {
  const NoFileSizeSignal no_signal;  // SQLite may have to make the log's index
  if (sqlite3_threadsafe() == 0) return error(Code::kUnsupported, Detail::kNone, "SQLite is built without threads");
  read_only_ = mode.read_only;
  const int flags = (mode.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  if (mode.immutable) db_.watch_content(path);
  KVRT_TRY(db_.open(path, flags, mode.immutable ? "?immutable=1" : ""));
  db_.set_write_lock(mode.write_lock);
  KVRT_TRY(configure());
  KVRT_TRY(check_schema(mode.oldest));
  KVRT_TRY(check_pages());
  if (mode.check) KVRT_TRY(quick_check(&db_, path));
  KVRT_TRY(read_meta());
  if (!mode.immutable) db_.watch_log();
  KVRT_ASSIGN(const int64_t found, schema());
  return found == kCatalogSchema && identity_schema_ != kCatalogSchema ? broken_row("meta: identity") : Status();
}

Status CatalogDb::open_unchecked(const std::string& path, bool read_only, bool log) {
  read_only_ = read_only;
  KVRT_TRY(db_.open(path, read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, read_only && !log ? "?immutable=1" : ""));
  return configure();
}

Status CatalogDb::check_schema(int32_t oldest) {
  KVRT_ASSIGN(const int64_t found, schema());
  if (found >= oldest && found <= kCatalogSchema) return {};
  return error(Code::kIncompatible, Detail::kStoreTooNew, "the catalog has schema %lld now, this kvrt knows %d",
               static_cast<long long>(found), kCatalogSchema);
}

Status CatalogDb::configure() {
  sqlite3* db = db_.handle();
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 256 << 20);
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 64 << 10);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  KVRT_TRY(
      db_.exec("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=ON;"
               "PRAGMA busy_timeout=5000; PRAGMA cache_size=-8192"));
  if (read_only_) return db_.exec("PRAGMA query_only=ON");
  KVRT_TRY(db_.exec("PRAGMA journal_size_limit=16777216; PRAGMA secure_delete=ON; PRAGMA synchronous=FULL"));
  Query q = db_.query("PRAGMA journal_mode");
  KVRT_ASSIGN(bool row, q.next());
  if (!row || q.text(0) != "wal") {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "the catalog's journal mode is %s, a store's is wal", q.text(0).c_str());
  }
  return {};
}

// SQLite reads others, too; but what looks into pages by itself (the log's repair, gc) does not.
Status CatalogDb::check_pages() {
  KVRT_ASSIGN(const int64_t bytes, db_.number("PRAGMA page_size"));
  Query q = db_.query("PRAGMA encoding");
  KVRT_ASSIGN(bool row, q.next());
  const auto name = row ? q.utf8(0) : std::span<const uint8_t>();
  const std::string encoding(name.begin(), name.end());
  if (bytes == kPageBytes && encoding == "UTF-8") return {};
  return error(Code::kCorrupt, Detail::kCatalogCorrupt,
               "catalog: its pages have %lld bytes and its texts are %s, a store's have %lld and are UTF-8", static_cast<long long>(bytes),
               encoding.c_str(), static_cast<long long>(kPageBytes));
}

// A schema without an identity is known by its tables; then identity_schema_ is 0.
Status CatalogDb::read_meta() {
  std::vector<uint8_t> identity;
  bool salted = false;
  {
    Query q = db_.query("SELECT name, value FROM meta");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      if (q.text(0) == "salt") salted = copy_exact(q.blob(1), salt_.bytes);
      if (q.text(0) == "identity") identity.assign(q.blob(1).begin(), q.blob(1).end());
    }
  }
  if (!salted) return broken_row("meta: salt");
  if (!identity.empty() && !parse_identity(identity, salt_, &identity_schema_, &id_)) return broken_row("meta: identity");
  return {};
}

Result<int32_t> CatalogDb::true_schema() {
  KVRT_TRY(read_meta());
  if (identity_schema_ != 0) return identity_schema_;
  Query q = db_.query("SELECT (SELECT count(*) FROM pragma_table_info('sessions')), (SELECT count(*) FROM pragma_table_info('totals'))");
  KVRT_ASSIGN(bool row, q.next());
  if (row && q.integer(0) == 15 && q.integer(1) == 0) return 2;
  if (row && q.integer(0) == 21 && q.integer(1) == 9) return 3;
  return broken_row("meta: identity");
}

bool CatalogDb::cannot_open(const Status& status) {
  return status.code() == Code::kIo && status.detail() == Detail::kNone && (status.os_code() & 0xff) == SQLITE_CANTOPEN;
}

Status CatalogDb::close(bool fold) {
  if (db_.handle() == nullptr) return {};
  if (read_only_) return db_.close();
  if (!fold) {
    sqlite3_db_config(db_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return db_.close();
  }
  const Impatient soon(&db_, kCloseWaitMs);
  WriteTurn turn(&db_);
  if (!turn.take().is_ok()) {  // its holder has the store open, and folds the log when it closes
    sqlite3_db_config(db_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return db_.close();
  }
  (void)db_.exec("PRAGMA synchronous=FULL").is_ok();
  auto free_pages = db_.number("PRAGMA freelist_count");
  if (free_pages.is_ok() && *free_pages > 256) (void)db_.exec("PRAGMA incremental_vacuum").is_ok();
  return db_.close();
}

void CatalogDb::take(CatalogDb* other) {
  db_.take(&other->db_);
  read_only_ = other->read_only_;
  syncs_ = other->syncs_;
}

Status CatalogDb::set_durability(Durability d) {
  syncs_ = waits_for_disk(d);
  switch (d) {
    case Durability::kNone:  // not OFF, which does not sync the header of a log that starts anew: after a power cut old frames could count
    case Durability::kProcess:
      return db_.query("PRAGMA synchronous=NORMAL").run();
    default:
      return db_.query("PRAGMA synchronous=FULL").run();
  }
}

Status CatalogDb::settle() {
  KVRT_TRY(set_durability(Durability::kTokens));
  CatalogTransaction txn(this);
  KVRT_TRY(txn.begin());
  txn.totals.used = true;
  return txn.commit();
}

Status CatalogDb::checkpoint(bool truncate) {
  WriteTurn turn(&db_);
  KVRT_TRY(turn.take());
  KVRT_TRY(set_durability(Durability::kTokens));
  return db_.checkpoint(truncate);
}

uint64_t CatalogDb::disk_bytes() {
  auto pages = db_.number("PRAGMA page_count");
  return (pages.is_ok() ? static_cast<uint64_t>(*pages * kPageBytes) : 0) + db_.wal_bytes();
}

uint64_t CatalogDb::free_bytes() {
  auto pages = db_.number("PRAGMA freelist_count");
  return pages.is_ok() ? static_cast<uint64_t>(*pages * kPageBytes) : 0;
}

Result<uint64_t> CatalogDb::vacuum(const std::function<bool()>& more) {
  KVRT_ASSIGN(const int64_t before, db_.number("PRAGMA freelist_count"));
  if (before <= 0) return uint64_t{0};
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  int64_t left = before, last;
  do {
    last = left;
    KVRT_TRY(db_.query("PRAGMA incremental_vacuum(16)").run());
    KVRT_ASSIGN(left, db_.number("PRAGMA freelist_count"));
  } while (left > 0 && left < last && more());
  KVRT_TRY(txn.commit());
  return static_cast<uint64_t>(std::max<int64_t>(before - left, 0));
}

}  // namespace kvrt
