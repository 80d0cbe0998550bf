#include "storage/catalog/catalog.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "runtime/base/bytes.h"
#include "storage/catalog/rows.h"
#include "storage/catalog/safe_files.h"

namespace kvrt {

namespace {

constexpr char kSchemaSql[] = R"sql(
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY,
  name BLOB NOT NULL UNIQUE CHECK(length(name) = 16),
  bytes INTEGER NOT NULL,
  live INTEGER NOT NULL CHECK(live >= 0),
  synced INTEGER NOT NULL) STRICT;
CREATE INDEX segments_sparse ON segments(id) WHERE 2 * live < bytes;
CREATE TABLE nodes(
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK(length(key) = 32),
  parent INTEGER,
  n INTEGER NOT NULL CHECK(n > 0 AND length(tokens) = 4 * n),
  tokens BLOB NOT NULL,
  refs INTEGER NOT NULL CHECK(refs >= 0),
  segment INTEGER REFERENCES segments(id),
  offset INTEGER, bytes INTEGER, raw_bytes INTEGER) STRICT;
CREATE INDEX nodes_by_segment ON nodes(segment) WHERE segment IS NOT NULL;
CREATE INDEX nodes_unused ON nodes(refs) WHERE refs = 0;
CREATE INDEX nodes_by_parent ON nodes(parent) WHERE parent IS NOT NULL;
CREATE TABLE sessions(
  domain TEXT NOT NULL, name TEXT NOT NULL,
  id BLOB NOT NULL CHECK(length(id) = 16),
  gen INTEGER NOT NULL,
  root BLOB NOT NULL CHECK(length(root) = 32),
  head INTEGER REFERENCES nodes(id),
  tokens INTEGER NOT NULL,
  block_tokens INTEGER NOT NULL,
  pinned INTEGER NOT NULL CHECK(pinned BETWEEN 0 AND 255),
  expires_ms INTEGER NOT NULL CHECK(expires_ms >= 0),
  created_ms INTEGER NOT NULL, saved_ms INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  model_id BLOB NOT NULL CHECK(length(model_id) = 32),
  manifest BLOB NOT NULL,
  used INTEGER NOT NULL,
  chunks INTEGER NOT NULL, chunks_missing INTEGER NOT NULL,
  chunk_bytes INTEGER NOT NULL, chunk_bytes_shared INTEGER NOT NULL, counted INTEGER NOT NULL,
  PRIMARY KEY(domain, name)) STRICT;
CREATE INDEX sessions_by_head ON sessions(head);
CREATE INDEX sessions_by_use ON sessions(used) WHERE used > 0;
CREATE INDEX sessions_by_expiry ON sessions(expires_ms, pinned) WHERE expires_ms > 0;
CREATE TABLE totals(
  one INTEGER PRIMARY KEY CHECK(one = 1),
  chunks INTEGER NOT NULL, chunk_bytes INTEGER NOT NULL, chunk_raw_bytes INTEGER NOT NULL,
  segments INTEGER NOT NULL, segment_bytes INTEGER NOT NULL,
  clock INTEGER NOT NULL, shares INTEGER NOT NULL, seen_ms INTEGER NOT NULL) STRICT;
INSERT INTO totals VALUES(1, 0, 0, 0, 0, 0, 0, 0, 0);
CREATE TABLE tombstones(name BLOB PRIMARY KEY, gen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE trash(name BLOB PRIMARY KEY CHECK(length(name) = 16)) STRICT, WITHOUT ROWID;
CREATE TABLE model_ids(
  device INTEGER NOT NULL, inode INTEGER NOT NULL,
  file BLOB NOT NULL, model_id BLOB NOT NULL, checksum BLOB NOT NULL,
  PRIMARY KEY(device, inode)) STRICT, WITHOUT ROWID;
)sql";

int32_t big_endian(const uint8_t* p) {
  return static_cast<int32_t>(uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]});
}

}  // namespace

