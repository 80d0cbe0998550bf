// The table nodes: the token tree, and where the chunk of each node lies. A function that takes a transaction is a part of it; the others that
// change rows are each one of their own.
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

// One slice of garbage collection, and where the next goes on.
struct Collected {
  uint64_t sessions = 0, nodes = 0, chunks = 0;
  int64_t expiry = 0, row = 0;  // of the last expired session looked at: damaged ones are passed over
  bool finished = false;
};

class NodeTable {
 public:
  NodeTable(CatalogDb* catalog, SegmentTable* segments) : catalog_(catalog), db_(catalog->sql()), segments_(segments) {}

  Result<std::optional<ChunkLocation>> find(const BlockKey& key);
  struct Chain {  // the leading nodes that are there
    std::vector<int64_t> ids;
    std::vector<bool> has_chunk;
    int64_t refs = 0;       // of the last
    bool collides = false;  // the next node's key is there, with other tokens or another parent
  };
  Result<Chain> find_chain(std::span<const NodeIn> nodes);
  // A chain that a session's row names, from the first node to the head.
  struct NodeRow {
    int64_t id = 0, parent = 0, refs = 0;
    BlockKey key;
    std::vector<int32_t> tokens;
    bool has_chunk = false;
    uint64_t bytes = 0;
  };
  Result<std::vector<NodeRow>> read_chain(int64_t head, const BlockKey& root);
  Status fill_stat(int64_t head, SessionStat* stat);  // the counts of its chunks

  // BUSY (kConcurrent) when one of them has no chunk any more.
  Status require_chunks(const BlockKeys& keys);
  struct Added {
    int64_t head = 0;   // the last node; 0: none
    int64_t below = 0;  // the deepest that was there; 0: none
    int64_t refs = 0;   // that it had
    int64_t first = 0;  // rows from here on are new
  };
  Result<Added> add(const SessionIn& session);
  // The segment's chunks, to the nodes that have none; the bytes that are live then.
  Result<uint64_t> place_chunks(CatalogTransaction* txn, const NewSegment& segment, int64_t first_new);
  Status note_fork(CatalogTransaction* txn, const Added& added);
  Status release(CatalogTransaction* txn, int64_t node, int64_t ignored = 0);
  Result<bool> sweep(CatalogTransaction* txn, Collected* collected);
  Status evict_chain(CatalogTransaction* txn, int64_t head, const BlockKeys& needed, Evicted* evicted);

  Result<std::vector<ChunkPlace>> chunks_of(const SegmentRow& segment);  // in the order of the file
  // The chunks lie in the new segment now, as far as they are still in the old one. The count moved; 0: the new one has no row.
  Result<uint64_t> move_chunks(const SegmentRow& from, const NewSegment& to);
  // The chunk, or every chunk of the segment, is not there any more; nodes and tokens stay. The count of chunks forgotten.
  // Segments by name: their rows may be others' by now.
  Result<uint64_t> forget_chunk(const BlockKey& key, const SegmentId& segment);
  Result<uint64_t> forget_segment(const SegmentId& segment);

 private:
  // A chunk's row, in the columns' order: segment, bytes, raw_bytes.
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
