#include "storage/catalog/catalog_file.h"

#include <sqlite3.h>

#include <array>
#include <bit>
#include <cstring>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/safe_files.h"
#include "storage/catalog/schema.h"
#include "storage/segment/segment.h"

namespace kvrt {

namespace {

int32_t big_endian(const uint8_t* p) {
  return static_cast<int32_t>(uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]});
}

// True if `a` and `b` differ in at most one bit.
bool near(int32_t a, int32_t b) { return std::popcount(static_cast<uint32_t>(a) ^ static_cast<uint32_t>(b)) <= 1; }

// By the numbers in its header.
CatalogProbe::Kind kind_of(const CatalogProbe& probe) {
  using Kind = CatalogProbe::Kind;
  if (!probe.whole) return Kind::kCorrupt;
  if (probe.application_id != kCatalogApplicationId) return Kind::kForeign;
  if (probe.schema > kCatalogSchema) return Kind::kTooNew;
  if (probe.schema < 1) return Kind::kCorrupt;
  if (probe.schema < kCatalogSchemaOldest) return Kind::kTooOld;
  return probe.schema < kCatalogSchema ? Kind::kOld : Kind::kOurs;
}

}  // namespace

Result<CatalogProbe> probe_catalog(Env* env, const std::string& path) {
  using Kind = CatalogProbe::Kind;
  CatalogProbe probe;
  KVRT_TRY(check_catalog_files(env, path));
  KVRT_ASSIGN(bool there, env->exists(path));
  if (!there) return probe;
  probe.kind = Kind::kCorrupt;
  Db db;
  KVRT_TRY(db.open(path, SQLITE_OPEN_READONLY, "?immutable=1"));
  // SQLite does not parse it here: the file without its log may be torn while a process folds the log in, or after one was killed at that.
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
  probe.logged = !whole || (head[18] == 2 && head[19] == 2);
  probe.kind = kind_of(probe);
  KVRT_ASSIGN(probe.index, env->exists(path + "-shm"));
  auto log = env->open_read(path + "-wal");
  if (log.is_ok()) {
    KVRT_ASSIGN(uint64_t log_bytes, (*log)->size());
    probe.log = true;
    probe.log_rows = log_bytes > 0;
    if (!whole && probe.log_rows && bytes > 1) probe.kind = Kind::kTorn;  // SQLite deletes the log of an empty database
  } else if (log.status().code() != Code::kNotFound) {
    return log.take_status();
  }
  return probe;
}

Status recognize_catalog(const std::string& path, CatalogProbe* probe) {
  using Kind = CatalogProbe::Kind;
  const bool strange = probe->kind == Kind::kTooNew || probe->kind == Kind::kTooOld || probe->kind == Kind::kForeign ||
                       (probe->kind == Kind::kCorrupt && probe->whole);
  if (!strange || !near(probe->application_id, kCatalogApplicationId)) return {};
  CatalogDb catalog;
  Status opened = catalog.open_unchecked(path, true);
  auto schema = opened.is_ok() ? catalog.true_schema() : Result<int32_t>(std::move(opened));
  if (schema.status().code() == Code::kNoMemory) return schema.take_status();
  if (!schema.is_ok() || *schema < kCatalogSchemaOldest || *schema > kCatalogSchema || !near(probe->schema, *schema)) return {};
  probe->kind = Kind::kFlipped;
  return {};
}

Status mend_catalog_numbers(const std::string& path) {
  CatalogDb catalog;
  KVRT_TRY(catalog.open_unchecked(path, false));
  KVRT_TRY(catalog.set_durability(Durability::kTokens));
  {
    Transaction txn(catalog.sql());
    KVRT_TRY(txn.begin());
    KVRT_ASSIGN(const int32_t schema, catalog.true_schema());
    const std::string numbers =
        "PRAGMA application_id=" + std::to_string(kCatalogApplicationId) + "; PRAGMA user_version=" + std::to_string(schema) + ";";
    KVRT_TRY(catalog.sql()->exec(numbers.c_str()));
    KVRT_TRY(txn.commit());
  }
  KVRT_TRY(catalog.checkpoint(true));
  return catalog.close(true);
}

Status build_catalog(Env* env, const std::string& path, const std::function<Status(Db*)>& fill) {
  const NoFileSizeSignal no_signal;
  { KVRT_ASSIGN(auto file, env->create_new(path)); }  // 0600; the log takes over its mode
  Db db;
  KVRT_TRY(db.open(path, SQLITE_OPEN_READWRITE));
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

Status create_catalog(Env* env, const std::string& root) {
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
  KVRT_TRY(build_catalog(env, tmp, fill));
  KVRT_TRY(env->rename_new(tmp, root + "/catalog.db"));
  return env->sync_dir(root);
}

}  // namespace kvrt