Result<Catalog::Probe> Catalog::probe(Env* env, const std::string& path) {
  Probe probe;
  KVRT_TRY(check_catalog_files(env, path));
  KVRT_ASSIGN(bool there, env->exists(path));
  if (!there) return probe;
  probe.kind = Kind::kCorrupt;
  Db db;
  KVRT_TRY(db.open(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY, path));
  // Not parsed: without the log the file need not be whole, while somebody folds it in, or after one was killed at that.
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db.handle(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  std::array<uint8_t, 100> head;
  const int code = file->pMethods->xRead(file, head.data(), static_cast<int>(head.size()), 0);
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) return db.fail(code);
  sqlite3_int64 bytes = 0;
  KVRT_TRY(file->pMethods->xFileSize(file, &bytes) == SQLITE_OK ? Status() : db.fail(SQLITE_IOERR_FSTAT));
  const bool whole = code == SQLITE_OK && std::memcmp(head.data(), "SQLite format 3", 16) == 0;
  probe.schema = big_endian(head.data() + 60);
  probe.application_id = big_endian(head.data() + 68);
  probe.whole = whole;
  probe.kind = !whole                                          ? Kind::kCorrupt
               : probe.application_id != kCatalogApplicationId ? Kind::kForeign
               : probe.schema > kCatalogSchema                 ? Kind::kTooNew
               : probe.schema < 1                              ? Kind::kCorrupt
               : probe.schema < kCatalogSchemaOldest           ? Kind::kTooOld
               : probe.schema < kCatalogSchema                 ? Kind::kOld
                                                               : Kind::kOurs;
  auto log = env->open_read(path + "-wal");
  if (log.is_ok()) {
    KVRT_ASSIGN(uint64_t log_bytes, (*log)->size());
    probe.log = true;
    probe.log_rows = log_bytes > 0;
    if (!whole && probe.log_rows && bytes > 1) probe.kind = Kind::kTorn;  // of an empty database SQLite deletes the log
  } else if (log.status().code() != Code::kNotFound) {
    return log.take_status();
  }
  return probe;
}

Status Catalog::build(Env* env, const std::string& path, const std::function<Status(Db*)>& fill) {
  const NoFileSizeSignal no_signal;
  { KVRT_ASSIGN(auto file, env->create_new(path)); }  // 0600; the log takes over its mode
  Db db;
  KVRT_TRY(db.open(file_uri(path), SQLITE_OPEN_READWRITE, path));
  KVRT_TRY(db.exec("PRAGMA locking_mode=EXCLUSIVE; PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=FULL;"));
  KVRT_TRY(db.exec("PRAGMA journal_mode=WAL"));
  {
    Transaction txn(&db);
    KVRT_TRY(txn.begin());
    std::string ids =
        "PRAGMA application_id=" + std::to_string(kCatalogApplicationId) + "; PRAGMA user_version=" + std::to_string(kCatalogSchema) + ";";
    KVRT_TRY(db.exec(ids.c_str()));
    KVRT_TRY(db.exec(kSchemaSql));
    KVRT_TRY(fill(&db));
    KVRT_TRY(txn.commit());
  }
  KVRT_TRY(db.checkpoint(true));
  return db.close();
}

