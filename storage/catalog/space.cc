// Catalog: room. What is there is counted with every change; what is used least gives way; sparse segments are written anew.
#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {
constexpr int64_t kClockBackMs = 5 * 60 * 1000, kClockForthMs = int64_t{7} * 24 * 3600 * 1000;
}  // namespace

Status Catalog::Change::begin() {
  catalog_->delta_ = {};
  return txn_.begin();
}

Status Catalog::Change::commit() {
  Delta& d = catalog_->delta_;
  std::vector<SegmentId> trash;
  if (catalog_->syncs_) {
    KVRT_ASSIGN(trash, catalog_->trash());  // within: what others put there later need not be on the disk
    d.used = d.used || !trash.empty();      // a transaction that writes nothing waits for nothing
  }
  if (d.chunks != 0 || d.chunk_bytes != 0 || d.segments != 0 || d.segment_bytes != 0 || d.used || d.shares || d.seen_ms != 0) {
    Query q = catalog_->db_.query(
        "UPDATE totals SET chunks = chunks + ?1, chunk_bytes = chunk_bytes + ?2, chunk_raw_bytes = chunk_raw_bytes + ?3,"
        " segments = segments + ?4, segment_bytes = segment_bytes + ?5, clock = clock + ?6, shares = shares + ?7,"
        " seen_ms = iif(?8 = 0, seen_ms, ?8)");
    q.bind(d.chunks).bind(d.chunk_bytes).bind(d.chunk_raw_bytes).bind(d.segments).bind(d.segment_bytes);
    KVRT_TRY(q.bind(d.used).bind(d.shares).bind(d.seen_ms).run());
  }
  KVRT_TRY(txn_.commit());
  if (catalog_->syncs_) catalog_->settled_trash_ = std::move(trash);
  return {};
}

Status Catalog::settle() {
  KVRT_TRY(set_durability(Durability::kTokens));
  Change txn(this);
  KVRT_TRY(txn.begin());
  delta_.used = true;
  return txn.commit();
}

// A wall clock that has jumped since it was last looked at expires nothing, this once: it may have been set wrong.
Result<bool> Catalog::trusts_clock(int64_t now_ms) {
  KVRT_ASSIGN(const int64_t seen_ms, db_.number("SELECT seen_ms FROM totals"));
  return seen_ms == 0 || (now_ms >= seen_ms - kClockBackMs && now_ms <= seen_ms + kClockForthMs);
}

Status Catalog::note_time(int64_t now_ms) {
  KVRT_ASSIGN(const bool trusted, trusts_clock(now_ms));
  if (trusted) delta_.seen_ms = now_ms;  // else for gc to see
  return {};
}

void Catalog::touch(std::string_view domain, std::string_view name) {
  const Impatient now(&db_);
  Change txn(this);
  if (!txn.begin().is_ok()) return;
  Query q = db_.query(
      "UPDATE sessions SET used = (SELECT clock + 1 FROM totals)"
      " WHERE domain = ? AND name = ? AND used > 0 AND used < (SELECT clock FROM totals)");
  if (!q.bind_text(domain).bind_text(name).run().is_ok() || db_.changes() == 0) return;
  delta_.used = true;
  (void)txn.commit().is_ok();
}

// From the head up, as long as nobody else is in need: no child's KV continues the node's, no other session ends there, and the save that
// wants the room does not count on it.
Status Catalog::evict_chain(int64_t head, const BlockKeys& needed, Evicted* evicted) {
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  int64_t parent = 0, steps = 0;
  for (int64_t node = head; node != 0; node = parent) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    Placed chunk;
    {
      Query q = db_.query(
          "SELECT parent, segment, bytes, raw_bytes, EXISTS(SELECT 1 FROM nodes c WHERE c.parent = n.id AND c.segment IS NOT NULL)"
          " OR EXISTS(SELECT 1 FROM sessions s WHERE s.head = n.id AND s.used > 0), key FROM nodes n WHERE id = ?");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      BlockKey key;
      if (!copy_exact(q.blob(5), key.bytes)) return broken_row("node key");
      if (q.integer(4) != 0 || needed.count(key) != 0) return {};
      parent = q.integer(0);
      chunk = {q.integer(1), q.u64(2), q.u64(3)};
    }
    if (chunk.segment == 0) continue;
    KVRT_TRY(clear_chunk(node));
    KVRT_TRY(drop_chunk(chunk));
    evicted->chunks++;
    evicted->bytes += chunk.bytes;
  }
  return {};
}

