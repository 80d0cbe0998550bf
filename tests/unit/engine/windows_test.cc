// An engine that frees what is behind windows against one that keeps it: the same bits, and less memory.
#include <algorithm>
#include <map>

#include "runtime/engine/engine.h"
#include "runtime/engine/resources/runtime.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

constexpr uint32_t kBlock = 16;

class WindowsFreed : public testing::TestWithParam<std::pair<const char*, KvFormats>> {
 protected:
  void SetUp() override {
    runtime_ = std::move(Runtime::open({2, ""}, nullptr)).value();
    store_ = std::move(runtime_->open_store(runtime_, tmp_.path() + "/s", {})).value();
    kept_ = open(Windows::kKept);
    freed_ = open(Windows::kFreed);
  }
  std::shared_ptr<Engine> open(Windows windows) {
    EngineOptions o;
    o.block_tokens = kBlock;
    o.windows = windows;
    o.prefill_chunk = 40;
    o.load.kv_format = GetParam().second;
    return std::move(Engine::open(runtime_, {std::string(KVRT_SOURCE_DIR "/tests/golden/tiny/") + GetParam().first + ".gguf"}, o, nullptr))
        .value();
  }
  Session* session(Engine* engine, bool stored = true) {
    SessionOptions o;
    if (stored) o.store = store_;
    return std::move(engine->sessions().open(o)).value();
  }
  static std::vector<int32_t> text(size_t from, size_t count, size_t seed = 0) {
    std::vector<int32_t> ids;
    for (size_t i = from; i < from + count; ++i) ids.push_back(static_cast<int32_t>((i * i + 7 * i * (seed + 1)) % 90 + 3));
    return ids;
  }
  // By position the logits that a prefill gives.
  std::map<uint64_t, std::vector<float>> prefill(Engine* engine, Session* s, const std::vector<int32_t>& tokens, WantLogits logits) {
    EXPECT_OK(engine->conversations().append(s, tokens));
    GenerateOptions o;
    o.prefill_only = true;
    o.logits = logits;
    EXPECT_OK(engine->driver().begin(s, std::move(o)));
    std::map<uint64_t, std::vector<float>> rows;
    for (;;) {
      auto event = engine->driver().next(s, -1);
      EXPECT_OK(event.status());
      if (!event.is_ok()) return rows;
      if (event->type == EventType::kLogits) rows[event->position] = event->logits;
      if (event->type != EventType::kDone) continue;
      report_ = event->report;
      return rows;
    }
  }

  TempDir tmp_{"/dev/shm"};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Engine> kept_, freed_;
  Report report_;
};

TEST_P(WindowsFreed, GivesTheSameBitsAtEveryPosition) {
  Session *a = session(kept_.get()), *b = session(freed_.get());
  const auto want = prefill(kept_.get(), a, text(0, 200), WantLogits::kAll),
             have = prefill(freed_.get(), b, text(0, 200), WantLogits::kAll);
  EXPECT_EQ(want.size(), 200u);
  EXPECT_EQ(want, have);
  EXPECT_LT(freed_->sessions().info(b).kv_bytes, kept_->sessions().info(a).kv_bytes);
  for (size_t n = 200; n < 230; ++n) {  // one by one, as an answer comes
    const auto token = text(n, 1);
    ASSERT_EQ(prefill(kept_.get(), a, token, WantLogits::kLast), prefill(freed_.get(), b, token, WantLogits::kLast)) << n;
  }
  kept_->sessions().close(a);
  freed_->sessions().close(b);
}

// Truncated to any position, and gone on otherwise.
TEST_P(WindowsFreed, RewindsToEveryPosition) {
  Session *a = session(kept_.get()), *b = session(freed_.get());
  prefill(kept_.get(), a, text(0, 200), WantLogits::kNone);
  prefill(freed_.get(), b, text(0, 200), WantLogits::kNone);
  for (uint64_t n = 199; n > 0; n -= n > 3 ? 3 : 1) {
    Session *x = std::move(kept_->sessions().fork(a, nullptr)).value(), *y = std::move(freed_->sessions().fork(b, nullptr)).value();
    ASSERT_OK(kept_->conversations().truncate(x, n));
    ASSERT_OK(freed_->conversations().truncate(y, n));
    const auto want = prefill(kept_.get(), x, text(n, 2, 5), WantLogits::kLast);
    ASSERT_EQ(want, prefill(freed_.get(), y, text(n, 2, 5), WantLogits::kLast)) << n;
    kept_->sessions().close(x);
    freed_->sessions().close(y);
  }
  kept_->sessions().close(a);
  freed_->sessions().close(b);
}

