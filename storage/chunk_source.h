// ChunkSource: where the KV of a chain's nodes is read from. A store is one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "storage/values.h"

namespace kvrt {

// Thread-safe.
class ChunkSource {
 public:
  virtual ~ChunkSource() = default;
  // For each node of a chain that begins at its root the numbers of the chunks that the source has, as a bit mask (has_group). A node that
  // collides with another chain's key has none, and so have all after it. The answer may be old by the time of a read.
  virtual std::vector<uint32_t> find(std::span<const NodeIn> chain) = 0;
  // Decodes a chunk into exactly out.size() bytes, and verifies checksum, key, number, parent, token ids and items. Number 0 is the chunk of
  // all layers, g + 1 that of group g of the model. kAbsent, kDamaged: a hole for the caller to compute again, and `damage` says in words what
  // was found. A damaged chunk is forgotten; the node's other chunks stay.
  virtual ChunkState read(const NodeIn& node, uint32_t number, uint32_t layout, std::span<uint8_t> out, std::string* damage) = 0;
  // The layout that a chunk's frame names, before anything of it is checked; 0: it is not there. For chains that have chunks of two.
  virtual uint32_t layout_of(const NodeIn& node, uint32_t number) = 0;
};

}  // namespace kvrt
