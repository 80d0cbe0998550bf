// Catalog: what removes and renames, and the collection of garbage. Every public function here is one transaction.
#include <algorithm>

#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

// Bytes of the segment are not live any more; without any left its row goes, and its name to the trash until the file is unlinked.
Status Catalog::shrink_segment(int64_t segment, uint64_t bytes) {
  SegmentId id;
  {
    Query q = db_.query("UPDATE segments SET live = live - ? WHERE id = ? RETURNING live, name, bytes");
    KVRT_ASSIGN(bool row, q.bind_u64(bytes).bind(segment).next());
    if (!row) return broken_row("segment");
    if (q.integer(0) > 0) return q.run();
    if (!copy_exact(q.blob(1), id.bytes)) return broken_row("segment name");
    delta_.segments--;
    delta_.segment_bytes -= q.integer(2);
    KVRT_TRY(q.run());
  }
  KVRT_TRY(db_.query("DELETE FROM segments WHERE id = ?").bind(segment).run());
  return db_.query("INSERT OR IGNORE INTO trash(name) VALUES(?)").bind_blob(id.bytes).run();
}

// A chunk that no row names any more.
Status Catalog::drop_chunk(const Placed& chunk) {
  if (chunk.segment == 0) return {};
  delta_.chunks--;
  delta_.chunk_bytes -= static_cast<int64_t>(chunk.bytes);
  delta_.chunk_raw_bytes -= static_cast<int64_t>(chunk.raw_bytes);
  return shrink_segment(chunk.segment, chunk.bytes);
}

// Gives one reference of the node back; a node without any goes, with its chunk and its reference on the parent. `ignored`: see note_fork.
Status Catalog::release(int64_t node, int64_t ignored) {
  while (node != 0) {
    int64_t refs, parent;
    Placed chunk;
    {
      Query q = db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs, parent, segment, bytes, raw_bytes");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      refs = q.integer(0);
      parent = q.integer(1);
      chunk = {q.integer(2), q.u64(3), q.u64(4)};
      KVRT_TRY(q.run());
    }
    if (refs > 0) {
      delta_.shares = delta_.shares || (refs == 1 && node != ignored);
      return {};
    }
    KVRT_TRY(db_.query("DELETE FROM nodes WHERE id = ?").bind(node).run());
    KVRT_TRY(drop_chunk(chunk));
    node = parent;
  }
  return {};
}

// The row goes, its generation stays known. Its reference on the head is the caller's to give back.
Status Catalog::drop_session(std::string_view domain, std::string_view name, uint64_t gen) {
  Hash256 grave = tombstone(domain, name);
  KVRT_TRY(db_.query("INSERT OR REPLACE INTO tombstones(name, gen) VALUES(?, ?)").bind_blob(grave.bytes).bind_u64(gen).run());
  return db_.query("DELETE FROM sessions WHERE domain = ? AND name = ?").bind_text(domain).bind_text(name).run();
}

Status Catalog::remove(std::string_view domain, std::string_view name, int64_t now_ms) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(std::optional<Head> current, find_session(domain, name, now_ms));
  if (!current || current->expired) return no_session(domain, name);
  KVRT_TRY(drop_session(domain, name, current->gen));
  KVRT_TRY(release(current->node));
  return txn.commit();
}

// The new generation is larger than any that the session or either name had.
Status Catalog::rename(std::string_view domain, std::string_view from, std::string_view to, int64_t now_ms) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, from, now_ms));
  KVRT_ASSIGN(std::optional<Head> target, find_session(domain, to, now_ms));
  if (target && !target->expired) {
    return error(Code::kConflict, Detail::kNameTaken, "the new name belongs to a session (generation %llu)",
                 static_cast<unsigned long long>(target->gen));
  }
  KVRT_ASSIGN(uint64_t buried, buried_gen(domain, to));
  KVRT_TRY(drop_session(domain, from, row.gen));
  row.name = to;
  row.gen = std::max({row.gen, buried, target ? target->gen : 0}) + 1;
  KVRT_TRY(write_session(row));
  if (target) KVRT_TRY(release(target->node));
  return txn.commit();
}

Status Catalog::pin(std::string_view domain, std::string_view name, uint8_t priority, int64_t now_ms) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, name, now_ms));
  row.pinned = priority;
  KVRT_TRY(write_session(row));
  return txn.commit();
}

Status Catalog::set_expiry(std::string_view domain, std::string_view name, int64_t expires_ms, int64_t now_ms) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  KVRT_ASSIGN(SessionRow row, live_session(domain, name, now_ms));
  row.expires_ms = expires_ms;
  KVRT_TRY(write_session(row));
  return txn.commit();
}

// One node without references, with its chunk and its reference on the parent. False: there is none.
Result<bool> Catalog::sweep_node(Collected* collected) {
  int64_t node, parent;
  Placed chunk;
  {
    Query q = db_.query("SELECT id, parent, segment, bytes, raw_bytes FROM nodes WHERE refs = 0 LIMIT 1");
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return false;
    node = q.integer(0);
    parent = q.integer(1);
    chunk = {q.integer(2), q.u64(3), q.u64(4)};
  }
  KVRT_TRY(db_.query("DELETE FROM nodes WHERE id = ?").bind(node).run());
  KVRT_TRY(drop_chunk(chunk));
  if (parent != 0) {
    Query q = db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs");
    KVRT_ASSIGN(bool row, q.bind(parent).next());
    if (!row) return broken_row("node");
    delta_.shares = delta_.shares || q.integer(0) == 1;
    KVRT_TRY(q.run());
  }
  collected->nodes++;
  collected->chunks += chunk.segment != 0;
  return true;
}

