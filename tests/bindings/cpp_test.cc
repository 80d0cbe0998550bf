// kvrt.hpp on the real library: the tests of tests/api, through the C++ header.
#include "kvrt.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using kvrt::Event, kvrt::Flow, kvrt::Model, kvrt::Runtime, kvrt::Session, kvrt::Store;

const char kModel[] = KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf";

struct TempDir {
  std::string path;
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvrt-cpp-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path); }
};

kvrt_generate_options greedy(uint32_t max_tokens) {
  auto o = kvrt::init<kvrt_generate_options>();
  o.max_tokens = max_tokens;
  o.ignore_eos = 1;
  return o;
}

class Cpp : public testing::Test {
 protected:
  TempDir dir;
  Runtime runtime = Runtime::open().or_throw();
  Model model = Model::open(runtime, kModel).or_throw();
  Store store = Store::open(runtime, dir.path).or_throw();

  Session open(std::vector<int32_t> tokens = {5, 6, 7, 8}) {
    auto o = kvrt::init<kvrt_session_options>();
    o.store = store.get();
    Session s = Session::open(model, o).or_throw();
    s.append(tokens).or_throw();
    return s;
  }
  static std::vector<int32_t> tokens(const Session& s) {
    std::vector<int32_t> out;
    s.tokens(out).or_throw();
    return out;
  }
};

TEST_F(Cpp, HandlesAreCopiedMovedAndClosedInAnyOrder) {
  Session s = open();
  Model copy = model;
  EXPECT_EQ(copy.get(), model.get());
  runtime.reset();
  model.reset();
  EXPECT_FALSE(model);
  Model moved = std::move(copy);
  EXPECT_FALSE(copy);
  EXPECT_EQ(moved.info().or_throw().sessions, 1u);
  Session other = std::move(s);
  EXPECT_FALSE(s);
  EXPECT_EQ(other.generate(greedy(3)).or_throw().generated, 3u);
  other = Session::open(moved).or_throw();  // closes the first
  EXPECT_EQ(moved.info().or_throw().sessions, 1u);
  other.close();
  other.close();
  EXPECT_EQ(moved.info().or_throw().sessions, 0u);
  Store again;
  again = store;
  store = Store();
  EXPECT_TRUE(again.info().ok());
}

TEST_F(Cpp, ErrorsAreValuesAndExceptions) {
  auto missing = Model::open(runtime, "no such file");
  EXPECT_FALSE(missing.ok());
  EXPECT_EQ(missing.status(), KVRT_NOT_FOUND);
  EXPECT_STREQ(missing.status().name(), "NOT_FOUND");
  EXPECT_FALSE(*missing);
  EXPECT_NE(std::string(kvrt::last_error().message).find("no such file"), std::string::npos);
  try {
    (void)Model::open(runtime, "no such file").or_throw();
    FAIL();
  } catch (const kvrt::Error& e) {
    EXPECT_EQ(e.status(), KVRT_NOT_FOUND);
    EXPECT_NE(std::string(e.what()).find("no such file"), std::string::npos);
  }
  // An error that another call has overwritten keeps its class.
  const kvrt::Error late(KVRT_NO_SPACE);
  EXPECT_EQ(late.status(), KVRT_NO_SPACE);
  EXPECT_STREQ(late.what(), "NO_SPACE");
  EXPECT_EQ(Session().append_text("a"), KVRT_INVALID);  // a NULL handle
  EXPECT_EQ(Model().info().status(), KVRT_INVALID);
  EXPECT_EQ(store.stat("nobody").status(), KVRT_NOT_FOUND);
  Session s = open();
  EXPECT_THROW((void)s.truncate(99).or_throw(), kvrt::Error);
}

