#include "storage/catalog/schema.h"

#include <sqlite3.h>

#include <map>
#include <string>

#include "runtime/base/mutex.h"
#include "storage/catalog/rows.h"

namespace kvrt {

const char kSchemaSql[] = R"sql(
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY,
  name BLOB NOT NULL UNIQUE CHECK(length(name) = 16),
  bytes INTEGER NOT NULL,
  live INTEGER NOT NULL CHECK(live >= 0),
  synced INTEGER NOT NULL,
  sealed INTEGER NOT NULL) STRICT;
CREATE INDEX segments_sparse ON segments(id) WHERE 2 * live < bytes;
CREATE INDEX segments_open ON segments(id) WHERE sealed = 0;
CREATE TABLE nodes(
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK(length(key) = 32),
  parent INTEGER REFERENCES nodes(id),
  n INTEGER NOT NULL CHECK(n > 0 AND length(tokens) = 4 * n),
  tokens BLOB NOT NULL,
  refs INTEGER NOT NULL CHECK(refs >= 0), items BLOB CHECK(length(items) > 0)) STRICT;
CREATE INDEX nodes_unused ON nodes(refs) WHERE refs = 0;
CREATE INDEX nodes_by_parent ON nodes(parent) WHERE parent IS NOT NULL;
CREATE TABLE chunks(
  node INTEGER NOT NULL REFERENCES nodes(id),
  grp INTEGER NOT NULL CHECK(grp BETWEEN 0 AND 31),
  segment INTEGER NOT NULL REFERENCES segments(id),
  offset INTEGER NOT NULL, bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
  PRIMARY KEY(node, grp)) STRICT, WITHOUT ROWID;
CREATE INDEX chunks_by_segment ON chunks(segment);
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
  needs BLOB NOT NULL CHECK(length(needs) % 5 = 0),
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

namespace {

constexpr size_t kIdentityBytes = 4 + 16;  // u32 schema, the store's id; then the checksum of salt and these

std::array<uint8_t, 16> identity_checksum(const Hash256& salt, std::span<const uint8_t> identity) {
  ByteWriter w;
  w.write_bytes(salt.bytes.data(), salt.bytes.size());
  w.write_bytes(identity.data(), identity.size());
  return checksum_bytes(w.bytes());
}

constexpr char kItemsColumn[] = "items BLOB CHECK(length(items) > 0)";  // its text as ALTER TABLE leaves it in that of nodes

// The text of nodes as the first catalogs of this schema have it.
std::string without_items(const std::string& sql) {
  const std::string column = std::string(", ") + kItemsColumn;
  const size_t at = sql.find(column);
  return at == std::string::npos ? sql : std::string(sql).erase(at, column.size());
}

}  // namespace

Result<bool> nodes_have_items(Db* db) {
  KVRT_ASSIGN(const int64_t columns, db->number("SELECT count(*) FROM pragma_table_info('nodes') WHERE name = 'items'"));
  return columns != 0;
}

// All rows are written anew, so that each has as many columns: repair tells a table's rows by their count.
Status add_items_column(Db* db) {
  KVRT_ASSIGN(const bool there, nodes_have_items(db));
  if (there) return {};
  KVRT_TRY(db->exec((std::string("ALTER TABLE nodes ADD COLUMN ") + kItemsColumn).c_str()));
  return db->exec("UPDATE nodes SET items = NULL");
}

// SQLite's check believes the schema it reads: a flipped letter shows only when a statement needs it.
Result<std::string> find_strange_table(Db* db) {
  using Objects = std::map<std::string, std::string>;  // "table nodes" -> its table and its SQL
  const auto list = [](Db* of) -> Result<Objects> {
    Objects all;
    Query q = of->query("SELECT type, name, tbl_name, sql FROM sqlite_master");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) return all;
      all[q.text(0) + " " + q.text(1)] = q.text(2) + "\n" + q.text(3);
    }
  };
  KVRT_ASSIGN(const Objects found, list(db));
  static Mutex mutex;       // guards `expected`; no other mutex of the store is taken under it
  static Objects expected;  // the same for every store
  Lock lock(mutex);
  if (expected.empty()) {
    Db ours;
    KVRT_TRY(ours.open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    KVRT_TRY(ours.exec(kSchemaSql));
    KVRT_ASSIGN(expected, list(&ours));
  }
  for (const auto& [name, sql] : expected) {
    const auto there = found.find(name);
    if (there == found.end()) return name + " is missing";
    if (there->second != sql && there->second != without_items(sql)) return name + " is another one";
  }
  for (const auto& [name, sql] : found) {
    if (expected.count(name) == 0) return name + " is none of a store";
  }
  return std::string();
}

Status put_identity(Db* db, const Hash256& salt, const StoreId& id) {
  ByteWriter w;
  w.write(static_cast<uint32_t>(kCatalogSchema));
  w.write_bytes(id.bytes.data(), id.bytes.size());
  const auto sum = identity_checksum(salt, w.bytes());
  w.write_bytes(sum.data(), sum.size());
  return db->query("INSERT OR REPLACE INTO meta(name, value) VALUES('identity', ?)").bind_blob(w.bytes()).run();
}

bool parse_identity(std::span<const uint8_t> value, const Hash256& salt, int32_t* schema, StoreId* id) {
  if (value.size() != kIdentityBytes + 16) return false;
  *schema = static_cast<int32_t>(load<uint32_t>(value.data()));
  std::copy_n(value.data() + 4, 16, id->bytes.begin());
  return same_bytes(value.subspan(kIdentityBytes), identity_checksum(salt, value.first(kIdentityBytes)));
}

}  // namespace kvrt
