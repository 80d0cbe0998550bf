// What can still be read of a catalog that is damaged: rows as they are found. Sessions and nodes prove themselves later (recovery.h); the
// others are taken as they are, and can do no harm when they are wrong.
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
  int64_t parent = 0, refs = 0;  // parent: row, 0: none
  std::vector<int32_t> tokens;
  bool stored = false;  // it had a chunk
};

struct SalvagedSession {
  SessionRow row;  // head_key unknown: it is in the head's row
  std::array<uint8_t, 16> checksum{};
};

struct Salvage {
  std::optional<Hash256> salt;
  std::vector<uint8_t> identity;  // the row of meta
  std::optional<StoreId> id;      // that it says, with the right checksum
  std::vector<SalvagedSession> sessions;
  std::unordered_map<int64_t, SalvagedNode> nodes;  // by row
  std::map<Hash256, uint64_t> tombstones;
  std::unordered_set<SegmentId, SegmentIdHasher> trash;
  // SQLite reads the table from one end to the other, and so many rows as were found here: what is not found was not there.
  bool all_sessions = false, all_nodes = false;
};

// Of a catalog and its log, where they are there. An error only where the disk or the memory fails.
Result<Salvage> salvage_catalog(Env* env, const std::string& catalog);

}  // namespace kvrt