TEST_F(Cpp, LogGoesToACallable) {
  struct Log {
    std::atomic<int> lines{0};
    void operator()(int32_t level, std::string_view text) noexcept { lines += level >= KVRT_LOG_ERROR && !text.empty(); }
  } log;
  auto o = kvrt::init<kvrt_runtime_options>();
  o.log_level = KVRT_LOG_DEBUG;
  kvrt::log_to(o, log);
  {
    Runtime loud = Runtime::open(o).or_throw();
    Model m = Model::open(loud, kModel).or_throw();
    Store st = Store::open(loud, dir.path + "/other").or_throw();
  }
  EXPECT_GT(log.lines.load(), 0);
  EXPECT_EQ(runtime.set_threads(1), KVRT_OK);
  EXPECT_EQ(runtime.info().or_throw().threads, 1u);
}

TEST_F(Cpp, TextGoesIntoSpansAndContainers) {
  std::vector<int32_t> ids;
  ASSERT_TRUE(model.tokenize("Hello there", KVRT_TEXT_BOS, ids).ok());
  ASSERT_GT(ids.size(), 1u);
  std::size_t needed = 0;
  int32_t few[1];
  EXPECT_EQ(model.tokenize("Hello there", KVRT_TEXT_BOS, few, needed), KVRT_TOO_SMALL);
  EXPECT_EQ(needed, ids.size());
  std::string text;
  ASSERT_TRUE(model.detokenize({ids.data() + 1, ids.size() - 1}, 0, text).ok());
  EXPECT_EQ(text, "Hello there");
  text = "a longer text than what comes, which must be cut";
  ASSERT_TRUE(model.detokenize({ids.data() + 1, 1}, 0, text).ok());
  EXPECT_LT(text.size(), 12u);
  auto o = kvrt::init<kvrt_template_options>();
  kvrt::assign(o.source, o.source_size, "{{ messages[0].content }}!");
  EXPECT_TRUE(Model().apply_template(R"([{"role": "user", "content": "Hi"}])", o, text).ok());  // without a model
  EXPECT_EQ(text, "Hi!");
}

TEST_F(Cpp, LoadingReportsAndStops) {
  std::vector<uint64_t> seen;
  auto model2 = Model::open(runtime, kModel, kvrt::init<kvrt_model_options>(), [&](const Event& e) { seen.push_back(e.done); });
  EXPECT_TRUE(model2.ok());
  EXPECT_TRUE(!seen.empty() && std::is_sorted(seen.begin(), seen.end()));
  auto stopped = Model::open(runtime, kModel, kvrt::init<kvrt_model_options>(), [](const Event&) { return Flow::stop; });
  EXPECT_EQ(stopped.status(), KVRT_CANCELLED);
  EXPECT_THROW((void)Model::open(runtime, kModel, kvrt::init<kvrt_model_options>(), [](const Event&) { throw std::runtime_error("mine"); }),
               std::runtime_error);
}

TEST_F(Cpp, GenerateStreamsTheSameAsEvents) {
  Session a = open();
  std::string streamed;
  std::vector<int32_t> sampled;
  auto o = greedy(12);
  o.top_logprobs = 3;
  o.emit_logits = 1;
  std::size_t rows = 0;
  const kvrt_report report = a.generate(o, [&](const Event& e) {
                                streamed += e.text_view();
                                if (e.type == KVRT_EVENT_LOGITS) rows += e.logits_span().size() == model.info()->vocab_size;
                                if (e.type != KVRT_EVENT_TOKEN) return;
                                sampled.push_back(e.token);
                                ASSERT_EQ(e.top_span().size(), 3u);
                                EXPECT_EQ(e.top_span()[0].token, e.token);
                                EXPECT_NEAR(e.top_span()[0].value, e.logprob, 1e-5);
                              }).or_throw();
  EXPECT_EQ(report.generated, 12u);
  EXPECT_EQ(rows, 12u);
  EXPECT_EQ(report.reason, uint32_t{KVRT_REASON_MAX_TOKENS});
  EXPECT_EQ(report.prompt_tokens, report.reused_memory + report.reused_disk + report.prefilled);

  Session b = open();
  ASSERT_TRUE(b.begin(greedy(12)).ok());
  EXPECT_EQ(b.next(0).or_throw().type, uint32_t{KVRT_EVENT_NONE});
  EXPECT_EQ(b.append({}), KVRT_BUSY);
  std::string text;
  uint32_t reason = 0;
  kvrt::Status end = KVRT_INTERNAL;
  for (const Event& e : b.events(end)) {
    text += e.text_view();
    if (e.type == KVRT_EVENT_DONE) reason = e.report->reason;
  }
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(reason, uint32_t{KVRT_REASON_MAX_TOKENS});
  EXPECT_EQ(text, streamed);
  EXPECT_EQ(tokens(b), tokens(a));
  int more = 0;
  for (const Event& e : b.events(end)) more += e.type == KVRT_EVENT_TOKEN;
  EXPECT_TRUE(end.ok() && more == 0);
  EXPECT_EQ(b.next().or_throw().type, uint32_t{KVRT_EVENT_IDLE});
}