Result<Catalog::Evicted> Catalog::evict(const SavedBy& by, uint64_t bytes, const std::function<bool()>& more) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  Evicted evicted;
  do {
    int64_t session, head;
    {
      Query q = db_.query(
          "SELECT rowid, head FROM sessions WHERE used > 0 AND NOT (domain = ?1 AND name = ?2)"
          " AND (pinned = 0 OR (domain = ?1 AND pinned < ?3)) ORDER BY pinned, domain <> ?1, used LIMIT 1");
      KVRT_ASSIGN(bool row, q.bind_text(by.domain).bind_text(by.name).bind(by.pin).next());
      if (!row) break;
      session = q.integer(0);
      head = q.integer(1);
    }
    KVRT_TRY(db_.query("UPDATE sessions SET used = 0 WHERE rowid = ?").bind(session).run());
    KVRT_TRY(evict_chain(head, by.needs, &evicted));
    evicted.sessions++;
  } while (evicted.bytes < bytes && more());
  KVRT_TRY(txn.commit());
  return evicted;
}

namespace {

// Of a query for id, name, bytes and live: the next row; row 0: there is none.
Result<Catalog::SegmentRow> next_segment(Query& q) {
  Catalog::SegmentRow s;
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return s;
  s.row = q.integer(0);
  if (!copy_exact(q.blob(1), s.id.bytes)) return broken_row("segment name");
  s.bytes = q.u64(2);
  s.live = q.u64(3);
  return s;
}

}  // namespace

Result<Catalog::SegmentRow> Catalog::sparse_segment(int64_t after) {
  Query q = db_.query("SELECT id, name, bytes, live FROM segments WHERE 2 * live < bytes AND id > ? ORDER BY id LIMIT 1");
  return next_segment(q.bind(after));
}

Result<Catalog::SegmentRow> Catalog::segment_with_dead(int64_t after) {
  Query q = db_.query(
      "SELECT id, name, bytes, live FROM segments s WHERE id > ?1"
      " AND bytes - live <> ?2 + ?3 * (SELECT count(*) FROM nodes n WHERE n.segment = s.id) ORDER BY id LIMIT 1");
  return next_segment(q.bind(after).bind(kSegmentHeaderBytes + kSegmentTrailerBytes).bind(kSegmentEntryBytes));
}

Result<std::vector<ChunkPlace>> Catalog::chunks_of(const SegmentRow& segment) {
  std::vector<ChunkPlace> chunks;
  Query q = db_.query(
      "SELECT n.key, n.offset, n.bytes, n.raw_bytes FROM nodes n JOIN segments s ON s.id = n.segment"
      " WHERE n.segment = ? AND s.name = ? ORDER BY n.offset");
  q.bind(segment.row).bind_blob(segment.id.bytes);
  for (;;) {
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return chunks;
    ChunkPlace c;
    if (!copy_exact(q.blob(0), c.key.bytes)) return broken_row("node key");
    c.offset = q.u64(1);
    c.bytes = q.u64(2);
    c.raw_bytes = q.u64(3);
    chunks.push_back(c);
  }
}

Result<uint64_t> Catalog::move_chunks(const SegmentRow& from, const NewSegment& to) {
  Change txn(this);
  KVRT_TRY(txn.begin());
  {
    Query q = db_.query("SELECT 1 FROM segments WHERE id = ? AND name = ?");
    KVRT_ASSIGN(bool there, q.bind(from.row).bind_blob(from.id.bytes).next());
    if (!there) return uint64_t{0};
  }
  KVRT_ASSIGN(int64_t row, add_segment(to));
  uint64_t live = 0, count = 0;
  for (const ChunkPlace& c : to.chunks) {
    KVRT_TRY(db_.query("UPDATE nodes SET segment = ?, offset = ? WHERE key = ? AND segment = ?")
                 .bind(row)
                 .bind_u64(c.offset)
                 .bind_blob(c.key.bytes)
                 .bind(from.row)
                 .run());
    if (db_.changes() == 0) continue;
    live += c.bytes;
    count++;
  }
  KVRT_TRY(set_live(row, live));
  if (count > 0) KVRT_TRY(shrink_segment(from.row, live));
  KVRT_TRY(txn.commit());
  return count;
}

}  // namespace kvrt
