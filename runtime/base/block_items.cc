#include "runtime/base/block_items.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt {

namespace {

constexpr size_t kHeadBytes = 4;

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

void append_item(const BlockItem& item, std::vector<uint8_t>* items) {
  KVRT_CHECK(item.tag != kTokenTag && item.bytes.size() <= kItemBytesMax);
  const size_t at = items->size();
  items->resize(at + kHeadBytes + padded(item.bytes.size()));
  uint8_t* to = items->data() + at;
  std::memcpy(to, &item.row, sizeof item.row);
  to[2] = item.tag;
  to[3] = static_cast<uint8_t>(item.bytes.size());
  std::copy(item.bytes.begin(), item.bytes.end(), to + kHeadBytes);
}

std::optional<BlockItem> take_item(std::span<const uint8_t>* items) {
  if (items->size() < kHeadBytes) return {};
  const uint8_t* head = items->data();
  const size_t n = head[3], whole = kHeadBytes + padded(n);
  if (items->size() < whole) return {};
  const BlockItem item{load<uint16_t>(head), head[2], items->subspan(kHeadBytes, n)};
  *items = items->subspan(whole);
  return item;
}

const char* find_wrong_item(std::span<const uint8_t> items, uint64_t n_tokens) {
  size_t count = 0, row = 0;
  while (!items.empty()) {
    const uint8_t* const begin = items.data();
    const std::optional<BlockItem> item = take_item(&items);
    if (!item) return "an item goes past the end of the list";
    if (++count > kBlockItemsMax) return "more items than a block can have";
    if (item->tag == kTokenTag) return "an item with the tag of a token";
    if (item->row < row) return "an item before another one of a lower row";
    if (item->row >= n_tokens) return "an item before a row that the block has not";
    row = item->row;
    const uint8_t* const end = begin + kHeadBytes + padded(item->bytes.size());
    if (std::any_of(begin + kHeadBytes + item->bytes.size(), end, [](uint8_t byte) { return byte != 0; })) {
      return "an item is filled up with other bytes than zeros";
    }
  }
  return nullptr;
}

uint8_t highest_tag(std::span<const uint8_t> items) {
  uint8_t highest = kTokenTag;
  while (const auto item = take_item(&items)) highest = std::max(highest, item->tag);
  return highest;
}

size_t rows_alike(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  for (;;) {
    const auto left = take_item(&a), right = take_item(&b);
    if (!left && !right) return SIZE_MAX;
    if (!left || !right) return left ? left->row : right->row;
    const bool same = left->row == right->row && left->tag == right->tag && std::ranges::equal(left->bytes, right->bytes);
    if (!same) return std::min(left->row, right->row);
  }
}

}  // namespace kvrt
