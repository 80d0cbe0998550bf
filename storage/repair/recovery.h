// What of a store can be proved, from what was salvaged of its catalog and found in its segments. A node is right if its key is that of its
// parent and tokens; a session, if its checksum is right with its head's key and all nodes up to its root are there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "storage/catalog/rows.h"
#include "storage/repair/salvage.h"
#include "storage/repair/scan.h"

namespace kvrt {

inline constexpr size_t kNoFrame = SIZE_MAX;

struct RecoveredNode {
  BlockKey key;
  std::vector<int32_t> tokens;
  size_t parent = 0;  // number in Recovery::nodes, from 1; 0: none
  int64_t refs = 0;
  size_t frame = kNoFrame;  // of FoundSegments::frames
};

struct Recovery {
  Hash256 salt;
  std::vector<RecoveredNode> nodes;  // parents first
  std::vector<SessionRow> sessions;  // head: number in nodes
  std::map<Hash256, uint64_t> tombstones;
  std::vector<size_t> unowned;  // segments with chunks of sessions that are lost and whose model and domain nobody knows
  uint64_t kept = 0, with_holes = 0, recovered = 0, lost = 0;  // sessions
  uint64_t chunks = 0, chunks_lost = 0, chunks_unowned = 0, chunk_bytes = 0;
  std::vector<std::string> lines;  // what is lost, and what came back under another name
};

// Sessions that had a name keep it. Of chains whose session is gone, new ones are made ("recovered-<key>", of tokens alone), where another session
// tells the model and the domain of their root: nothing changes its domain.
Recovery recover(Env* env, Salvage salvage, const FoundSegments& found);

}  // namespace kvrt
