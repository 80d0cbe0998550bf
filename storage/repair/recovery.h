// The plan of a new catalog: the rows that the salvaged catalog and the frames in the segments prove. A node is right if its key is that of
// its parent, tokens and items; a session, if its checksum is right with its head's key and all nodes up to its root are there.
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

struct RecoveredNode {
  BlockKey key;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;
  size_t parent = 0;  // number in Recovery::nodes, from 1; 0: none
  int64_t refs = 0;
  std::vector<size_t> frames;  // numbers in FoundSegments::frames, each of another group
};

struct Recovery {
  Hash256 salt;
  std::vector<RecoveredNode> nodes;  // parents first
  std::vector<SessionRow> sessions;  // their head is a number in nodes
  std::map<Hash256, uint64_t> tombstones;
  bool foreign_log = false;     // none of the sessions in the catalog's log is this store's: nothing of the log is to be believed
  std::vector<size_t> unowned;  // segments with nothing but chunks of lost sessions whose model and domain no session tells
  uint64_t kept = 0, with_holes = 0, recovered = 0, lost = 0;  // sessions
  uint64_t chunks = 0, chunks_lost = 0, chunks_orphaned = 0, chunk_bytes = 0;
  std::vector<std::string> lines;  // the losses, and the sessions with new names, for the report
};

// A session whose row is right keeps its name. A chain whose session is lost becomes a new session ("recovered-<key>", tokens alone), if
// another session tells the model and the domain of its root: nothing changes its domain.
Recovery recover(Env* env, const StoreId& store, Salvage salvage, const FoundSegments& found);

}  // namespace kvrt
