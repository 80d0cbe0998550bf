#include "storage/catalog.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>

#include "runtime/base/bytes.h"

namespace kvrt {

namespace {

constexpr uint64_t kLogBytesMax = 4u << 20;

constexpr char kSchemaSql[] = R"sql(
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY,
  name BLOB NOT NULL UNIQUE CHECK(length(name) = 16),
  bytes INTEGER NOT NULL,
  live INTEGER NOT NULL CHECK(live >= 0),
  synced INTEGER NOT NULL) STRICT;
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
CREATE TABLE sessions(
  domain TEXT NOT NULL, name TEXT NOT NULL,
  id BLOB NOT NULL CHECK(length(id) = 16),
  gen INTEGER NOT NULL,
  root BLOB NOT NULL CHECK(length(root) = 32),
  head INTEGER REFERENCES nodes(id),
  tokens INTEGER NOT NULL,
  block_tokens INTEGER NOT NULL,
  pinned INTEGER NOT NULL CHECK(pinned IN (0, 1)),
  expires_ms INTEGER NOT NULL CHECK(expires_ms >= 0),
  created_ms INTEGER NOT NULL, saved_ms INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  model_id BLOB NOT NULL CHECK(length(model_id) = 32),
  manifest BLOB NOT NULL,
  PRIMARY KEY(domain, name)) STRICT;
CREATE INDEX sessions_by_head ON sessions(head);
CREATE INDEX sessions_by_expiry ON sessions(expires_ms, pinned) WHERE expires_ms > 0;
CREATE TABLE tombstones(name BLOB PRIMARY KEY, gen INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE trash(name BLOB PRIMARY KEY CHECK(length(name) = 16)) STRICT, WITHOUT ROWID;
CREATE TABLE model_ids(
  device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  model_id BLOB NOT NULL CHECK(length(model_id) = 32),
  PRIMARY KEY(device, inode)) STRICT, WITHOUT ROWID;
)sql";

int32_t big_endian(const uint8_t* p) {
  return static_cast<int32_t>(uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]});
}

// file: URI of a path. Percent signs and question marks in a directory's name must not become escapes and options.
std::string file_uri(const std::string& path) {
  static const char kDigits[] = "0123456789ABCDEF";
  std::string uri = "file:";
  size_t start = 0;
  while (start + 1 < path.size() && path[start] == '/' && path[start + 1] == '/') start++;  // "//x" would be a host
  for (size_t i = start; i < path.size(); i++) {
    auto c = static_cast<unsigned char>(path[i]);
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '_' || c == '-';
    if (plain) {
      uri += static_cast<char>(c);
    } else {
      uri += '%';
      uri += kDigits[c >> 4];
      uri += kDigits[c & 15];
    }
  }
  return uri;
}

}  // namespace

Result<Catalog::Probe> Catalog::probe(Env* env, const std::string& path) {
  Probe probe;
  auto file = env->open_read(path);
  if (!file.is_ok()) {
    if (file.status().code() == Code::kNotFound) return probe;
    return file.take_status();
  }
  probe.kind = Kind::kCorrupt;
  std::array<uint8_t, 100> head;
  KVRT_ASSIGN(uint64_t size, (*file)->size());
  if (size < head.size()) return probe;
  KVRT_TRY((*file)->pread(0, head));
  if (std::memcmp(head.data(), "SQLite format 3", 16) != 0) return probe;
  probe.schema = big_endian(head.data() + 60);
  probe.application_id = big_endian(head.data() + 68);
  probe.kind = probe.application_id != kCatalogApplicationId ? Kind::kForeign
               : probe.schema > kCatalogSchema               ? Kind::kTooNew
               : probe.schema < 1                            ? Kind::kCorrupt
               : probe.schema < kCatalogSchema               ? Kind::kTooOld
                                                             : Kind::kOurs;
  auto wal = env->open_read(path + "-wal");
  if (wal.is_ok()) {
    KVRT_ASSIGN(uint64_t wal_bytes, (*wal)->size());
    probe.wal = wal_bytes > 0;
  } else if (wal.status().code() != Code::kNotFound) {
    return wal.take_status();
  }
  return probe;
}

Status Catalog::create(Env* env, const std::string& root) {
  std::array<uint8_t, 32> salt;
  env->random(salt);
  SegmentId unique;
  env->random(unique.bytes);
  std::string tmp = root + "/tmp/" + unique.hex() + ".db";
  { KVRT_ASSIGN(auto file, env->create_new(tmp)); }  // 0600; the log takes over its mode
  Db db;
  KVRT_TRY(db.open(file_uri(tmp), SQLITE_OPEN_READWRITE, tmp));
  KVRT_TRY(db.exec("PRAGMA locking_mode=EXCLUSIVE; PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=FULL;"));
  KVRT_TRY(db.exec("PRAGMA journal_mode=WAL"));
  {
    Transaction txn(&db);
    KVRT_TRY(txn.begin());
    std::string ids =
        "PRAGMA application_id=" + std::to_string(kCatalogApplicationId) + "; PRAGMA user_version=" + std::to_string(kCatalogSchema) + ";";
    KVRT_TRY(db.exec(ids.c_str()));
    KVRT_TRY(db.exec(kSchemaSql));
    KVRT_TRY(db.query("INSERT INTO meta(name, value) VALUES('salt', ?)").bind_blob(salt).run());
    KVRT_TRY(txn.commit());
  }
  KVRT_TRY(db.checkpoint(true));
  KVRT_TRY(db.close());
  KVRT_TRY(env->rename_new(tmp, root + "/catalog.db"));
  return env->sync_dir(root);
}