// The next expired session; its nodes are left to sweep_node. False: there is none. A row that fails its checksum may not have expired
// at all: verify names it, and it stays.
Result<bool> Catalog::remove_expired(int64_t now_ms, Collected* collected) {
  for (;;) {
    std::string domain, name;
    {
      Query q = db_.query(
          "SELECT expires_ms, rowid, domain, name FROM sessions WHERE expires_ms > 0 AND expires_ms <= ? AND pinned = 0"
          " AND expires_ms >= ? AND (expires_ms > ? OR rowid > ?) ORDER BY expires_ms, rowid LIMIT 1");
      KVRT_ASSIGN(bool row, q.bind(now_ms).bind(collected->expiry).bind(collected->expiry).bind(collected->row).next());
      if (!row) return false;
      collected->expiry = q.integer(0);
      collected->row = q.integer(1);
      domain = q.text(2);
      name = q.text(3);
    }
    auto row = read_session(domain, name);
    if (!row.is_ok() && row.status().code() == Code::kCorrupt) continue;
    if (!row.is_ok()) return row.take_status();
    KVRT_TRY(drop_session(domain, name, row->gen));
    if (row->head != 0) KVRT_TRY(db_.query("UPDATE nodes SET refs = refs - 1 WHERE id = ?").bind(row->head).run());
    delta_.shares = true;
    collected->sessions++;
    return true;
  }
}

Result<Catalog::Collected> Catalog::collect(int64_t now_ms, const Collected& before, const std::function<bool()>& more) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  Collected c = before;
  KVRT_ASSIGN(const bool trusted, trusts_clock(now_ms));
  do {
    KVRT_ASSIGN(bool removed, sweep_node(&c));
    if (!removed && trusted) {
      KVRT_ASSIGN(removed, remove_expired(now_ms, &c));
    }
    c.finished = !removed;
  } while (!c.finished && more());
  delta_.seen_ms = now_ms;
  KVRT_TRY(txn.commit());
  return c;
}

Result<uint64_t> Catalog::forget_chunk(const BlockKey& key, const SegmentId& segment) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  int64_t node;
  Placed chunk;
  {
    Query q = db_.query(
        "SELECT n.id, n.segment, n.bytes, n.raw_bytes FROM nodes n JOIN segments s ON s.id = n.segment WHERE n.key = ? AND s.name = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(key.bytes).bind_blob(segment.bytes).next());
    if (!row) return uint64_t{0};
    node = q.integer(0);
    chunk = {q.integer(1), q.u64(2), q.u64(3)};
  }
  KVRT_TRY(clear_chunk(node));
  KVRT_TRY(drop_chunk(chunk));
  KVRT_TRY(txn.commit());
  return uint64_t{1};
}

// The node keeps its tokens.
Status Catalog::clear_chunk(int64_t node) {
  delta_.shares = true;
  return db_.query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE id = ?").bind(node).run();
}

Result<uint64_t> Catalog::forget_segment(const SegmentId& segment) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  int64_t id;
  {
    Query q = db_.query("SELECT id FROM segments WHERE name = ?");
    KVRT_ASSIGN(bool there, q.bind_blob(segment.bytes).next());
    if (!there) return uint64_t{0};
    id = q.integer(0);
  }
  {
    Query q = db_.query("SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(raw_bytes), 0) FROM nodes WHERE segment = ?");
    KVRT_ASSIGN(bool row, q.bind(id).next());
    if (!row) return broken_row("nodes");
    delta_.chunks -= q.integer(0);
    delta_.chunk_bytes -= q.integer(1);
    delta_.chunk_raw_bytes -= q.integer(2);
  }
  const auto count = static_cast<uint64_t>(-delta_.chunks);
  delta_.shares = true;
  KVRT_TRY(db_.query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE segment = ?").bind(id).run());
  KVRT_TRY(set_live(id, 0));
  KVRT_TRY(txn.commit());
  return count;
}

Status Catalog::mark_synced(std::span<const SegmentRow> rows) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  for (const SegmentRow& row : rows) {  // by name: another process may have given the row to another segment
    KVRT_TRY(db_.query("UPDATE segments SET synced = 1 WHERE name = ?").bind_blob(row.id.bytes).run());
  }
  return txn.commit();
}

Status Catalog::clear_trash(std::span<const SegmentId> gone) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  for (const SegmentId& id : gone) KVRT_TRY(db_.query("DELETE FROM trash WHERE name = ?").bind_blob(id.bytes).run());
  KVRT_TRY(txn.commit());
  std::erase_if(settled_trash_, [&](const SegmentId& id) { return std::find(gone.begin(), gone.end(), id) != gone.end(); });
  return {};
}

}  // namespace kvrt
