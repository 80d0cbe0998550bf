#include "storage/catalog/node_table.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/block_items.h"
#include "runtime/base/limits.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {
constexpr size_t kSharedSumsMax = 64u << 10;  // some 6 MB
}  // namespace

Result<NodeTable::Chain> NodeTable::find_chain(std::span<const NodeIn> nodes) {
  KVRT_TRY(db_->check_content());
  KVRT_ASSIGN(const bool with_items, nodes_have_items(db_));
  Chain chain;
  int64_t parent = 0;
  for (const NodeIn& node : nodes) {
    Query q = db_->query(with_items ? "SELECT id, parent, tokens, refs, (SELECT coalesce(sum(1 << grp), 0) FROM chunks WHERE node = n.id),"
                                      " items FROM nodes n WHERE key = ?"
                                    : "SELECT id, parent, tokens, refs, (SELECT coalesce(sum(1 << grp), 0) FROM chunks WHERE node = n.id),"
                                      " NULL FROM nodes n WHERE key = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(node.key.bytes).next());
    if (!row) break;
    if (q.integer(1) != parent || !same_bytes(q.blob(2), token_bytes(node.tokens)) || !same_bytes(q.blob(5), node.items)) {
      chain.collides = true;
      break;
    }
    parent = q.integer(0);
    chain.ids.push_back(parent);
    chain.refs = q.integer(3);
    chain.groups.push_back(static_cast<uint32_t>(q.integer(4)));  // no two of a node's rows have the same group
  }
  return chain;
}

Result<bool> NodeTable::has(const BlockKey& key) {
  Query q = db_->query("SELECT 1 FROM nodes WHERE key = ?");
  return q.bind_blob(key.bytes).next();
}

Result<NodeTable::NodeRow> NodeTable::read_node(int64_t id, bool with_items) {
  Query q = db_->query(with_items ? "SELECT key, parent, tokens, refs, items FROM nodes WHERE id = ?"
                                  : "SELECT key, parent, tokens, refs, NULL FROM nodes WHERE id = ?");
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
  if (find_wrong_item(q.blob(4), node.tokens.size()) != nullptr) return broken_row("node items");
  node.items.assign(q.blob(4).begin(), q.blob(4).end());
  return node;
}

// The longest chain that can be: a walk over more nodes is in a loop of damaged rows.
Result<int64_t> NodeTable::chain_nodes_max() {
  Query q = db_->query("SELECT coalesce(max(id), 0) FROM nodes");
  KVRT_ASSIGN(bool row, q.next());
  if (!row) return broken_row("nodes");
  return std::min<int64_t>(q.integer(0), kContextMax);
}

// Checks every key against its parent, tokens and items.
Result<std::vector<NodeTable::NodeRow>> NodeTable::read_chain(int64_t head, const BlockKey& root) {
  std::vector<NodeRow> chain;
  KVRT_ASSIGN(const bool with_items, nodes_have_items(db_));
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0; id = chain.back().parent) {
    if (static_cast<int64_t>(chain.size()) >= nodes_max) return broken_row("chain of nodes (it has a loop)");
    KVRT_ASSIGN(NodeRow node, read_node(id, with_items));
    chain.push_back(std::move(node));
  }
  std::reverse(chain.begin(), chain.end());
  const BlockKey* parent = &root;
  for (const NodeRow& node : chain) {
    if (chain_key(*parent, node.tokens, node.items) != node.key) {
      return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: node %.16s does not fit its parent, tokens and items",
                   node.key.hex().c_str());
    }
    parent = &node.key;
  }
  return chain;
}

Result<NodeTable::Sums> NodeTable::sum_node(int64_t id, const SharedSums* known) {
  if (known != nullptr) {
    const auto found = known->find(id);
    if (found != known->end()) return found->second;
  }
  Query q = db_->query(
      "SELECT parent, refs, n.n, count(c.grp), coalesce(sum(c.bytes), 0), coalesce(sum(1 << c.grp), 0)"
      " FROM nodes n LEFT JOIN chunks c ON c.node = n.id WHERE n.id = ? GROUP BY n.id");
  KVRT_ASSIGN(bool row, q.bind(id).next());
  if (!row) return broken_row("node");
  return Sums{q.integer(0), q.integer(1), q.u64(2), q.u64(3), q.u64(4), static_cast<uint32_t>(q.integer(5))};
}

