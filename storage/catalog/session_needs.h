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

}  // namespace kvrt