TEST_F(Cpp, StopsByCallbackThrowAndThread) {
  Session s = open();
  int seen = 0;
  auto third = [&](const Event& e) { return e.type == KVRT_EVENT_TOKEN && ++seen == 3 ? Flow::stop : Flow::go_on; };
  const auto cancelled = s.generate(greedy(100), third);
  EXPECT_EQ(cancelled.status(), KVRT_CANCELLED);
  EXPECT_GE(cancelled->generated, 3u);
  EXPECT_EQ(seen, 3);
  EXPECT_THROW((void)s.generate(greedy(100),
                                [](const Event& e) {
                                  if (e.type == KVRT_EVENT_TOKEN) throw std::out_of_range("mine");
                                }),
               std::out_of_range);
  EXPECT_EQ(s.info().or_throw().state, uint32_t{KVRT_STATE_IDLE});
  seen = 0;
  EXPECT_EQ(s.generate(greedy(100),
                       [&](const Event& e) {
                         if (e.type != KVRT_EVENT_TOKEN || ++seen != 2) return;
                         EXPECT_EQ(s.truncate(1), KVRT_BUSY);
                         EXPECT_TRUE(s.cancel().ok());
                       })
                .status(),
            KVRT_CANCELLED);
  EXPECT_LE(seen, 4);

  std::atomic<bool> running{false};
  kvrt::Status status = KVRT_INTERNAL;
  std::thread thread([&] {
    status = s.generate(greedy(0), [&](const Event& e) {
                if (e.type == KVRT_EVENT_TOKEN) running = true;
              }).status();
  });
  while (!running) std::this_thread::yield();
  EXPECT_TRUE(s.cancel().ok());
  thread.join();
  EXPECT_TRUE(status == KVRT_CANCELLED || status.ok());  // OK: the context was full before
}

TEST_F(Cpp, ForkTruncateErase) {
  Session s = open();
  ASSERT_TRUE(s.generate(greedy(6)).ok());
  const std::vector<int32_t> before = tokens(s);
  Session fork = s.fork().or_throw();
  EXPECT_EQ(tokens(fork), before);
  EXPECT_STRNE(fork.info().or_throw().id, s.info().or_throw().id);
  ASSERT_TRUE(fork.truncate(4).ok());
  ASSERT_TRUE(fork.generate(greedy(6)).ok());
  EXPECT_EQ(tokens(fork), before);
  ASSERT_TRUE(fork.erase(1, 3).ok());
  std::vector<int32_t> cut = before;
  cut.erase(cut.begin() + 1, cut.begin() + 3);
  EXPECT_EQ(tokens(fork), cut);
  Session fresh = open(cut);  // the same tokens, never erased
  ASSERT_TRUE(fresh.generate(greedy(5)).ok() && fork.generate(greedy(5)).ok());
  EXPECT_EQ(tokens(fork), tokens(fresh));
  EXPECT_EQ(fork.erase(5, 500), KVRT_INVALID);
}

