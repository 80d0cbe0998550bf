#include "runtime/text/tokenizer/special_tokens.h"

namespace kvrt {

int32_t SpecialTokens::child(int32_t node, uint8_t byte) const {
  if (node == 0) return roots_[byte] == 0 ? -1 : roots_[byte];
  int32_t at = nodes_[static_cast<size_t>(node)].first_child;
  while (at >= 0 && nodes_[static_cast<size_t>(at)].byte != byte) at = nodes_[static_cast<size_t>(at)].sibling;
  return at;
}

void SpecialTokens::add(std::string_view spelling, int32_t id) {
  int32_t node = 0;
  for (char c : spelling) {
    auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      Node fresh;
      fresh.byte = byte;
      if (node == 0) {
        roots_[byte] = next;
      } else {
        fresh.sibling = nodes_[static_cast<size_t>(node)].first_child;
        nodes_[static_cast<size_t>(node)].first_child = next;
      }
      nodes_.push_back(fresh);
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].id = id;
}

size_t SpecialTokens::match(std::string_view text, int32_t* id) const {
  size_t size = 0;
  int32_t node = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    node = child(node, static_cast<uint8_t>(text[at]));
    if (node < 0) break;
    int32_t here = nodes_[static_cast<size_t>(node)].id;
    if (here < 0) continue;
    size = at + 1;
    if (id != nullptr) *id = here;
  }
  return size;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!may_begin(static_cast<uint8_t>(text[begin]))) continue;
    int32_t id = -1;
    if (size_t size = match(text.substr(begin), &id)) return {begin, begin + size, id};
  }
  return {};
}

}  // namespace kvrt
