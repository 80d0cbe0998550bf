// The proved nodes, by their keys.
#pragma once

#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/repair/salvage.h"
#include "storage/repair/scan.h"

namespace kvrt {

struct ForestNode {
  BlockKey key, parent;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;
  std::vector<size_t> frames;                  // numbers in FoundSegments::frames, each of another group
  uint32_t found = 0, stored = 0;              // the groups of the frames; those that the catalog had
  bool in_catalog = false;                     // a row has it
  bool needed = false, needed_in_log = false;  // the row had references; it is in the log
  BlockKey root;                               // the parent of the topmost node above it, a key that no node has
  uint64_t depth = 0;                          // tokens from the root to here; 0: not known yet

  uint64_t lost_chunks() const { return static_cast<uint64_t>(std::popcount(stored & ~found)); }
};

class Forest {
 public:
  Forest(const Salvage& salvage, const FoundSegments& found);
  ForestNode* find(const BlockKey& key) {
    auto at = nodes_.find(key);
    return at == nodes_.end() ? nullptr : &at->second;
  }
  std::unordered_map<BlockKey, ForestNode, Hash256Hasher>& nodes() { return nodes_; }
  // The nodes under a root, by depth.
  const std::vector<ForestNode*>& under(const BlockKey& root) { return by_root_[root]; }
  uint64_t rows_lost() const { return rows_lost_; }  // rows of chunks whose node and frame are both nowhere

 private:
  void add_frames(const FoundSegments& found);
  void add_rows(const Salvage& salvage);
  void add_row(const SalvagedNode& row, const BlockKey& parent);
  void add_chunks(const Salvage& salvage, const FoundSegments& found);
  void guess_parents(const Salvage& salvage, const std::vector<const SalvagedNode*>& rows);
  void find_roots();

  std::unordered_map<BlockKey, ForestNode, Hash256Hasher> nodes_;
  std::unordered_map<BlockKey, std::vector<ForestNode*>, Hash256Hasher> by_root_;
  uint64_t rows_lost_ = 0;
};

}  // namespace kvrt
