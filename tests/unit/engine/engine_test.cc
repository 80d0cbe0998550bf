// The pure parts of the engine: output text, manifest, messages. The sampler has sampler_test.cc.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "runtime/engine/sampling/output_text.h"
#include "runtime/engine/snapshot/manifest.h"
#include "runtime/text/reply/message.h"

namespace kvrt {
namespace {

std::string push_all(OutputText& text, std::initializer_list<const char*> pieces) {
  std::string out;
  for (const char* piece : pieces) out += text.push(piece);
  return out;
}

TEST(OutputText, HoldsBackHalfACodePoint) {
  OutputText text({});
  EXPECT_EQ(text.push("a\xc3"), "a");
  EXPECT_EQ(text.push("\xa9!"), "\xc3\xa9!");
  text.push("\xe2\x82");
  EXPECT_EQ(text.finish(), "\xef\xbf\xbd");
}

TEST(OutputText, FindsAStopStringAcrossTokens) {
  OutputText text({"STOP"});
  EXPECT_EQ(push_all(text, {"one ", "S", "T"}), "one ");
  EXPECT_FALSE(text.stopped());
  EXPECT_EQ(text.push("OPq"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.stop_tokens(), 3u);
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.bytes_cut(), 5u);
}

TEST(OutputText, ReleasesWhatWasNoStop) {
  OutputText text({"STOP", "##"});
  EXPECT_EQ(push_all(text, {"S", "T", "A#"}), "STA");
  EXPECT_EQ(text.push("b"), "#b");
  EXPECT_EQ(push_all(text, {"ST"}), "");
  EXPECT_EQ(text.finish(), "ST");
}

TEST(OutputText, TakesTheEarliestStop) {
  OutputText text({"bb", "ab"});
  EXPECT_EQ(text.push("xabb"), "x");
  EXPECT_TRUE(text.stopped());
}

Manifest some_manifest() {
  Manifest m;
  m.block_tokens = 32;
  m.pending = {5, 6};
  m.messages = {{R"({"role":"user"})", 0, 7, false}, {R"({"role":"assistant"})", 7, 12, true}};
  m.text_id.bytes.fill(3);
  return m;
}

TEST(Manifest, RoundTrips) {
  auto bytes = encode_manifest(some_manifest());
  auto back = decode_manifest(bytes, 10, 100);
  ASSERT_TRUE(back.is_ok()) << back.status().message();
  EXPECT_EQ(back->pending, (std::vector<int32_t>{5, 6}));
  ASSERT_EQ(back->messages.size(), 2u);
  EXPECT_EQ(back->messages[1].json, R"({"role":"assistant"})");
  EXPECT_TRUE(back->messages[1].generated);
  EXPECT_EQ(back->messages[1].end, 12u);
  EXPECT_EQ(back->text_id, some_manifest().text_id);
}

TEST(Manifest, RefusesEveryCutAndWhatPointsOutside) {
  auto bytes = encode_manifest(some_manifest());
  for (size_t n = 0; n < bytes.size(); ++n) {
    auto cut = decode_manifest(std::span(bytes).first(n), 10, 100);
    ASSERT_FALSE(cut.is_ok()) << n;
    EXPECT_EQ(cut.status().code(), Code::kCorrupt);
  }
  EXPECT_FALSE(decode_manifest(bytes, 9, 100).is_ok());  // a message ends past the tokens
  EXPECT_FALSE(decode_manifest(bytes, 10, 6).is_ok());   // token 6 of a vocabulary of 6
  bytes.push_back(0);
  EXPECT_FALSE(decode_manifest(bytes, 10, 100).is_ok());
  bytes.pop_back();
  bytes[0]++;
  EXPECT_EQ(decode_manifest(bytes, 10, 100).status().code(), Code::kIncompatible);
  EXPECT_EQ(decode_manifest(bytes, 10, 100).status().detail(), Detail::kStoreTooNew);
}

TEST(Messages, QuotesEverythingJsonReserves) {
  EXPECT_EQ(assistant_message("a\"b\\c\nd\x01 \xc3\xa9", {}), "{\"role\":\"assistant\",\"content\":\"a\\\"b\\\\c\\nd\\u0001 \xc3\xa9\"}");
}

}  // namespace
}  // namespace kvrt