// SQLite's check reads its schema and believes it: a flipped letter in it shows when a statement needs it.
Result<bool> Catalog::has_our_tables() {
  const auto list = [](Db* db) -> Result<std::string> {
    std::string all;
    Query q = db->query("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) return all;
      for (int i = 0; i < 4; i++) all += q.text(i) + "\n";
    }
  };
  KVRT_ASSIGN(const std::string found, list(&db_));
  static std::mutex mutex;      // guards `expected`; no other mutex of the store is taken under it
  static std::string expected;  // the same for every store
  std::lock_guard lock(mutex);
  if (expected.empty()) {
    Db ours;
    KVRT_TRY(ours.open("file::memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "memory"));
    KVRT_TRY(ours.exec(kSchemaSql));
    KVRT_ASSIGN(expected, list(&ours));
  }
  return found == expected;
}

Status Catalog::create(Env* env, const std::string& root) {
  Hash256 salt;
  StoreId id;
  env->random(salt.bytes);
  env->random(id.bytes);
  SegmentId unique;
  env->random(unique.bytes);
  std::string tmp = root + "/tmp/" + unique.hex() + ".db";
  const auto fill = [&](Db* db) -> Status {
    KVRT_TRY(db->query("INSERT INTO meta(name, value) VALUES('salt', ?)").bind_blob(salt.bytes).run());
    return put_identity(db, salt, id);
  };
  KVRT_TRY(build(env, tmp, fill));
  KVRT_TRY(env->rename_new(tmp, root + "/catalog.db"));
  return env->sync_dir(root);
}

namespace {

// Reads all of the file, as SQLite does.
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

// CORRUPT, unless the catalog could only not be read: SQLite's check says the same of both.
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

Status Catalog::open(const std::string& path, const OpenMode& mode) {
  const NoFileSizeSignal no_signal;  // the log's index may have to be made
  if (sqlite3_threadsafe() == 0) return error(Code::kUnsupported, Detail::kNone, "SQLite is built without threads");
  read_only_ = mode.read_only;
  const int flags = (mode.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  KVRT_TRY(db_.open(file_uri(path) + (mode.immutable ? "?immutable=1" : ""), flags, path));
  db_.set_write_lock(mode.write_lock);
  KVRT_TRY(configure());
  KVRT_TRY(check_schema(mode.oldest));
  if (mode.check) KVRT_TRY(quick_check(&db_, path));
  KVRT_TRY(read_meta());
  KVRT_ASSIGN(const int64_t found, schema());
  return found == kCatalogSchema && identity_schema_ != kCatalogSchema ? broken_row("meta: identity") : Status();
}

Status Catalog::check_schema(int32_t oldest) {
  KVRT_ASSIGN(const int64_t found, schema());
  if (found >= oldest && found <= kCatalogSchema) return {};
  return error(Code::kIncompatible, Detail::kStoreTooNew, "the catalog has schema %lld now, this kvrt knows %d",
               static_cast<long long>(found), kCatalogSchema);
}

Status Catalog::configure() {
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

Status Catalog::close(bool fold) {
  if (db_.handle() == nullptr) return {};
  if (read_only_) return db_.close();
  if (!fold) {
    sqlite3_db_config(db_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return db_.close();
  }
  const Impatient soon(&db_, kCloseWaitMs);
  WriteTurn turn(&db_);
  if (!turn.take().is_ok()) {  // who has it has the store open, and folds the log when it closes
    sqlite3_db_config(db_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return db_.close();
  }
  (void)db_.exec("PRAGMA synchronous=FULL").is_ok();
  auto free_pages = db_.number("PRAGMA freelist_count");
  if (free_pages.is_ok() && *free_pages > 256) (void)db_.exec("PRAGMA incremental_vacuum").is_ok();
  return db_.close();
}

Status Catalog::set_durability(Durability d) {
  syncs_ = d != Durability::kNone && d != Durability::kProcess;
  switch (d) {
    case Durability::kNone:
      return db_.query("PRAGMA synchronous=OFF").run();
    case Durability::kProcess:
      return db_.query("PRAGMA synchronous=NORMAL").run();
    default:
      return db_.query("PRAGMA synchronous=FULL").run();
  }
}

Status Catalog::checkpoint(bool truncate) {
  WriteTurn turn(&db_);
  KVRT_TRY(turn.take());
  KVRT_TRY(set_durability(Durability::kTokens));
  return db_.checkpoint(truncate);
}

uint64_t Catalog::disk_bytes() {
  auto pages = db_.number("PRAGMA page_count");
  return (pages.is_ok() ? static_cast<uint64_t>(*pages) * 4096 : 0) + db_.wal_bytes();
}

Hash256 Catalog::tombstone(std::string_view domain, std::string_view name) const {
  return Hasher(salt_).add_string(domain).add_string(name).finish();
}

}  // namespace kvrt
