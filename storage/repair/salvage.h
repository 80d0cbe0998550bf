// Reads the rows that are left in a damaged catalog. Sessions and nodes are proved later (recovery.h); other rows are taken as they are,
// for a wrong one does no harm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "storage/catalog/rows.h"
#include "storage/segment/segment.h"
#include "storage/store/format_file.h"

namespace kvrt {

struct SalvagedNode {
  BlockKey key;
  int64_t parent = 0, refs = 0;  // parent: its row; 0: none
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;
  uint32_t stored = 0;  // of 0.1: the group that it had a chunk of, as a bit mask
  bool logged = false;  // from the log
};

struct SalvagedChunk {
  int64_t node = 0, segment = 0;  // their rows
  uint32_t group = 0;
  uint64_t offset = 0;
};

// A row as far as it can be read: a column of another kind, or out of its range, is as if it were empty. The checksum proves the rest.
struct SalvagedSession {
  SessionRow row;  // without head_key, which is in the head's row
  int64_t rowid = 0;
  std::array<uint8_t, 16> checksum{};
  std::vector<uint8_t> needs;  // the column, whether or not it could be decoded
  bool logged = false;
  bool old = false;  // as 0.1 wrote it
};

// An entry of the index of sessions: it names one whose row may be lost.
struct NamedSession {
  std::string domain, name;
  int64_t rowid = 0;
  bool logged = false;
};

struct Salvage {
  std::optional<Hash256> salt;
  std::vector<uint8_t> identity;   // meta's row
  std::optional<StoreId> id;       // the store's id in it, if its checksum is right
  std::optional<StoreId> claimed;  // the same, though without the salt nothing proves it
  std::vector<SalvagedSession> sessions;
  std::vector<NamedSession> named;
  std::unordered_map<int64_t, SalvagedNode> nodes;  // by row
  std::unordered_map<int64_t, SegmentId> segments;  // by row
  std::vector<SalvagedChunk> chunks;
  std::map<Hash256, uint64_t> tombstones;
  std::unordered_set<SegmentId, SegmentIdHasher> trash;
  // The table can be walked from its root, and every row was found: a row that was not found did not exist.
  bool all_sessions = false, all_nodes = false;
};

// Reads a catalog and, if it is wanted, its log, either of which may be missing. An error only where the disk or the memory fails.
Result<Salvage> salvage_catalog(Env* env, const std::string& catalog, bool with_log);

}  // namespace kvrt
