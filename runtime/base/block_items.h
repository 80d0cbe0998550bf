// Items: what a block's bits depend on besides its tokens. An item stands before a token of the block, and its tag says what it means. A
// block's items are one list of bytes, ascending by row; those of one row are in the order that their maker gave them:
//     u16 row, u8 tag, u8 n, u8[n], zeros up to a multiple of 4
// A block without items has an empty list. Keys, frames and nodes compare lists byte by byte, whatever the tags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvrt {

inline constexpr uint8_t kTokenTag = 0;  // of a token, in a key: no item has it

struct BlockItem {
  uint16_t row = 0;  // of the block's token that it stands before
  uint8_t tag = 0;
  std::span<const uint8_t> bytes;  // at most 255
};

void append_item(const BlockItem& item, std::vector<uint8_t>* items);
// Takes the first item of a list off it. None: the list is at its end, or broken.
std::optional<BlockItem> take_item(std::span<const uint8_t>* items);
// Says what keeps the bytes from being the items of a block of so many tokens; null: nothing. It allocates nothing.
const char* find_wrong_item(std::span<const uint8_t> items, uint64_t n_tokens);
// The highest tag of a list; kTokenTag: it is empty.
uint8_t highest_tag(std::span<const uint8_t> items);
// How many leading rows have the same items in both lists; SIZE_MAX: all.
size_t rows_alike(std::span<const uint8_t> a, std::span<const uint8_t> b);

}  // namespace kvrt
