// Cold snapshots get KV of few bits: who takes it, who never does, and what stays as it is.
#include "tests/unit/engine/shrink_rig.h"

namespace kvrt {
namespace {

using namespace test;

class Shrink : public testing::Test {
 protected:
  std::string directory() const { return tmp_.path() + "/s"; }
  // What the same format of a pool costs, which computes with it from the first token on.
  double cost_of(const char* model, KvFormats formats, const std::vector<int32_t>& tokens, const std::vector<int32_t>& more) {
    LogitRows rows[2];
    for (const bool narrow : {false, true}) {
      ShrinkHost pool(tmp_.path() + (narrow ? "/narrow" : "/wide"), model, narrow ? formats : KvFormats());
      Session* s = pool.open();
      (void)pool.prefill(s, tokens);
      rows[narrow] = pool.follow(s, more);
      pool.engine->sessions().close(s);
    }
    return divergence(rows[0], rows[1]);
  }
  TempDir tmp_{"/dev/shm"};
};

// By default a converted session is computed again and is exact; who asks for its KV gets all of it, close to the exact, and is told.
class ShrinkModels : public Shrink, public testing::WithParamInterface<const char*> {};
TEST_P(ShrinkModels, ConvertsOnceAndTellsWhoTakesIt) {
  ShrinkHost host(directory(), GetParam());
  const auto tokens = words(0, 90), more = words(90, 12);
  host.keep("ann", tokens);
  const LogitRows exact = host.go_on("ann", false, more);
  const uint64_t all = host.resumed.reused_disk;
  EXPECT_GE(all, 89u);
  const SessionStat before = *host.store->stat("", "ann");
  const ShrinkReport shrunk = host.must_shrink();
  EXPECT_EQ(shrunk.sessions, 1u);
  EXPECT_EQ(shrunk.converted, 1u);
  const SessionStat after = *host.store->stat("", "ann");
  EXPECT_EQ(after.chunks, before.chunks);
  EXPECT_EQ(after.chunks_missing, before.chunks_missing);
  EXPECT_EQ(after.revision, before.revision);
  EXPECT_EQ(after.saved_unix_ms, before.saved_unix_ms);
  EXPECT_EQ(after.tokens, before.tokens);

  EXPECT_TRUE(host.go_on("ann", false, more) == exact);
  EXPECT_EQ(host.resumed.reused_disk, 0u);
  EXPECT_EQ(host.resumed.reuse_stopped, ReuseStop::kOtherNumerics);
  EXPECT_FALSE(host.inexact);

  const LogitRows rounded = host.go_on("ann", true, more);
  EXPECT_EQ(host.resumed.reused_disk, all);
  EXPECT_TRUE(host.inexact);
  EXPECT_FALSE(rounded == exact);
  EXPECT_LT(divergence(exact, rounded), 2 * cost_of(GetParam(), KvFormat::kI4, tokens, more));
  EXPECT_TRUE(host.go_on("ann", true, more) == rounded) << "the same bits each time";

  const ShrinkReport again = host.must_shrink();
  EXPECT_EQ(again.converted, 0u);
  EXPECT_EQ(again.inexact, 1u);
  EXPECT_EQ(again.bytes_after, again.bytes_before);
}
INSTANTIATE_TEST_SUITE_P(Models, ShrinkModels,
                         testing::Values("llama_gqa_f32", "llama_mha_f16", "with_bias_qwen2", "with_bias_qwen2_yarn", "with_bias_stablelm",
                                         "row_gemma3", "row_gemma4_e", "row_lfm2", "row_qwen35", "row_glm4", "row_starcoder2"));

// int8 is closer than int4, and takes more.
TEST_F(Shrink, EachFormat) {
  double last = 0;
  uint64_t bytes = UINT64_MAX;
  for (const KvFormats to : {KvFormats(KvFormat::kI8), KvFormats(KvFormat::kI8, KvFormat::kI4), KvFormats(KvFormat::kI4)}) {
    TempDir own("/dev/shm");
    ShrinkHost host(own.path() + "/s", "with_bias_qwen2");
    host.keep("ann", words(0, 160));
    const LogitRows exact = host.go_on("ann", false, words(160, 30));
    const ShrinkReport shrunk = host.must_shrink(to);
    EXPECT_EQ(shrunk.converted, 1u);
    const double now = divergence(exact, host.go_on("ann", true, words(160, 30)));
    EXPECT_TRUE(host.inexact);
    EXPECT_GT(now, last);
    EXPECT_LT(now, 2 * cost_of("with_bias_qwen2", to, words(0, 160), words(160, 30)));
    EXPECT_LT(shrunk.bytes_after, bytes);
    last = now;
    bytes = shrunk.bytes_after;
  }
}

// A bias as large as the one of Qwen2.5 would take all of int4's bits: it is taken out of K, and comes back.
TEST_F(Shrink, TheBiasOfKeysTakesNoBits) {
  ShrinkHost host(directory(), "with_bias_qwen2", KvFormat::kF32);
  host.keep("ann", words(0, 90));
  const LogitRows exact = host.go_on("ann", false, words(90, 12));
  EXPECT_EQ(host.must_shrink(KvFormat::kI8).converted, 1u);
  EXPECT_LT(divergence(exact, host.go_on("ann", true, words(90, 12))),
            2 * cost_of("with_bias_qwen2", KvFormat::kI8, words(0, 90), words(90, 12)));
}

// A session that went on from rounded KV saves only what it computed, and comes back whole, also after that.
TEST_F(Shrink, GoesOnFromRoundedChunks) {
  ShrinkHost host(directory());
  host.keep("ann", words(0, 96));
  (void)host.must_shrink();
  Session* s = host.resume("ann", true);
  (void)host.prefill(s, words(96, 32));
  kvrt::SaveOptions o;
  o.suspend = true;
  auto saved = host.engine->saver().save(s, "ann", o);
  ASSERT_OK(saved.status());
  EXPECT_EQ(saved->chunks, 8u);
  EXPECT_LE(saved->chunks_written, 2u);
  const LogitRows once = host.follow(s, words(128, 9));  // from what it had suspended
  host.engine->sessions().close(s);
  EXPECT_TRUE(host.go_on("ann", true, words(128, 9)) == once);
  EXPECT_GE(host.resumed.reused_disk, 127u);
  EXPECT_TRUE(host.inexact);
  const ShrinkReport again = host.must_shrink();
  EXPECT_EQ(again.converted + again.inexact, 1u);
  EXPECT_EQ(again.inexact, 1u);
}

// What a warm session has stays exact for that one.
TEST_F(Shrink, SharersThatAreWarmKeepTheirs) {
  ShrinkHost host(directory());
  auto ann = words(0, 48), bob = ann;
  const auto own = words(48, 112, 1), others = words(48, 60, 2);
  ann.insert(ann.end(), own.begin(), own.end());
  bob.insert(bob.end(), others.begin(), others.end());
  auto cat = bob;
  cat.push_back(5);
  host.keep("ann", ann);
  host.keep("bob", bob);
  host.keep("cat", cat);
  ASSERT_OK(host.store->pin("", "bob", 1));
  const LogitRows exact = host.go_on("bob", false, words(0, 5));
  const ShrinkReport shrunk = host.must_shrink();
  EXPECT_EQ(shrunk.converted, 1u);
  EXPECT_EQ(shrunk.warm, 1u);
  EXPECT_EQ(shrunk.shared, 1u) << "nearly all of cat is bob's";
  EXPECT_TRUE(host.go_on("bob", false, words(0, 5)) == exact);
  EXPECT_EQ(host.resumed.reused_disk, bob.size());
  (void)host.go_on("cat", false, words(0, 5));
  EXPECT_GE(host.resumed.reused_disk, cat.size() - 1);
  (void)host.go_on("ann", false, words(0, 5));
  EXPECT_EQ(host.resumed.reuse_stopped, ReuseStop::kOtherNumerics);
  // A new exact session finds bob's prefix, and nothing of ann's.
  SessionOptions o;
  o.store = host.store;
  Session* fresh = *host.engine->sessions().open(o);
  (void)host.prefill(fresh, ann);
  EXPECT_EQ(host.report.reused_disk, 48u);
  EXPECT_FALSE(host.engine->sessions().info(fresh).inexact);
  host.engine->sessions().close(fresh);
}

// Two cold sessions share the rounded copy of what they had in common.
TEST_F(Shrink, ColdSharersShare) {
  ShrinkHost host(directory());
  auto ann = words(0, 96), bob = ann;
  ann.push_back(4);
  bob.push_back(5);
  host.keep("ann", ann);
  host.keep("bob", bob);
  const ShrinkReport shrunk = host.must_shrink();
  EXPECT_EQ(shrunk.converted, 2u);
  EXPECT_EQ(shrunk.chunks, 6u + 2u);
}

// A session that is open is warm. A handle that was opened before its snapshot was converted saves as if nothing had been.
TEST_F(Shrink, OpenSessions) {
  ShrinkHost host(directory());
  host.keep("ann", words(0, 64));
  Session* s = host.resume("ann", false);
  EXPECT_EQ(host.must_shrink().warm, 1u);
  kvrt::SaveOptions o;
  o.overwrite = false;
  (void)host.prefill(s, words(64, 20));
  ASSERT_OK(host.engine->saver().save(s, "ann", o).status());
  host.engine->sessions().close(s);
  EXPECT_EQ(host.must_shrink().converted, 1u);
}

// Where there is no room for the rounded chunks beside the others, nobody loses KV for them.
TEST_F(Shrink, TakesNoOthersKvForRoom) {
  uint64_t bytes;
  {
    ShrinkHost host(directory());
    host.keep("ann", words(0, 200, 1));
    host.keep("bob", words(0, 200, 2));
    bytes = host.store->info()->disk_bytes;
  }
  for (const bool fits : {false, true}) {
    StoreOptions quota;
    quota.disk_bytes_max = fits ? bytes + (1 << 20) : bytes / 2;
    ShrinkHost host(directory(), "llama_gqa_f32", {}, posix_env(), quota);
    const auto shrunk = host.shrink();
    EXPECT_TRUE(shrunk.status().code() == (fits ? Code::kOk : Code::kNoSpace)) << shrunk.status().message();
    for (const char* name : {"ann", "bob"}) EXPECT_EQ(host.store->stat("", name)->chunks_missing, 0u) << name;
    EXPECT_EQ(host.store->info()->chunks_evicted, 0u);
  }
}

TEST_F(Shrink, WhatItLeavesAndRefuses) {
  {
    ShrinkHost host(directory());
    host.keep("ann", words(0, 64));
    EXPECT_EQ(host.shrink(KvFormat::kF8).status().code(), Code::kUnsupported);
    EXPECT_EQ(host.shrink(KvFormat::kF16).status().code(), Code::kUnsupported);
    auto young = host.engine->shrinker().shrink(host.store, {KvFormat::kI4, 3'600'000, std::nullopt}, nullptr);
    ASSERT_OK(young.status());
    EXPECT_EQ(young->warm, 1u);
    auto elsewhere = host.engine->shrinker().shrink(host.store, {KvFormat::kI4, 0, "other"}, nullptr);
    ASSERT_OK(elsewhere.status());
    EXPECT_EQ(elsewhere->sessions, 0u);
    const auto stop = [](uint64_t, uint64_t) { return false; };
    EXPECT_EQ(host.engine->shrinker().shrink(host.store, {}, stop).status().code(), Code::kCancelled);
  }
  {
    ShrinkHost other(directory(), "llama_mha_f16");
    EXPECT_EQ(other.must_shrink().other, 1u);
  }
  {
    ShrinkHost narrow(directory(), "llama_gqa_f32", KvFormat::kI8);
    const auto refused = narrow.shrink();
    EXPECT_EQ(refused.status().code(), Code::kUnsupported);
    EXPECT_NE(refused.status().message().find("int8"), std::string::npos) << refused.status().message();
  }
  {
    ShrinkHost wide(directory(), "llama_gqa_f32", KvFormat::kF32);
    EXPECT_EQ(wide.must_shrink().other, 1u);
  }
  {
    ShrinkHost latents(directory(), "row_deepseek2");
    EXPECT_EQ(latents.shrink().status().code(), Code::kUnsupported);
  }
  ShrinkHost host(directory());
  EXPECT_EQ(host.must_shrink().converted, 1u) << "none of these changed anything";
}

}  // namespace
}  // namespace kvrt
