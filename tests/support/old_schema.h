// A catalog as an older kvrt left it, made out of one of today: a migration must lead back to that one.
#pragma once

#include <sqlite3.h>
#include <sys/wait.h>

#include <string>

#include "tests/support/fault_env.h"
#include "tests/support/sql.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

// Nodes as 0.1 had them: a node's row has the place of its only chunk. Every segment was sealed, and synced or not.
inline constexpr char kToOldNodes[] = R"sql(
PRAGMA foreign_keys=OFF;
BEGIN IMMEDIATE;
PRAGMA legacy_alter_table=ON;
ALTER TABLE nodes RENAME TO nodes_now;
ALTER TABLE segments RENAME TO segments_now;
PRAGMA legacy_alter_table=OFF;
CREATE TABLE segments(
  id INTEGER PRIMARY KEY,
  name BLOB NOT NULL UNIQUE CHECK(length(name) = 16),
  bytes INTEGER NOT NULL,
  live INTEGER NOT NULL CHECK(live >= 0),
  synced INTEGER NOT NULL) STRICT;
INSERT INTO segments SELECT id, name, bytes, live, synced > 0 FROM segments_now;
DROP TABLE segments_now;
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
INSERT INTO nodes SELECT id, key, parent, n, tokens, refs, segment, offset, bytes, raw_bytes FROM nodes_now LEFT JOIN chunks ON node = id;
DROP TABLE chunks;
DROP TABLE nodes_now;
CREATE INDEX nodes_by_segment ON nodes(segment) WHERE segment IS NOT NULL;
CREATE INDEX nodes_unused ON nodes(refs) WHERE refs = 0;
CREATE INDEX nodes_by_parent ON nodes(parent) WHERE parent IS NOT NULL;
COMMIT;
)sql";

// Schema 2: live is a count of nodes, pinned 0 or 1; no totals, no counts, no use. The statements are those that it was made with.
inline constexpr char kToSchema2[] = R"sql(
PRAGMA foreign_keys=OFF;
BEGIN IMMEDIATE;
DROP INDEX segments_sparse;
DROP INDEX nodes_by_parent;
UPDATE segments SET live = (SELECT count(*) FROM nodes WHERE segment = segments.id);
ALTER TABLE sessions RENAME TO sessions_now;
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
INSERT INTO sessions SELECT domain, name, id, gen, root, head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, checksum,
  model_id, manifest FROM sessions_now;
DROP TABLE sessions_now;
CREATE INDEX sessions_by_head ON sessions(head);
CREATE INDEX sessions_by_expiry ON sessions(expires_ms, pinned) WHERE expires_ms > 0;
DROP TABLE totals;
DROP TABLE model_ids;
CREATE TABLE model_ids(
  device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  model_id BLOB NOT NULL CHECK(length(model_id) = 32),
  PRIMARY KEY(device, inode)) STRICT, WITHOUT ROWID;
INSERT INTO model_ids VALUES(1, 2, 3, 4, zeroblob(32));
DELETE FROM meta WHERE name = 'identity';
PRAGMA user_version = 2;
COMMIT;
)sql";

// Gives every session its checksum: XXH3-128 over `first`, which older kvrts did not have in it (the store and the session's groups), and
// the other columns that FORMAT.md names.
inline void make_checksums(const std::string& root, const std::string& first) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2((root + "/catalog.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
  sqlite3_stmt *read = nullptr, *write = nullptr;
  const char* sql =
      "SELECT s.rowid, domain, name, s.id, gen, root, coalesce(n.key, root), s.tokens, block_tokens, pinned, expires_ms, model_id, manifest"
      " FROM sessions s LEFT JOIN nodes n ON n.id = head ORDER BY 1";
  ASSERT_EQ(sqlite3_prepare_v2(db, sql, -1, &read, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_prepare_v2(db, "UPDATE sessions SET checksum = ? WHERE rowid = ?", -1, &write, nullptr), SQLITE_OK);
  while (sqlite3_step(read) == SQLITE_ROW) {
    std::string bytes = first;
    const auto add = [&](int column) {
      bytes.append(static_cast<const char*>(sqlite3_column_blob(read, column)), static_cast<size_t>(sqlite3_column_bytes(read, column)));
    };
    const auto add_number = [&](int column, size_t width) {
      const sqlite3_int64 value = sqlite3_column_int64(read, column);
      bytes.append(reinterpret_cast<const char*>(&value), width);
    };
    for (const int column : {1, 2}) {
      const auto length = static_cast<uint32_t>(sqlite3_column_bytes(read, column));
      bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
      add(column);
    }
    add(3);
    add_number(4, 8);
    for (const int column : {5, 6}) add(column);
    for (const int column : {7, 8}) add_number(column, 8);
    add_number(9, 1);
    add_number(10, 8);
    for (const int column : {11, 12}) add(column);
    const Checksum128 sum = checksum128({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    const uint64_t halves[] = {sum.low, sum.high};
    sqlite3_bind_blob(write, 1, halves, sizeof halves, SQLITE_TRANSIENT);
    sqlite3_bind_int64(write, 2, sqlite3_column_int64(read, 0));
    ASSERT_EQ(sqlite3_step(write), SQLITE_DONE);
    sqlite3_reset(write);
  }
  sqlite3_finalize(read);
  sqlite3_finalize(write);
  sqlite3_close(db);
}

// Schema 3, of 0.1.0: no identity, a cache of model ids without proof.
inline constexpr char kToSchema3[] = R"sql(
BEGIN IMMEDIATE;
ALTER TABLE sessions DROP COLUMN needs;
DROP TABLE model_ids;
CREATE TABLE model_ids(
  device INTEGER NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  model_id BLOB NOT NULL CHECK(length(model_id) = 32),
  PRIMARY KEY(device, inode)) STRICT, WITHOUT ROWID;
DELETE FROM meta WHERE name = 'identity';
PRAGMA user_version = 3;
COMMIT;
)sql";
inline void make_schema_3(const std::string& root) {
  make_checksums(root, "");
  (void)sql_rows(root + "/catalog.db", std::string(kToOldNodes) + kToSchema3);
}

// Makes a store as schema 2 leaves it, closed.
inline void make_schema_2(const std::string& root) {
  make_checksums(root, "");
  (void)sql_rows(root + "/catalog.db", std::string(kToOldNodes) + kToSchema2);
}

// The same by a process that was killed: rows are in the log alone, which `sql` put there.
inline Status kill_with_log(const std::string& root, const std::string& sql) {
  const pid_t child = ::fork();
  if (child == 0) {
    sqlite3* db = nullptr;
    if (sqlite3_open_v2((root + "/catalog.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) ::_exit(1);
    if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) ::_exit(2);
    FaultPlan::die();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? Status() : error(Code::kInternal, Detail::kNone, "the child was not killed: %d", WEXITSTATUS(status));
}

}  // namespace kvrt::test
