// CatalogDb::migrate: the steps from the schemas of older kvrts to this one's.
#include <iterator>
#include <string>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

// A step from one schema to the next. Its text never changes: it makes the tables of its time, not those of kSchemaSql.
struct Step {
  int32_t from;
  const char* sql;
};

// Adds the sums in rows and in totals, pins with a priority, and each session's `used`, in the order of the saves. A session's counts are
// summed down the tree from the first nodes: bytes_shared is the bytes up to the deepest node with two users.
constexpr char kFrom2[] = R"sql(
CREATE INDEX segments_sparse ON segments(id) WHERE 2 * live < bytes;
CREATE INDEX nodes_by_parent ON nodes(parent) WHERE parent IS NOT NULL;
UPDATE segments SET live = (SELECT coalesce(sum(n.bytes), 0) FROM nodes n WHERE n.segment = segments.id);
ALTER TABLE sessions RENAME TO sessions_2;
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
WITH RECURSIVE
  own(id, parent, refs, chunk, bytes) AS
    (SELECT id, parent, refs, segment IS NOT NULL, iif(segment IS NULL, 0, bytes) FROM nodes),
  sums(id, chunks, missing, bytes, shared) AS
    (SELECT id, chunk, 1 - chunk, bytes, iif(refs > 1, bytes, 0) FROM own WHERE parent IS NULL
     UNION ALL
     SELECT o.id, s.chunks + o.chunk, s.missing + 1 - o.chunk, s.bytes + o.bytes, iif(o.refs > 1, s.bytes + o.bytes, s.shared)
     FROM sums s JOIN own o ON o.parent = s.id)
INSERT INTO sessions
SELECT domain, name, o.id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, checksum, model_id, manifest,
  row_number() OVER (ORDER BY saved_ms, domain, name),
  coalesce(s.chunks, 0), coalesce(s.missing, 0), coalesce(s.bytes, 0), coalesce(s.shared, 0), iif(head IS NULL OR s.id IS NOT NULL, 0, -1)
FROM sessions_2 o LEFT JOIN sums s ON s.id = o.head;
DROP TABLE sessions_2;
CREATE INDEX sessions_by_head ON sessions(head);
CREATE INDEX sessions_by_use ON sessions(used) WHERE used > 0;
CREATE INDEX sessions_by_expiry ON sessions(expires_ms, pinned) WHERE expires_ms > 0;
CREATE TABLE totals(
  one INTEGER PRIMARY KEY CHECK(one = 1),
  chunks INTEGER NOT NULL, chunk_bytes INTEGER NOT NULL, chunk_raw_bytes INTEGER NOT NULL,
  segments INTEGER NOT NULL, segment_bytes INTEGER NOT NULL,
  clock INTEGER NOT NULL, shares INTEGER NOT NULL, seen_ms INTEGER NOT NULL) STRICT;
INSERT INTO totals
SELECT 1, count(*), coalesce(sum(n.bytes), 0), coalesce(sum(n.raw_bytes), 0),
  (SELECT count(*) FROM segments), (SELECT coalesce(sum(s.bytes), 0) FROM segments s),
  (SELECT count(*) FROM sessions), 0, 0
FROM nodes n WHERE n.segment IS NOT NULL;
PRAGMA user_version = 3;
)sql";

// From the schema of 0.1. Its nodes have no items. Its segments are sealed, and synced in full or not at all. A node's chunk gets a row of
// its own, of number 0; a wrong one stays wrong, which costs that chunk. The rename is SQLite's old one, which leaves the sessions'
// references to nodes as they are. The cache of model ids is made anew: its old rows had no checksum. migrate() adds the identity, and
// renews the checksums of sessions.
constexpr char kFrom3[] = R"sql(
PRAGMA legacy_alter_table=ON;
ALTER TABLE nodes RENAME TO nodes_3;
ALTER TABLE segments RENAME TO segments_3;
PRAGMA legacy_alter_table=OFF;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY,
  name BLOB NOT NULL UNIQUE CHECK(length(name) = 16),
  bytes INTEGER NOT NULL,
  live INTEGER NOT NULL CHECK(live >= 0),
  synced INTEGER NOT NULL,
  sealed INTEGER NOT NULL) STRICT;
INSERT INTO segments SELECT id, name, bytes, live, iif(synced, bytes, 0), 1 FROM segments_3;
DROP TABLE segments_3;
CREATE INDEX segments_sparse ON segments(id) WHERE 2 * live < bytes;
CREATE INDEX segments_open ON segments(id) WHERE sealed = 0;
CREATE TABLE nodes(
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE CHECK(length(key) = 32),
  parent INTEGER REFERENCES nodes(id),
  n INTEGER NOT NULL CHECK(n > 0 AND length(tokens) = 4 * n),
  tokens BLOB NOT NULL,
  refs INTEGER NOT NULL CHECK(refs >= 0), items BLOB CHECK(length(items) > 0)) STRICT;
