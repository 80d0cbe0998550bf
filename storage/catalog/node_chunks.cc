// NodeTable: the chunks of nodes. They come, move and go while the nodes stay.
#include "storage/catalog/node_table.h"
#include "storage/catalog/rows.h"

namespace kvrt {

Result<uint64_t> NodeTable::place_chunks(CatalogTransaction* txn, const NewSegment& segment, int64_t first_new) {
  KVRT_ASSIGN(int64_t row, segments_->add(txn, segment));
  uint64_t live = 0;
  for (const ChunkPlace& c : segment.chunks) {
    Query q =
        db_->query("UPDATE nodes SET segment = ?, offset = ?, bytes = ?, raw_bytes = ? WHERE key = ? AND segment IS NULL RETURNING id");
    q.bind(row).bind_u64(c.offset).bind_u64(c.bytes).bind_u64(c.raw_bytes).bind_blob(c.key.bytes);
    KVRT_ASSIGN(bool placed, q.next());
    if (!placed) continue;
    txn->totals.shares = txn->totals.shares || q.integer(0) < first_new;  // fills another session's hole too
    txn->totals.chunks++;
    txn->totals.chunk_bytes += static_cast<int64_t>(c.bytes);
    txn->totals.chunk_raw_bytes += static_cast<int64_t>(c.raw_bytes);
    live += c.bytes;
    KVRT_TRY(q.run());
  }
  KVRT_TRY(segments_->set_live(txn, row, live));
  return live;
}

Result<std::vector<ChunkPlace>> NodeTable::chunks_of(const SegmentRow& segment) {
  std::vector<ChunkPlace> chunks;
  Query q = db_->query(
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

Result<uint64_t> NodeTable::move_chunks(const SegmentRow& from, const NewSegment& to) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  {
    Query q = db_->query("SELECT 1 FROM segments WHERE id = ? AND name = ?");
    KVRT_ASSIGN(bool there, q.bind(from.row).bind_blob(from.id.bytes).next());
    if (!there) return uint64_t{0};
  }
  KVRT_ASSIGN(int64_t row, segments_->add(&txn, to));
  uint64_t live = 0, count = 0;
  for (const ChunkPlace& c : to.chunks) {
    KVRT_TRY(db_->query("UPDATE nodes SET segment = ?, offset = ? WHERE key = ? AND segment = ?")
                 .bind(row)
                 .bind_u64(c.offset)
                 .bind_blob(c.key.bytes)
                 .bind(from.row)
                 .run());
    if (db_->changes() == 0) continue;
    live += c.bytes;
    count++;
  }
  KVRT_TRY(segments_->set_live(&txn, row, live));
  if (count > 0) KVRT_TRY(segments_->shrink(&txn, from.row, live));
  KVRT_TRY(txn.commit());
  return count;
}

Result<uint64_t> NodeTable::forget_chunk(const BlockKey& key, const SegmentId& segment) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  int64_t node;
  Placed chunk;
  {
    Query q = db_->query(
        "SELECT n.id, n.segment, n.bytes, n.raw_bytes FROM nodes n JOIN segments s ON s.id = n.segment WHERE n.key = ? AND s.name = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(key.bytes).bind_blob(segment.bytes).next());
    if (!row) return uint64_t{0};
    node = q.integer(0);
    chunk = {q.integer(1), q.u64(2), q.u64(3)};
  }
  KVRT_TRY(clear_chunk(&txn, node));
  KVRT_TRY(drop_chunk(&txn, chunk));
  KVRT_TRY(txn.commit());
  return uint64_t{1};
}

Result<uint64_t> NodeTable::forget_segment(const SegmentId& segment) {
  CatalogTransaction txn(catalog_);
  KVRT_TRY(txn.begin());
  int64_t id;
  {
    Query q = db_->query("SELECT id FROM segments WHERE name = ?");
    KVRT_ASSIGN(bool there, q.bind_blob(segment.bytes).next());
    if (!there) return uint64_t{0};
    id = q.integer(0);
  }
  {
    Query q = db_->query("SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(raw_bytes), 0) FROM nodes WHERE segment = ?");
    KVRT_ASSIGN(bool row, q.bind(id).next());
    if (!row) return broken_row("nodes");
    txn.totals.chunks -= q.integer(0);
    txn.totals.chunk_bytes -= q.integer(1);
    txn.totals.chunk_raw_bytes -= q.integer(2);
  }
  const auto count = static_cast<uint64_t>(-txn.totals.chunks);
  txn.totals.shares = true;
  KVRT_TRY(db_->query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE segment = ?").bind(id).run());
  KVRT_TRY(segments_->set_live(&txn, id, 0));
  KVRT_TRY(txn.commit());
  return count;
}

// Counts off a chunk that no row names any more.
Status NodeTable::drop_chunk(CatalogTransaction* txn, const Placed& chunk) {
  if (chunk.segment == 0) return {};
  txn->totals.chunks--;
  txn->totals.chunk_bytes -= static_cast<int64_t>(chunk.bytes);
  txn->totals.chunk_raw_bytes -= static_cast<int64_t>(chunk.raw_bytes);
  return segments_->shrink(txn, chunk.segment, chunk.bytes);
}

// Takes the chunk from the node's row. The node keeps its tokens.
Status NodeTable::clear_chunk(CatalogTransaction* txn, int64_t node) {
  txn->totals.shares = true;
  return db_->query("UPDATE nodes SET segment = NULL, offset = NULL, bytes = NULL, raw_bytes = NULL WHERE id = ?").bind(node).run();
}

// Takes chunks from the head up, as long as nobody else needs one: no child's KV continues the node's, no other session ends there, and the
// save that wants the room does not count on it.
Status NodeTable::evict_chain(CatalogTransaction* txn, int64_t head, const BlockKeys& needed, Evicted* evicted) {
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  int64_t parent = 0, steps = 0;
  for (int64_t node = head; node != 0; node = parent) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    Placed chunk;
    {
      Query q = db_->query(
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
    KVRT_TRY(clear_chunk(txn, node));
    KVRT_TRY(drop_chunk(txn, chunk));
    evicted->chunks++;
    evicted->bytes += chunk.bytes;
  }
  return {};
}

}  // namespace kvrt
