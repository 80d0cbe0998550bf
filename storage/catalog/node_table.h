// The table nodes: the token tree, and the place of each node's chunk. A function that takes a CatalogTransaction is a part of it, and so
// is add. move_chunks and the forget functions that take none are each a transaction of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/segment_table.h"
#include "storage/catalog/transaction.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

struct ChunkLocation {
  SegmentId id;
  uint64_t offset = 0, bytes = 0, raw_bytes = 0;
};

struct Evicted {
  uint64_t sessions = 0, chunks = 0, bytes = 0;
};

// The counts of a garbage collection, and the place where its next slice goes on.
struct Collected {
  uint64_t sessions = 0, nodes = 0, chunks = 0;
  int64_t expiry = 0, row = 0;  // the last expired session looked at. A damaged one is passed over
  bool finished = false;
};

class NodeTable {
 public:
  NodeTable(CatalogDb* catalog, SegmentTable* segments) : catalog_(catalog), db_(catalog->sql()), segments_(segments) {}

  Result<std::optional<ChunkLocation>> find(const BlockKey& key);
  struct Chain {  // the leading nodes that the table has
    std::vector<int64_t> ids;
    std::vector<bool> has_chunk;
    int64_t refs = 0;       // the last node's
    bool collides = false;  // a row has the next node's key, with other tokens or another parent
  };
  Result<Chain> find_chain(std::span<const NodeIn> nodes);
  // A session's chain, in order from the first node to the head.
  struct NodeRow {
    int64_t id = 0, parent = 0, refs = 0;
    BlockKey key;
    std::vector<int32_t> tokens;
    bool has_chunk = false;
    uint64_t bytes = 0;
  };
  Result<std::vector<NodeRow>> read_chain(int64_t head, const BlockKey& root);
  Status fill_stat(int64_t head, SessionStat* stat);  // counts the chain's chunks

  // BUSY (kConcurrent) if one of the keys has no chunk any more.
  Status require_chunks(const BlockKeys& keys);
  struct Added {
    int64_t head = 0;   // the last node; 0: none
    int64_t below = 0;  // the deepest node that the table had before; 0: none
    int64_t refs = 0;   // the references that `below` had then
    int64_t first = 0;  // rows from this id on are new
  };
  Result<Added> add(const SessionIn& session);
  // Gives the segment's chunks to the nodes that have none. The bytes that became live.
  Result<uint64_t> place_chunks(CatalogTransaction* txn, const NewSegment& segment, int64_t first_new);
  Status note_fork(CatalogTransaction* txn, const Added& added);
  Status release(CatalogTransaction* txn, int64_t node, int64_t ignored = 0);
  Result<bool> sweep(CatalogTransaction* txn, Collected* collected);
  // True: it came to the first node, so that nothing of the chain is left to take.
  Result<bool> evict_chain(CatalogTransaction* txn, int64_t head, const BlockKeys& needed, Evicted* evicted);
  Status forget_chunk(CatalogTransaction* txn, const BlockKey& key);  // wherever it lies, if there is one

  Result<std::vector<ChunkPlace>> chunks_of(const SegmentRow& segment);  // in the file's order
  // Points the chunks that are still in `from` to their places in `to`. The count moved; 0: `to` has no row.
  Result<uint64_t> move_chunks(const SegmentRow& from, const NewSegment& to);
  // Forgets the chunk, or every chunk of the segment; nodes and tokens stay. The count of chunks forgotten.
  // The segment is found by its name: another segment may have its row number by now.
  Result<uint64_t> forget_chunk(const BlockKey& key, const SegmentId& segment);
  Result<uint64_t> forget_segment(const SegmentId& segment);

 private:
  // A chunk's columns of a node's row, in the order of a SELECT: segment, bytes, raw_bytes.
  struct Placed {
    int64_t segment = 0;
    uint64_t bytes = 0, raw_bytes = 0;
  };
  Result<NodeRow> read_node(int64_t id);
  Result<int64_t> chain_nodes_max();
  Status drop_chunk(CatalogTransaction* txn, const Placed& chunk);
  Status clear_chunk(CatalogTransaction* txn, int64_t node);

  CatalogDb* const catalog_;
  Db* const db_;
  SegmentTable* const segments_;
};

}  // namespace kvrt
