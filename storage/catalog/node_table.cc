#include "storage/catalog/node_table.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/limits.h"
#include "storage/catalog/rows.h"

namespace kvrt {

Result<std::optional<ChunkLocation>> NodeTable::find(const BlockKey& key) {
  Query q = db_->query("SELECT s.name, n.offset, n.bytes, n.raw_bytes FROM nodes n JOIN segments s ON s.id = n.segment WHERE n.key = ?");
  KVRT_ASSIGN(bool row, q.bind_blob(key.bytes).next());
  if (!row) return std::optional<ChunkLocation>();
  ChunkLocation at;
  if (!copy_exact(q.blob(0), at.id.bytes)) return broken_row("segment name");
  at.offset = q.u64(1);
  at.bytes = q.u64(2);
  at.raw_bytes = q.u64(3);
  return std::optional<ChunkLocation>(at);
}

Result<NodeTable::Chain> NodeTable::find_chain(std::span<const NodeIn> nodes) {
  Chain chain;
  int64_t parent = 0;
  for (const NodeIn& node : nodes) {
    Query q = db_->query("SELECT id, parent, tokens, segment IS NOT NULL, refs FROM nodes WHERE key = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(node.key.bytes).next());
    if (!row) break;
    if (q.integer(1) != parent || !same_bytes(q.blob(2), token_bytes(node.tokens))) {
      chain.collides = true;
      break;
    }
    parent = q.integer(0);
    chain.ids.push_back(parent);
    chain.has_chunk.push_back(q.integer(3) != 0);
    chain.refs = q.integer(4);
  }
  return chain;
}

Result<NodeTable::NodeRow> NodeTable::read_node(int64_t id) {
  Query q = db_->query("SELECT key, parent, tokens, refs, segment IS NOT NULL, bytes FROM nodes WHERE id = ?");
  KVRT_ASSIGN(bool row, q.bind(id).next());
  NodeRow node;
  if (!row || !copy_exact(q.blob(0), node.key.bytes)) return broken_row("node");
  node.id = id;
  node.parent = q.integer(1);
  auto tokens = q.blob(2);
  if (tokens.empty() || tokens.size() % 4 != 0) return broken_row("node tokens");
  node.tokens.resize(tokens.size() / 4);
  std::memcpy(node.tokens.data(), tokens.data(), tokens.size());
  node.refs = q.integer(3);
  node.has_chunk = q.integer(4) != 0;
  node.bytes = q.u64(5);
  return node;
}

// The longest chain that can be: a walk over more nodes is in a loop of damaged rows.
Result<int64_t> NodeTable::chain_nodes_max() {
  Query q = db_->query("SELECT coalesce(max(id), 0) FROM nodes");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("nodes");
  return std::min<int64_t>(q.integer(0), kContextMax);
}

// Checks every key against its parent and tokens.
Result<std::vector<NodeTable::NodeRow>> NodeTable::read_chain(int64_t head, const BlockKey& root) {
  std::vector<NodeRow> chain;
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0; id = chain.back().parent) {
    if (static_cast<int64_t>(chain.size()) >= nodes_max) return broken_row("chain of nodes (it has a loop)");
    KVRT_ASSIGN(NodeRow node, read_node(id));
    chain.push_back(std::move(node));
  }
  std::reverse(chain.begin(), chain.end());
  const BlockKey* parent = &root;
  for (const NodeRow& node : chain) {
    if (chain_key(*parent, node.tokens) != node.key) {
      return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: node %.16s does not fit its parent and tokens",
                   node.key.hex().c_str());
    }
    parent = &node.key;
  }
  return chain;
}

// A node is shared if it, or one below it, has two users. So on the walk up from the head, all from the first with two users on are shared.
Status NodeTable::fill_stat(int64_t head, SessionStat* stat) {
  bool shared = false;
  int64_t steps = 0;
  stat->chunks = stat->chunks_missing = stat->bytes = stat->bytes_shared = 0;
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0;) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    Query q = db_->query("SELECT parent, refs, segment IS NOT NULL, bytes FROM nodes WHERE id = ?");
    KVRT_ASSIGN(bool row, q.bind(id).next());
    if (!row) return broken_row("node");
    shared = shared || q.integer(1) > 1;
    if (q.integer(2) != 0) {
      stat->chunks++;
      stat->bytes += q.u64(3);
      if (shared) stat->bytes_shared += q.u64(3);
    } else {
      stat->chunks_missing++;
    }
    id = q.integer(0);
  }
  return {};
}

Status NodeTable::require_chunks(const BlockKeys& keys) {
  for (const BlockKey& key : keys) {
    Query q = db_->query("SELECT 1 FROM nodes WHERE key = ? AND segment IS NOT NULL");
    KVRT_ASSIGN(bool there, q.bind_blob(key.bytes).next());
    if (!there) {
      return error(Code::kBusy, Detail::kConcurrent, "chunk %.16s, which this save counts on, was removed meanwhile", key.hex().c_str());
    }
  }
  return {};
}

