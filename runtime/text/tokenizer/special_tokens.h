// SpecialTokens: finds the spellings of control and user-defined tokens in text. Immutable after build: any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvrt {

class SpecialTokens {
 public:
  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;  // -1: none
  };

  void add(std::string_view spelling, int32_t id);  // not empty; the bytes are copied into the trie
  bool empty() const { return nodes_.size() == 1; }
  // The leftmost match from `from` on, and the longest that begins there.
  Match find(std::string_view text, size_t from) const;
  bool may_begin(uint8_t byte) const { return roots_[byte] != 0; }
  // The length of the longest match at the beginning of `text`; 0: none.
  size_t match(std::string_view text, int32_t* id = nullptr) const;

 private:
  struct Node {
    int32_t id = -1;
    int32_t first_child = -1, sibling = -1;
    uint8_t byte = 0;
  };
  int32_t child(int32_t node, uint8_t byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);  // the root
  int32_t roots_[256] = {};                         // children of the root by first byte, 0: none
};

}  // namespace kvrt