INSERT INTO nodes SELECT id, key, parent, n, tokens, refs, NULL FROM nodes_3;
CREATE TABLE chunks(
  node INTEGER NOT NULL REFERENCES nodes(id),
  grp INTEGER NOT NULL CHECK(grp BETWEEN 0 AND 31),
  segment INTEGER NOT NULL REFERENCES segments(id),
  offset INTEGER NOT NULL, bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
  PRIMARY KEY(node, grp)) STRICT, WITHOUT ROWID;
INSERT INTO chunks
SELECT id, 0, segment, coalesce(offset, 0), coalesce(bytes, 0), coalesce(raw_bytes, 0) FROM nodes_3 WHERE segment IS NOT NULL;
DROP TABLE nodes_3;
CREATE INDEX nodes_unused ON nodes(refs) WHERE refs = 0;
CREATE INDEX nodes_by_parent ON nodes(parent) WHERE parent IS NOT NULL;
CREATE INDEX chunks_by_segment ON chunks(segment);
ALTER TABLE sessions RENAME TO sessions_3;
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
INSERT INTO sessions
SELECT domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, checksum, model_id, manifest, x'',
  used, chunks, chunks_missing, chunk_bytes, chunk_bytes_shared, counted FROM sessions_3;
DROP TABLE sessions_3;
CREATE INDEX sessions_by_head ON sessions(head);
CREATE INDEX sessions_by_use ON sessions(used) WHERE used > 0;
CREATE INDEX sessions_by_expiry ON sessions(expires_ms, pinned) WHERE expires_ms > 0;
DROP TABLE model_ids;
CREATE TABLE model_ids(
  device INTEGER NOT NULL, inode INTEGER NOT NULL,
  file BLOB NOT NULL, model_id BLOB NOT NULL, checksum BLOB NOT NULL,
  PRIMARY KEY(device, inode)) STRICT, WITHOUT ROWID;
)sql";

// Gives each session's row the checksum that names the store. One whose old checksum is wrong stays wrong, which costs that session alone.
Status renew_checksums(Db* db, const StoreId& store) {
  std::vector<std::pair<int64_t, std::array<uint8_t, 16>>> renewed;
  {
    Query q = db->query(
        "SELECT s.rowid, domain, name, s.id, gen, root, s.tokens, block_tokens, pinned, expires_ms, model_id, manifest, checksum, head, "
        "n.key"
        " FROM sessions s LEFT JOIN nodes n ON n.id = s.head");
    for (;;) {
      KVRT_ASSIGN(bool found, q.next());
      if (!found) break;
      SessionRow row;
      std::array<uint8_t, 16> checksum;
      row.domain = q.text(1);
      row.name = q.text(2);
      row.revision = q.u64(4);
      row.tokens = q.u64(6);
      row.block_tokens = q.u64(7);
      row.pinned = static_cast<uint8_t>(q.integer(8));
      row.expires_ms = q.integer(9);
      row.manifest.assign(q.blob(11).begin(), q.blob(11).end());
      const bool sized = copy_exact(q.blob(3), row.id.bytes) && copy_exact(q.blob(5), row.root.bytes) &&
                         copy_exact(q.blob(10), row.model_id.bytes) && copy_exact(q.blob(12), checksum) &&
                         copy_exact(q.blob(q.is_null(13) ? 5 : 14), row.head_key.bytes);
      if (sized && row.old_checksum() == checksum) renewed.emplace_back(q.integer(0), row.checksum(store));
    }
  }
  for (const auto& [row, checksum] : renewed) {
    KVRT_TRY(db->query("UPDATE sessions SET checksum = ? WHERE rowid = ?").bind_blob(checksum).bind(row).run());
  }
  return {};
}

constexpr Step kSteps[] = {{2, kFrom2}, {3, kFrom3}};
static_assert(kSteps[0].from == kCatalogSchemaOldest && std::size(kSteps) == kCatalogSchema - kCatalogSchemaOldest);

}  // namespace

// The identity or the tables tell the schema, not user_version: one flipped bit there makes 3 of 2, or 2 of 3.
Status CatalogDb::migrate(const StoreId& id) {
  KVRT_TRY(db_.exec("PRAGMA foreign_keys=OFF"));  // a wrong row stays wrong, which costs its session alone
  KVRT_TRY(set_durability(Durability::kTokens));
  Transaction txn(&db_);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(const int32_t schema, true_schema());
  for (const Step& step : kSteps) {
    if (step.from >= schema) KVRT_TRY(db_.exec(step.sql));
  }
  KVRT_TRY(renew_checksums(&db_, id));
  KVRT_TRY(put_identity(&db_, salt_, id));
  KVRT_TRY(db_.exec(("PRAGMA user_version = " + std::to_string(kCatalogSchema)).c_str()));
  return txn.commit();
}

}  // namespace kvrt