TEST_F(Cpp, SaveResumeAndTheStoresVerbs) {
  Session s = open(std::vector<int32_t>(70, 9));
  ASSERT_TRUE(s.generate(greedy(4)).ok());
  const kvrt_save_report saved = s.checkpoint("ann").or_throw();
  EXPECT_EQ(saved.tokens, 74u);
  EXPECT_GT(saved.chunks_written, 0u);
  EXPECT_EQ(open().checkpoint("ann").status(), KVRT_CONFLICT);
  ASSERT_TRUE(s.suspend("ann").ok());
  EXPECT_EQ(s.info().or_throw().state, uint32_t{KVRT_STATE_SUSPENDED});
  auto report = kvrt::init<kvrt_report>();
  Session back = Session::resume(model, store, "ann", kvrt::init<kvrt_session_options>(), &report, [](const Event&) {}).or_throw();
  EXPECT_EQ(tokens(back), tokens(s));
  EXPECT_GT(report.reused_memory + report.reused_disk, 0u);
  EXPECT_EQ(Session::resume(model, store, "bob").status(), KVRT_NOT_FOUND);

  ASSERT_TRUE(store.rename("ann", "bob").ok());
  EXPECT_EQ(store.stat("ann").status(), KVRT_NOT_FOUND);
  EXPECT_TRUE(store.pin("bob", 1).ok() && store.set_ttl("bob", 3600).ok());
  const kvrt_store_entry entry = store.stat("bob").or_throw();
  EXPECT_TRUE(entry.pinned == 1 && entry.expires_unix_ms != 0 && entry.tokens == 74);
  std::vector<std::string> names;
  auto note = [&](const Event& e) { names.push_back(e.entry->name); };
  EXPECT_TRUE(store.list({}, note).ok() && store.list("", note).ok() && store.list("other", note).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"bob", "bob"}));
  EXPECT_TRUE(store.verify().ok());
  EXPECT_TRUE(store.remove("bob").ok());
  EXPECT_EQ(store.remove("bob"), KVRT_NOT_FOUND);
  EXPECT_TRUE(store.gc().ok());
  EXPECT_EQ(store.info().or_throw().sessions, 0u);
}

TEST_F(Cpp, Messages) {
  Session s = open({});
  ASSERT_TRUE(s.append_message(R"({"role": "system", "content": "Be brief."})").ok());
  ASSERT_TRUE(s.append_message(R"({"role": "user", "content": "Hello"})").ok());
  ASSERT_TRUE(s.generate(greedy(5)).ok());
  ASSERT_EQ(s.info().or_throw().messages, 3u);
  std::string json, text;
  auto props = kvrt::init<kvrt_message_props>();
  ASSERT_TRUE(s.message(1, &props, json).ok());
  EXPECT_NE(json.find("Hello"), std::string::npos);
  ASSERT_TRUE(s.text(props.begin, props.end, 0, text).ok());
  EXPECT_NE(text.find("Hello"), std::string::npos);
  ASSERT_TRUE(s.message(2, &props, json).ok());
  EXPECT_TRUE(props.generated && !props.ended);  // five tokens at most cut it
  EXPECT_EQ(s.message(3, nullptr, json), KVRT_NOT_FOUND);
  const auto changed = s.set_messages(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Goodbye"}])").or_throw();
  EXPECT_GT(changed.rewritten, 0u);
  EXPECT_EQ(s.info().or_throw().messages, 2u);
  EXPECT_EQ(s.append_message("{").status(), KVRT_INVALID);
}

TEST_F(Cpp, PrefillGivesTheRows) {
  Session s = open();
  int rows = 0;
  const kvrt_report report = s.prefill(KVRT_LOGITS_ALL, [&](const Event& e) { rows += !e.logits_span().empty(); }).or_throw();
  EXPECT_TRUE(rows == 4 && report.reason == KVRT_REASON_PREFILLED);
}