// Inserts the nodes that the table lacks. A reference is a child's or a session's; each new node but the last has one child, so among the
// old nodes only the deepest one's count changes.
Result<NodeTable::Added> NodeTable::add(const SessionIn& s) {
  Added added;
  KVRT_ASSIGN(const Chain there, find_chain(s.nodes));
  const size_t known = there.ids.size();
  if (there.collides) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "node %.16s has other tokens, or another parent, in the catalog",
                 s.nodes[known].key.hex().c_str());
  }
  if (known != 0) {
    added.head = added.below = there.ids.back();
    added.refs = there.refs;
  }
  KVRT_ASSIGN(added.first, db_->number("SELECT coalesce(max(id), 0) + 1 FROM nodes"));
  if (known < s.nodes.size() && added.below != 0) {
    KVRT_TRY(db_->query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(added.below).run());
  }
  for (size_t i = known; i < s.nodes.size(); i++) {
    const NodeIn& node = s.nodes[i];
    const BlockKey& before = i == 0 ? s.root : s.nodes[i - 1].key;
    if (node.tokens.empty() || node.parent != before || chain_key(before, node.tokens) != node.key) {
      return error(Code::kInvalid, Detail::kNone, "node %zu is not the chain key of its parent and tokens", i);
    }
    Query q = db_->query("INSERT INTO nodes(key, parent, n, tokens, refs) VALUES(?, ?, ?, ?, ?)");
    q.bind_blob(node.key.bytes);
    if (added.head == 0) {
      q.bind_null();
    } else {
      q.bind(added.head);
    }
    q.bind_u64(node.tokens.size()).bind_blob(token_bytes(node.tokens)).bind(i + 1 < s.nodes.size() ? 1 : 0);
    KVRT_TRY(q.run());
    added.head = db_->last_rowid();
  }
  if (added.head != 0) KVRT_TRY(db_->query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(added.head).run());
  return added;
}

// Notes in `shares` that the save gave the node `added.below` a second user, or took all users but one.
Status NodeTable::note_fork(CatalogTransaction* txn, const Added& added) {
  if (added.below == 0 || added.refs == 0) return {};
  Query q = db_->query("SELECT refs FROM nodes WHERE id = ?");
  KVRT_ASSIGN(bool row, q.bind(added.below).next());
  if (!row) return broken_row("node");
  txn->totals.shares = txn->totals.shares || (q.integer(0) == 1) != (added.refs == 1);
  return {};
}

// Gives one reference of the node back. A node without any is deleted, with its chunk and its reference on the parent. `ignored`: a node
// whose users note_fork compares.
Status NodeTable::release(CatalogTransaction* txn, int64_t node, int64_t ignored) {
  while (node != 0) {
    int64_t refs, parent;
    Placed chunk;
    {
      Query q = db_->query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs, parent, segment, bytes, raw_bytes");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      refs = q.integer(0);
      parent = q.integer(1);
      chunk = {q.integer(2), q.u64(3), q.u64(4)};
      KVRT_TRY(q.run());
    }
    if (refs > 0) {
      txn->totals.shares = txn->totals.shares || (refs == 1 && node != ignored);
      return {};
    }
    KVRT_TRY(db_->query("DELETE FROM nodes WHERE id = ?").bind(node).run());
    KVRT_TRY(drop_chunk(txn, chunk));
    node = parent;
  }
  return {};
}

// Deletes one node without references, with its chunk and its reference on the parent. False: there is none.
Result<bool> NodeTable::sweep(CatalogTransaction* txn, Collected* collected) {
  int64_t node, parent;
  Placed chunk;
  {
    Query q = db_->query("SELECT id, parent, segment, bytes, raw_bytes FROM nodes WHERE refs = 0 LIMIT 1");
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return false;
    node = q.integer(0);
    parent = q.integer(1);
    chunk = {q.integer(2), q.u64(3), q.u64(4)};
  }
  KVRT_TRY(db_->query("DELETE FROM nodes WHERE id = ?").bind(node).run());
  KVRT_TRY(drop_chunk(txn, chunk));
  if (parent != 0) {
    Query q = db_->query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs");
    KVRT_ASSIGN(bool row, q.bind(parent).next());
    if (!row) return broken_row("node");
    txn->totals.shares = txn->totals.shares || q.integer(0) == 1;
    KVRT_TRY(q.run());
  }
  collected->nodes++;
  collected->chunks += chunk.segment != 0;
  return true;
}

// ---- chunks: they come, move and go while the nodes stay ---------------------------------------------------------------------------

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

Status NodeTable::forget_chunk(CatalogTransaction* txn, const BlockKey& key) {
  int64_t node;
  Placed chunk;
  {
    Query q = db_->query("SELECT id, segment, bytes, raw_bytes FROM nodes WHERE key = ? AND segment IS NOT NULL");
    KVRT_ASSIGN(bool row, q.bind_blob(key.bytes).next());
    if (!row) return {};
    node = q.integer(0);
    chunk = {q.integer(1), q.u64(2), q.u64(3)};
  }
  KVRT_TRY(clear_chunk(txn, node));
  return drop_chunk(txn, chunk);
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
Result<bool> NodeTable::evict_chain(CatalogTransaction* txn, int64_t head, const BlockKeys& needed, Evicted* evicted) {
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
      if (q.integer(4) != 0 || needed.count(key) != 0) return false;
      parent = q.integer(0);
      chunk = {q.integer(1), q.u64(2), q.u64(3)};
    }
    if (chunk.segment == 0) continue;
    KVRT_TRY(clear_chunk(txn, node));
    KVRT_TRY(drop_chunk(txn, chunk));
    evicted->chunks++;
    evicted->bytes += chunk.bytes;
  }
  return true;
}

}  // namespace kvrt
