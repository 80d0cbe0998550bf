// The table nodes: the token tree. A function that takes a CatalogTransaction is a part of it, and so is add.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/chunk_table.h"
#include "storage/catalog/session_needs.h"
#include "storage/catalog/transaction.h"
#include "storage/values.h"

namespace kvrt {

struct Evicted {
  uint64_t sessions = 0, chunks = 0, bytes = 0;
};

// The counts of a garbage collection, and the place where its next slice goes on.
struct Collected {
  uint64_t sessions = 0, nodes = 0, chunks = 0;
  int64_t expiry = 0, row = 0;  // the last expired session that was looked at; damaged ones are passed over
  bool jumped = false;          // the wall clock has jumped since the last look, so expired sessions stay
  bool looks = true;            // false: this look leaves a jump for the next one to see
  bool finished = false;
};

class NodeTable {
 public:
  NodeTable(CatalogDb* catalog, ChunkTable* chunks) : db_(catalog->sql()), chunks_(chunks) {}

  struct Chain {  // the leading nodes that the table has
    std::vector<int64_t> ids;
    std::vector<uint32_t> groups;  // by node: the numbers of the chunks that it has, as a bit mask
    int64_t refs = 0;              // the references of the last node
    bool collides = false;         // a row has the next node's key, with other tokens or items, or another parent
  };
  Result<Chain> find_chain(std::span<const NodeIn> nodes);
  Result<bool> has(const BlockKey& key);
  // A session's chain, in order from the first node to the head.
  struct NodeRow {
    int64_t id = 0, parent = 0, refs = 0;
    BlockKey key;
    std::vector<int32_t> tokens;
    std::vector<uint8_t> items;
  };
  Result<std::vector<NodeRow>> read_chain(int64_t head, const BlockKey& root);
  // What a walk up a chain reads of a node.
  struct Sums {
    int64_t parent = 0, refs = 0;
    uint64_t tokens = 0, chunks = 0, bytes = 0;
    uint32_t stored = 0;  // the numbers of the chunks that it has, as a bit mask
  };
  using SharedSums = std::unordered_map<int64_t, Sums>;
  // Counts the chain's chunks. Calls within one Snapshot may have a `shared`: each shared node is read once then, up to a number of them.
  Status fill_stat(int64_t head, std::span<const SessionGroup> needs, SessionStat* stat, SharedSums* shared = nullptr);

  struct Added {
    int64_t head = 0;   // the last node; 0: none
    int64_t below = 0;  // the deepest node that the table had before; 0: none
    int64_t refs = 0;   // the references that `below` had then
    int64_t first = 0;  // rows from this id on are new
  };
  Result<Added> add(const SessionIn& session);
  Status note_fork(CatalogTransaction* txn, const Added& added);
  Status release(CatalogTransaction* txn, int64_t node, int64_t ignored = 0);
  Result<bool> sweep(CatalogTransaction* txn, Collected* collected);
  struct Users {
    int64_t refs = 0, parent = 0;
  };
  // Takes one of the node's references away; its row stays.
  Result<Users> take_reference(CatalogTransaction* txn, int64_t node, int64_t ignored = 0);
  // What evict_chain leaves of a chain: nothing, or what others need, or a chain up to a boundary, if `bytes` were free then.
  enum class Left { kNothing, kNeeded, kChain };
  Result<Left> evict_chain(CatalogTransaction* txn, int64_t head, std::span<const SessionGroup> needs, uint64_t bytes,
                           const ChunkKeys& needed, Evicted* evicted);

 private:
  Result<NodeRow> read_node(int64_t id, bool with_items);
  Result<Sums> sum_node(int64_t id, const SharedSums* known);
  Status wake_session(int64_t node);
  Result<std::vector<bool>> boundaries(int64_t head, std::span<const SessionGroup> needs);
  Result<int64_t> chain_nodes_max();

  Db* const db_;
  ChunkTable* const chunks_;
};

}  // namespace kvrt
