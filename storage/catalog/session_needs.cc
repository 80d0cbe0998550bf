#include "storage/catalog/session_needs.h"

#include "runtime/base/bytes.h"

namespace kvrt {

namespace {

constexpr size_t kGroupBytes = 1 + 4;  // u8 group, u32 window

bool is_sound(std::span<const SessionGroup> groups) {
  for (size_t i = 0; i < groups.size(); i++) {
    if (groups[i].group >= kChunkGroups || (i > 0 && groups[i].group <= groups[i - 1].group)) return false;
  }
  return true;
}

}  // namespace

std::vector<uint8_t> encode_needs(std::span<const SessionGroup> groups) {
  ByteWriter w;
  for (const SessionGroup& g : groups) {
    w.write(static_cast<uint8_t>(g.group));
    w.write(g.window);
  }
  return {w.bytes().begin(), w.bytes().end()};
}

std::optional<std::vector<SessionGroup>> decode_needs(std::span<const uint8_t> bytes) {
  std::vector<SessionGroup> groups;
  if (bytes.size() % kGroupBytes != 0 || bytes.size() / kGroupBytes > kChunkGroups) return std::nullopt;
  for (size_t at = 0; at < bytes.size(); at += kGroupBytes) groups.push_back({bytes[at], load<uint32_t>(&bytes[at + 1])});
  if (!is_sound(groups)) return std::nullopt;
  return groups;
}

Status check_groups(std::span<const SessionGroup> groups) {
  if (is_sound(groups)) return {};
  return error(Code::kInvalid, Detail::kNone, "a session's groups ascend, and are below %u", kChunkGroups);
}

uint32_t chunks_lacking(std::span<const SessionGroup> groups, uint64_t behind, uint32_t stored) {
  if (groups.empty()) return stored == 0;
  if (has_group(stored, 0)) return 0;
  uint32_t lacking = 0;
  for (const SessionGroup& g : groups) lacking += (g.window == 0 || behind < g.window) && !has_group(stored, g.group);
  return lacking;
}

std::vector<bool> find_boundaries(std::span<const SessionGroup> groups, std::span<const NodeChunks> chain) {
  std::vector<bool> boundaries{true};
  std::vector<uint64_t> begins(groups.size());  // of each group's last chunks without a gap: their first token
  uint64_t end = 0;
  for (const NodeChunks& node : chain) {
    end += node.tokens;
    bool whole = true;
    for (size_t i = 0; i < groups.size(); i++) {
      const uint64_t window = groups[i].window;
      if (!has_group(node.stored, 0) && !has_group(node.stored, groups[i].group)) begins[i] = end;
      whole = whole && begins[i] <= (window != 0 && end > window ? end - window : 0);
    }
    boundaries.push_back(whole);
  }
  return boundaries;
}

}  // namespace kvrt