// Also where another conversation of as many messages and tokens took the place of one.
TEST_P(WindowsFreed, MarksTheEndsOfMessagesAfterARewind) {
  Session* s = session(freed_.get(), false);
  s->messages = {{"{}", 0, 100, false}, {"{}", 100, 180, false}};
  prefill(freed_.get(), s, text(0, 180), WantLogits::kNone);
  EXPECT_TRUE(std::ranges::binary_search(s->kv.marks, 96u));
  ASSERT_OK(freed_->conversations().truncate(s, 50));
  ASSERT_TRUE(s->messages.empty());
  s->messages = {{"{}", 0, 116, false}, {"{}", 116, 180, false}};
  prefill(freed_.get(), s, text(50, 130, 5), WantLogits::kNone);
  EXPECT_TRUE(std::ranges::binary_search(s->kv.marks, 112u));
  freed_->sessions().close(s);
}

// Saved by either, resumed by either; the one that frees reads no more than it needs.
TEST_P(WindowsFreed, ResumesWhatEitherSaved) {
  const auto next = text(210, 1);
  Session* a = session(kept_.get());
  prefill(kept_.get(), a, text(0, 210), WantLogits::kNone);
  ASSERT_OK(kept_->saver().save(a, "kept", {.suspend = true}).status());
  const auto want = prefill(kept_.get(), a, next, WantLogits::kLast);
  kept_->sessions().close(a);
  Session* b = session(freed_.get());
  prefill(freed_.get(), b, text(0, 210, 3), WantLogits::kNone);
  auto saved = freed_->saver().save(b, "freed", {.suspend = true});
  ASSERT_OK(saved.status());
  EXPECT_EQ(saved->chunks_missing, 0u);
  EXPECT_EQ(saved->chunks, saved->chunks_written);
  EXPECT_EQ(store_->stat("", "freed")->chunks, saved->chunks);
  EXPECT_EQ(store_->stat("", "freed")->chunks_missing, 0u) << "what lies behind the windows is not missing";
  const auto want_freed = prefill(freed_.get(), b, next, WantLogits::kLast);
  freed_->sessions().close(b);
  for (const Windows windows : {Windows::kFreed, Windows::kKept}) {
    for (const char* name : {"kept", "freed"}) {
      auto engine = open(windows);  // with nothing resident
      SessionOptions o;
      o.store = store_;
      Report report;
      auto resumed = engine->resumer().resume(o, name, nullptr, &report);
      ASSERT_OK(resumed.status());
      const bool whole = windows == Windows::kFreed || std::string_view(name) == "kept";
      if (whole) {
        EXPECT_EQ(report.reused_disk, 210u) << name;
        EXPECT_EQ(report.reuse_stopped, ReuseStop::kAll) << name;
      }
      EXPECT_EQ(prefill(engine.get(), *resumed, next, WantLogits::kLast), name == std::string_view("kept") ? want : want_freed) << name;
      engine->sessions().close(*resumed);
    }
  }
  auto faults = store_->verify(nullptr);
  ASSERT_OK(faults.status());
  EXPECT_TRUE(faults->empty());
}

// A chunk of any group may be gone: its tokens are computed from the nearest place before it.
TEST_P(WindowsFreed, ADamagedChunkOfAnyGroupCostsTimeAlone) {
  Session* a = session(freed_.get());
  prefill(freed_.get(), a, text(0, 210), WantLogits::kNone);
  ASSERT_OK(freed_->saver().save(a, "ann", {.suspend = true}).status());
  const auto want = prefill(freed_.get(), a, text(210, 1), WantLogits::kLast);
  freed_->sessions().close(a);
  const auto files = segment_files(tmp_.path() + "/s");
  ASSERT_EQ(files.size(), 1u);
  const auto bytes = read_file(files[0]);
  for (size_t at = 400; at < bytes.size(); at += bytes.size() / 9) {
    auto changed = bytes;
    changed[at] ^= 0x55;
    write_file(files[0], changed);
    auto engine = open(Windows::kFreed);
    SessionOptions o;
    o.store = store_;
    Report report;
    auto resumed = engine->resumer().resume(o, "ann", nullptr, &report);
    ASSERT_OK(resumed.status());
    EXPECT_EQ(prefill(engine.get(), *resumed, text(210, 1), WantLogits::kLast), want) << at;
    engine->sessions().close(*resumed);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, WindowsFreed,
                         testing::Values(std::pair("row_gemma2", KvFormats()), std::pair("row_gemma3", KvFormats()),
                                         std::pair("row_phi3_long", KvFormats()), std::pair("row_gemma4_e", KvFormats()),
                                         std::pair("row_gemma4_e", KvFormat::kI8),
                                         std::pair("row_gemma3", KvFormats(KvFormat::kI8, KvFormat::kF16))));

}  // namespace
}  // namespace kvrt
