// Catalog: the store's SQLite database, with sessions, their token tree, and the place of each chunk. Its COMMIT is the only commit point.
// FORMAT.md has the tables and their rules. A Catalog is not thread-safe: the store has one that writes and two that read, each guarded by a
// mutex of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/chunk_table.h"
#include "storage/catalog/model_id_table.h"
#include "storage/catalog/node_table.h"
#include "storage/catalog/segment_table.h"
#include "storage/catalog/session_table.h"
#include "storage/values.h"

namespace kvrt {

struct CommitResult {
  Saved saved;
  bool segment_used = false;  // false: no row names the segment, and its file is garbage
};

struct ChunkRow {  // for verify
  ChunkPlace place;
  int64_t segment = 0;
  std::optional<BlockKey> parent;  // the parent of its node; none: the node is a first block that no session needs any more
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;
  std::string session;  // a session that uses it
};

// The database, its tables, and the calls that touch several of them.
class Catalog {
 public:
  CatalogDb db;
  SegmentTable segments{&db};
  ChunkTable chunks{&db, &segments};
  NodeTable nodes{&db, &chunks};
  SessionTable sessions{&db, &nodes};
  ModelIdTable models{&db};

  Catalog() = default;
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Writes a save. It is BUSY (kConcurrent) if one of `needed` is gone. `bad` are chunks of the segment that replace those of the rows.
  Result<CommitResult> commit(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed, const ChunkKeys& bad,
                              int64_t now_ms);
  // Removes nodes without references, and expired sessions: one row at least, and more while more() is true. It adds to `before`'s counts.
  Result<Collected> collect(int64_t now_ms, const Collected& before, const std::function<bool()>& more);
  Result<bool> has_garbage(int64_t now_ms);
  // Takes KV from sessions until `bytes` of chunks are free, or some are and more() is false. Tokens stay. Sessions lose KV in the order of
  // their pins, those of `by`'s domain before others, and then by `used`. If it gives no sessions, there is nothing to take. A session whose
  // needs are empty loses all its KV, others lose no more than it takes.
  Result<Evicted> evict(const SavedBy& by, uint64_t bytes, const std::function<bool()>& more);
  struct Totals {
    uint64_t sessions = 0, chunks = 0, segments = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segment_bytes = 0;
    uint64_t loads_evicted = 0;  // as StoreInfo has it
  };
  Result<Totals> totals(int64_t now_ms);

  // Checks the catalog against itself: SQLite's check, reference counts, keys against tokens. Then gives the chunks for the caller to read,
  // and the segments of that moment: another segment may soon have one's row number.
  Status check(const SessionCheck& check, std::vector<VerifyFault>* faults, std::vector<ChunkRow>* found, std::vector<SegmentRow>* rows);

 private:
  Result<bool> trusts_clock(int64_t now_ms);
  Status note_time(CatalogTransaction* txn, int64_t now_ms);
  Status check_constraints(std::vector<VerifyFault>* faults);
  Status check_references(std::vector<VerifyFault>* faults);
  Status check_sessions(const SessionCheck& check, std::vector<VerifyFault>* faults);
  Status check_totals(std::vector<VerifyFault>* faults);
  Status check_nodes(std::vector<VerifyFault>* faults, std::vector<ChunkRow>* found, std::vector<SegmentRow>* rows);

  Db* const sql_ = db.sql();
};

}  // namespace kvrt