// A sampler of the host that takes the best token gives the tokens of kvrt's own greedy one, in a callback and in a loop.
TEST_F(Cpp, HostSampler) {
  Session own = open(), called = open(), looped = open();
  ASSERT_TRUE(own.generate(greedy(8)).ok());
  auto o = greedy(8);
  o.sampler = KVRT_SAMPLER_HOST;
  auto best = [](const Event& e) {
    const auto row = e.logits_span();
    return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  };
  EXPECT_EQ(called.accept(1), KVRT_INVALID);
  EXPECT_TRUE(called
                  .generate(o,
                            [&](const Event& e) {
                              if (e.type == KVRT_EVENT_LOGITS) called.accept(best(e)).or_throw();
                            })
                  .ok());
  EXPECT_EQ(tokens(called), tokens(own));
  ASSERT_TRUE(looped.begin(o).ok());
  kvrt::Status end;
  for (const Event& e : looped.events(end)) {
    if (e.type == KVRT_EVENT_LOGITS) {
      EXPECT_EQ(looped.info()->awaits_accept, 1u);
      ASSERT_TRUE(looped.accept(best(e)).ok());
    }
  }
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(tokens(looped), tokens(own));
}

// A host with a loop of its own: step computes elsewhere, wake tells, next takes without computing.
TEST_F(Cpp, StepAndWake) {
  const int fd = eventfd(0, EFD_NONBLOCK);
  auto wake = [&]() noexcept {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
  };
  auto o = kvrt::init<kvrt_session_options>();
  kvrt::wake_with(o, wake);
  Session s = Session::open(model, o).or_throw();
  ASSERT_TRUE(s.append(std::vector<int32_t>{5, 6, 7, 8}).ok());
  ASSERT_TRUE(s.begin(greedy(100)).ok());
  std::atomic<bool> done{false};
  std::thread worker([&, copy = model] {  // it has nothing to do while 64 events are unread
    while (!done) {
      if (*copy.step(5) == 0) std::this_thread::yield();
    }
  });
  std::vector<int32_t> sampled;
  while (!done) {
    pollfd p{fd, POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 10000), 1) << "not woken";
    uint64_t count = 0;
    ASSERT_EQ(read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
    for (Event e = s.next(0).or_throw(); e.type != KVRT_EVENT_NONE && e.type != KVRT_EVENT_IDLE; e = s.next(0).or_throw()) {
      if (e.type == KVRT_EVENT_TOKEN) sampled.push_back(e.token);
      if (e.type == KVRT_EVENT_DONE) done = true;
    }
  }
  worker.join();
  EXPECT_EQ(sampled.size(), 100u);
  s.close();
  close(fd);
}

TEST_F(Cpp, PlanAndMetrics) {
  const kvrt_plan plan = runtime.plan(kModel).or_throw();
  const kvrt_model_props props = model.info().or_throw();
  EXPECT_TRUE(plan.weight_bytes == props.weight_bytes && plan.kv_bytes_per_token == props.kv_bytes_per_token);
  EXPECT_EQ(plan.fits, 1u);
  auto o = kvrt::init<kvrt_plan_options>();
  o.layers = 2, o.kv_heads = 3, o.head_dim = 8, o.session_tokens = 32;
  EXPECT_EQ(runtime.plan({}, o).or_throw().kv_bytes_per_token, 2u * 3 * 8 * 2 * 2);  // layers, heads, dims, K and V, two bytes each
  Session s = open();
  ASSERT_TRUE(s.generate(greedy(7)).ok());
  const kvrt_metrics m = model.metrics().or_throw();
  EXPECT_TRUE(m.sessions == 1 && m.generations == 1 && m.done_max_tokens == 1 && m.generated == 7 && m.prompt_tokens == 4);
  std::string text;
  ASSERT_TRUE(model.metrics_text("tiny", text).ok());
  EXPECT_NE(text.find("model=\"tiny\""), std::string::npos);
}

}  // namespace