Status Catalog::open(Env*, const std::string& path, bool read_only, bool had_wal) {
  if (sqlite3_threadsafe() == 0) return error(Code::kUnsupported, Detail::kNone, "SQLite is built without threads");
  read_only_ = read_only;
  if (!read_only) {
    KVRT_TRY(db_.open(file_uri(path), SQLITE_OPEN_READWRITE, path));
  } else if (!had_wal) {
    KVRT_TRY(db_.open(file_uri(path) + "?immutable=1", SQLITE_OPEN_READONLY, path));  // needs no log, no shared memory, no lock
  } else {
    KVRT_TRY(db_.open(file_uri(path), SQLITE_OPEN_READONLY, path));
  }
  KVRT_TRY(configure(read_only));
  if (had_wal) {  // the last writer did not close
    Query q = db_.query("PRAGMA quick_check(1)");
    KVRT_ASSIGN(bool row, q.next());
    if (!row || q.text(0) != "ok") {
      return error(Code::kCorrupt, Detail::kCatalogCorrupt, "%s: %s", path.c_str(), row ? q.text(0).c_str() : "quick_check");
    }
  }
  Query q = db_.query("SELECT value FROM meta WHERE name = 'salt'");
  KVRT_ASSIGN(bool row, q.next());
  if (!row || q.blob(0).size() != 32) return error(Code::kCorrupt, Detail::kCatalogCorrupt, "%s: meta has no salt", path.c_str());
  std::copy_n(q.blob(0).data(), 32, salt_.bytes.begin());
  return {};
}

Status Catalog::configure(bool read_only) {
  sqlite3* db = db_.handle();
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 256 << 20);
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 64 << 10);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  // EXCLUSIVE before the first access: the log's index lives in this process's memory, and no other program reads half a store.
  if (!read_only) KVRT_TRY(db_.exec("PRAGMA locking_mode=EXCLUSIVE"));
  KVRT_TRY(
      db_.exec("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=ON;"
               "PRAGMA busy_timeout=2000; PRAGMA cache_size=-8192"));
  if (read_only) return db_.exec("PRAGMA query_only=ON");
  KVRT_TRY(
      db_.exec("PRAGMA journal_mode=WAL; PRAGMA journal_size_limit=16777216; PRAGMA secure_delete=ON;"
               "PRAGMA synchronous=FULL"));
  Query q = db_.query("PRAGMA journal_mode");
  KVRT_ASSIGN(bool row, q.next());
  if (!row || q.text(0) != "wal") return error(Code::kIo, Detail::kNone, "the catalog's journal mode is %s", q.text(0).c_str());
  return {};
}

Status Catalog::close() {
  if (db_.handle() == nullptr) return {};
  if (read_only_) return db_.close();
  (void)db_.exec("PRAGMA synchronous=FULL").is_ok();
  auto free_pages = db_.pragma("PRAGMA freelist_count");
  if (free_pages.is_ok() && *free_pages > 256) (void)db_.exec("PRAGMA incremental_vacuum").is_ok();
  return db_.close();  // the last connection folds the log in and removes it, under the store's lock
}

Status Catalog::set_durability(Durability d) {
  switch (d) {
    case Durability::kNone:
      return db_.query("PRAGMA synchronous=OFF").run();
    case Durability::kProcess:
      return db_.query("PRAGMA synchronous=NORMAL").run();
    default:
      return db_.query("PRAGMA synchronous=FULL").run();
  }
}

Status Catalog::checkpoint_if_long() { return db_.wal_bytes() < kLogBytesMax ? Status() : checkpoint(); }

Status Catalog::checkpoint() {
  KVRT_TRY(set_durability(Durability::kTokens));
  return db_.checkpoint(false);
}

uint64_t Catalog::disk_bytes() {
  auto pages = db_.pragma("PRAGMA page_count");
  return (pages.is_ok() ? static_cast<uint64_t>(*pages) * 4096 : 0) + db_.wal_bytes();
}

Hash256 Catalog::tombstone(std::string_view domain, std::string_view name) const {
  return Hasher(salt_).add_string(domain).add_string(name).finish();
}

bool Catalog::cached_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, Hash256* out) {
  Query q = db_.query("SELECT model_id FROM model_ids WHERE device = ? AND inode = ? AND size = ? AND mtime_ns = ?");
  auto row = q.bind_u64(device).bind_u64(inode).bind_u64(size).bind(mtime_ns).next();
  if (!row.is_ok() || !*row || q.blob(0).size() != 32) return false;
  std::copy_n(q.blob(0).data(), 32, out->bytes.begin());
  return true;
}

Status Catalog::cache_model_id(uint64_t device, uint64_t inode, uint64_t size, int64_t mtime_ns, const Hash256& id) {
  return db_.query("INSERT OR REPLACE INTO model_ids(device, inode, size, mtime_ns, model_id) VALUES(?, ?, ?, ?, ?)")
      .bind_u64(device)
      .bind_u64(inode)
      .bind_u64(size)
      .bind(mtime_ns)
      .bind_blob(id.bytes)
      .run();
}

}  // namespace kvrt
