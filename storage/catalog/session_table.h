// The tables sessions and tombstones. A function that takes a transaction, or writes a row, is a part of the caller's transaction. The
// others that change rows (remove, rename, pin, set_expiry, touch) are each a transaction of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/node_table.h"
#include "storage/catalog/rows.h"
#include "storage/catalog/transaction.h"
#include "storage/values.h"

namespace kvrt {

class SessionTable {
 public:
  SessionTable(CatalogDb* catalog, NodeTable* nodes) : catalog_(catalog), db_(catalog->sql()), nodes_(nodes) {}

  Result<SessionOut> load(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<SessionStat> stat(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains, int64_t now_ms);
  Result<uint64_t> count_expired(int64_t now_ms);

  Status remove(std::string_view domain, std::string_view name, int64_t now_ms);
  Status rename(std::string_view domain, std::string_view from, std::string_view to, int64_t now_ms);
  Status pin(std::string_view domain, std::string_view name, uint8_t priority, int64_t now_ms);
  Status set_expiry(std::string_view domain, std::string_view name, int64_t expires_ms, int64_t now_ms);
  // Notes that the session was loaded: its KV is evicted last, and it counts where an eviction has taken KV of it. Does nothing while another
  // process writes.
  void touch(std::string_view domain, std::string_view name);
  Result<uint64_t> loads_evicted();  // so many that counted, ever
  Result<bool> remove_expired(CatalogTransaction* txn, int64_t now_ms, Collected* collected);

  // The columns of a session's row that a save looks at first.
  struct Head {
    int64_t node = 0;  // 0: none
    SessionId id;
    uint64_t revision = 0;
    int64_t created_ms = 0, saved_ms = 0, expires_ms = 0, used = 0;
    uint8_t pinned = 0;
    bool expired = false;
  };
  Result<std::optional<Head>> find(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<uint64_t> next_revision(const SessionIn& session, const std::optional<Head>& current);
  Result<SessionId> own_id(const SessionIn& session, uint64_t revision, const std::optional<Head>& current);
  Status write(const SessionRow& row);
  Status write_statistics(CatalogTransaction* txn, const SessionRow& row);

  Result<SessionRow> read(std::string_view domain, std::string_view name);  // expired ones too; CORRUPT if its checksum is wrong

 private:
  Result<bool> count_evicted(std::string_view domain, std::string_view name);
  Result<SessionRow> read_live(std::string_view domain, std::string_view name, int64_t now_ms);
  Status drop(std::string_view domain, std::string_view name, uint64_t revision);
  Result<uint64_t> buried_revision(std::string_view domain, std::string_view name);
  Hash256 tombstone(std::string_view domain, std::string_view name) const;

  CatalogDb* const catalog_;
  Db* const db_;
  NodeTable* const nodes_;
};

}  // namespace kvrt
