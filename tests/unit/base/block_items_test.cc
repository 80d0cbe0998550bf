#include "runtime/base/block_items.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/base/limits.h"

namespace kvrt {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes list(std::initializer_list<BlockItem> all) {
  Bytes items;
  for (const BlockItem& item : all) append_item(item, &items);
  return items;
}

TEST(BlockItems, BytesAreAsDocumented) {
  const Bytes two{8, 9}, four{1, 2, 3, 4};
  const Bytes items = list({{0x0102, 7, two}, {0x0102, 255, {}}, {0x0200, 1, four}});
  EXPECT_EQ(items, (Bytes{2, 1, 7, 2, 8, 9, 0, 0, 2, 1, 255, 0, 0, 2, 1, 4, 1, 2, 3, 4}));
  EXPECT_EQ(find_wrong_item(items, 0x0201), nullptr);
  EXPECT_EQ(highest_tag(items), 255);
  std::span<const uint8_t> rest = items;
  const auto first = take_item(&rest);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->row, 0x0102);
  EXPECT_EQ(first->tag, 7);
  EXPECT_TRUE(std::ranges::equal(first->bytes, two));
  EXPECT_EQ(rest.size(), items.size() - 8);
}

TEST(BlockItems, NoneIsAnEmptyList) {
  std::span<const uint8_t> none;
  EXPECT_FALSE(take_item(&none));
  EXPECT_EQ(find_wrong_item(none, 0), nullptr);
  EXPECT_EQ(highest_tag(none), kTokenTag);
}

TEST(BlockItems, WhatIsWrongIsFound) {
  const Bytes bytes(kItemBytesMax, 5);
  const auto found = [](Bytes items, uint64_t n, const char* what) {
    const char* wrong = find_wrong_item(items, n);
    ASSERT_NE(wrong, nullptr) << what;
    EXPECT_NE(std::string(wrong).find(what), std::string::npos) << wrong;
  };
  found(list({{4, 1, {}}}), 4, "the block has not");
  found(list({{4, 1, {}}, {3, 1, {}}}), 5, "lower row");
  found({0, 0, 0, 0}, 5, "tag of a token");
  found({0, 0, 1, 1, 7, 0, 1, 0}, 5, "other bytes than zeros");
  const Bytes longest = list({{0, 1, bytes}});
  EXPECT_EQ(find_wrong_item(longest, 1), nullptr);
  for (size_t n = 1; n < longest.size(); n++) {
    found(Bytes(longest.begin(), longest.begin() + static_cast<ptrdiff_t>(n)), 1, "past the end");
  }
  Bytes many;
  for (size_t i = 0; i < kBlockItemsMax; i++) append_item({0, 1, {}}, &many);
  EXPECT_EQ(find_wrong_item(many, 1), nullptr);
  append_item({0, 1, {}}, &many);
  found(many, 1, "more items");
}

TEST(BlockItems, RowsThatAreAlike) {
  const Bytes a = list({{1, 1, {}}, {4, 2, {}}}), b = list({{1, 1, {}}, {6, 2, {}}}), c = list({{1, 9, {}}});
  EXPECT_EQ(rows_alike({}, {}), SIZE_MAX);
  EXPECT_EQ(rows_alike(a, a), SIZE_MAX);
  EXPECT_EQ(rows_alike(a, {}), 1u);
  EXPECT_EQ(rows_alike(a, b), 4u);
  EXPECT_EQ(rows_alike(b, a), 4u);
  EXPECT_EQ(rows_alike(a, list({{1, 1, {}}})), 4u);
  EXPECT_EQ(rows_alike(a, c), 1u);
}

}  // namespace
}  // namespace kvrt
