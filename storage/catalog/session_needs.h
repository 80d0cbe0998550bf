// Which chunks a session needs: all of its groups without a window, and of the others those of its last tokens. FORMAT.md, "Catalog".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "storage/values.h"

namespace kvrt {

// The column `needs` of a session's row, and back. Nothing: the bytes are none that encode_needs gives.
std::vector<uint8_t> encode_needs(std::span<const SessionGroup> groups);
std::optional<std::vector<SessionGroup>> decode_needs(std::span<const uint8_t> bytes);
Status check_groups(std::span<const SessionGroup> groups);  // INVALID: not ascending, or one that there is not

// The chunks that a session with these groups lacks of a node: `behind` of its tokens come after the node, `stored` are the groups that the
// node has a chunk of, as a bit mask. A chunk of group 0 stands for all groups. A session without groups needs any one chunk of each node.
uint32_t chunks_lacking(std::span<const SessionGroup> groups, uint64_t behind, uint32_t stored);

struct NodeChunks {
  uint64_t tokens = 0;
  uint32_t stored = 0;  // as above
};
// For each count of leading nodes, from 0 on, whether their end is a boundary: a session could go on from there, since each group without a
// window has all chunks up to it, and the others those of the nodes that have one of the last `window` tokens before it.
std::vector<bool> find_boundaries(std::span<const SessionGroup> groups, std::span<const NodeChunks> chain);

}  // namespace kvrt