// A node is shared if it, or one below it, has two users. So on the walk up from the head, all from the first with two users on are shared.
Status NodeTable::fill_stat(int64_t head, std::span<const SessionGroup> needs, SessionStat* stat, SharedSums* shared_sums) {
  bool shared = false;
  int64_t steps = 0;
  uint64_t behind = 0;
  stat->chunks = stat->chunks_missing = stat->bytes = stat->bytes_shared = 0;
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t id = head; id != 0;) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    KVRT_ASSIGN(const Sums node, sum_node(id, shared_sums));
    shared = shared || node.refs > 1;
    if (shared && shared_sums != nullptr && shared_sums->size() < kSharedSumsMax) shared_sums->emplace(id, node);
    stat->chunks += node.chunks;
    stat->chunks_missing += chunks_lacking(needs, behind, node.stored);
    behind += node.tokens;
    stat->bytes += node.bytes;
    if (shared) stat->bytes_shared += node.bytes;
    id = node.parent;
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
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, "node %.16s has other tokens or items, or another parent, in the catalog",
                 s.nodes[known].key.hex().c_str());
  }
  if (known != 0) {
    added.head = added.below = there.ids.back();
    added.refs = there.refs;
  }
  KVRT_ASSIGN(added.first, db_->number("SELECT coalesce(max(id), 0) + 1 FROM nodes"));
  KVRT_ASSIGN(bool with_items, nodes_have_items(db_));
  if (!with_items && std::any_of(s.nodes.begin(), s.nodes.end(), [](const NodeIn& node) { return !node.items.empty(); })) {
    KVRT_TRY(add_items_column(db_));
    with_items = true;
  }
  if (known < s.nodes.size() && added.below != 0) {
    KVRT_TRY(db_->query("UPDATE nodes SET refs = refs + 1 WHERE id = ?").bind(added.below).run());
  }
  for (size_t i = known; i < s.nodes.size(); i++) {
    const NodeIn& node = s.nodes[i];
    const BlockKey& before = i == 0 ? s.root : s.nodes[i - 1].key;
    if (node.tokens.empty() || node.parent != before || find_wrong_item(node.items, node.tokens.size()) != nullptr ||
        chain_key(before, node.tokens, node.items) != node.key) {
      return error(Code::kInvalid, Detail::kNone, "node %zu is not the chain key of its parent, tokens and items", i);
    }
    Query q = db_->query(with_items ? "INSERT INTO nodes(key, parent, n, tokens, refs, items) VALUES(?, ?, ?, ?, ?, ?)"
                                    : "INSERT INTO nodes(key, parent, n, tokens, refs) VALUES(?, ?, ?, ?, ?)");
    q.bind_blob(node.key.bytes);
    if (added.head == 0) {
      q.bind_null();
    } else {
      q.bind(added.head);
    }
    q.bind_u64(node.tokens.size()).bind_blob(token_bytes(node.tokens)).bind(i + 1 < s.nodes.size() ? 1 : 0);
    if (!node.items.empty()) q.bind_blob(node.items);
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

// `ignored`: a node that the session itself goes on with, and whose users note_fork compares.
Result<NodeTable::Users> NodeTable::take_reference(CatalogTransaction* txn, int64_t node, int64_t ignored) {
  Users left;
  {
    Query q = db_->query("UPDATE nodes SET refs = refs - 1 WHERE id = ? RETURNING refs, parent");
    KVRT_ASSIGN(bool row, q.bind(node).next());
    if (!row) return broken_row("node");
    left = {q.integer(0), q.integer(1)};
    KVRT_TRY(q.run());
  }
  if (left.refs > 0 && node != ignored) {
    txn->totals.shares = txn->totals.shares || left.refs == 1;
    KVRT_TRY(wake_session(node));
  }
  return left;
}

// A session left the node, and others are below. It may have brought KV to nodes of theirs after all of them had lost theirs (`used` 0):
// then no eviction would come there any more. So one of them, whichever is found first, can be evicted again.
Status NodeTable::wake_session(int64_t node) {
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  for (int64_t steps = 0; node != 0 && steps < nodes_max; steps++) {
    int64_t used, child;
    {
      Query q = db_->query(
          "SELECT coalesce((SELECT max(used) FROM sessions WHERE head = ?1), -1),"
          " (SELECT id FROM nodes WHERE parent = ?1 AND refs > 0 LIMIT 1)");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      used = q.integer(0);
      child = q.integer(1);
    }
    if (used == 0) return db_->query("UPDATE sessions SET used = 1 WHERE head = ?").bind(node).run();
    if (used > 0) return {};
    node = child;  // 0: all below wait for sweep, which comes here again
  }
  return {};
}

// Gives one reference of the node back. A node without any is deleted, with its chunks and its reference on the parent.
Status NodeTable::release(CatalogTransaction* txn, int64_t node, int64_t ignored) {
  while (node != 0) {
    KVRT_ASSIGN(const Users left, take_reference(txn, node, ignored));
    if (left.refs > 0) return {};
    KVRT_TRY(chunks_->drop(txn, node).take_status());
    KVRT_TRY(db_->query("DELETE FROM nodes WHERE id = ?").bind(node).run());
    node = left.parent;
  }
  return {};
}

// Deletes one node without references, with its chunks and its reference on the parent. False: there is none.
Result<bool> NodeTable::sweep(CatalogTransaction* txn, Collected* collected) {
  int64_t node, parent;
  {
    Query q = db_->query("SELECT id, parent FROM nodes WHERE refs = 0 LIMIT 1");
    KVRT_ASSIGN(bool row, q.next());
    if (!row) return false;
    node = q.integer(0);
    parent = q.integer(1);
  }
  KVRT_ASSIGN(const ChunkTable::Dropped dropped, chunks_->drop(txn, node));
  KVRT_TRY(db_->query("DELETE FROM nodes WHERE id = ?").bind(node).run());
  if (parent != 0) KVRT_TRY(take_reference(txn, parent).take_status());
  collected->nodes++;
  collected->chunks += dropped.chunks;
  return true;
}

// find_boundaries of the chain.
Result<std::vector<bool>> NodeTable::boundaries(int64_t head, std::span<const SessionGroup> needs) {
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  std::vector<NodeChunks> chain;
  for (int64_t node = head; node != 0;) {
    if (static_cast<int64_t>(chain.size()) >= nodes_max) return broken_row("chain of nodes (it has a loop)");
    Query q = db_->query("SELECT parent, n, (SELECT coalesce(sum(1 << grp), 0) FROM chunks WHERE node = n.id) FROM nodes n WHERE id = ?");
    KVRT_ASSIGN(bool row, q.bind(node).next());
    if (!row) return broken_row("node");
    chain.push_back({q.u64(1), static_cast<uint32_t>(q.integer(2))});
    node = q.integer(0);
  }
  std::reverse(chain.begin(), chain.end());
  return find_boundaries(needs, chain);
}

// Takes chunks from the head up, all of a node's, as long as nobody else needs one: no child's KV continues the node's, no other session
// ends there, and the save that wants the room does not count on one. A session without groups loses all; of another the chain that is left
// ends at a boundary, for KV behind the last one is of no use.
Result<NodeTable::Left> NodeTable::evict_chain(CatalogTransaction* txn, int64_t head, std::span<const SessionGroup> needs, uint64_t bytes,
                                               const ChunkKeys& needed, Evicted* evicted) {
  KVRT_ASSIGN(const int64_t nodes_max, chain_nodes_max());
  std::vector<bool> ends;
  if (!needs.empty()) {
    KVRT_ASSIGN(ends, boundaries(head, needs));
  }
  const uint64_t before = evicted->bytes;
  int64_t parent = 0, steps = 0;
  for (int64_t node = head; node != 0; node = parent) {
    if (++steps > nodes_max) return broken_row("chain of nodes (it has a loop)");
    BlockKey key;
    {
      Query q = db_->query(
          "SELECT parent, EXISTS(SELECT 1 FROM nodes b JOIN chunks c ON c.node = b.id WHERE b.parent = n.id)"
          " OR EXISTS(SELECT 1 FROM sessions s WHERE s.head = n.id AND s.used > 0), key FROM nodes n WHERE id = ?");
      KVRT_ASSIGN(bool row, q.bind(node).next());
      if (!row) return broken_row("node");
      if (!copy_exact(q.blob(2), key.bytes)) return broken_row("node key");
      if (q.integer(1) != 0) return Left::kNeeded;
      parent = q.integer(0);
    }
    KVRT_ASSIGN(const std::vector<ChunkPlace> places, chunks_->of_node(key));
    if (std::any_of(places.begin(), places.end(), [&](const ChunkPlace& p) { return needed.count(p.chunk) != 0; })) return Left::kNeeded;
    KVRT_ASSIGN(const ChunkTable::Dropped dropped, chunks_->drop(txn, node));
    txn->totals.shares = txn->totals.shares || dropped.chunks > 0;
    if (dropped.chunks > 0) {  // those that end here, too: their KV had been given up, but for what this one needed
      KVRT_TRY(db_->query("UPDATE sessions SET counted = ? WHERE head = ?").bind(kEvictedSince).bind(node).run());
    }
    evicted->chunks += dropped.chunks;
    evicted->bytes += dropped.bytes;
    if (!ends.empty()) ends.pop_back();
    if (!ends.empty() && ends.back() && parent != 0 && evicted->bytes - before >= bytes) return Left::kChain;
  }
  return Left::kNothing;
}

}  // namespace kvrt
