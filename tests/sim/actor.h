// Actor: one session and the oracle's word on what it must hold. Every call on it is checked; a difference throws Failure.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/oracle.h"
#include "tests/sim/toy.h"

namespace kvrt::test {

struct Failure {
  std::string what;
};
[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);
#define SIM_CHECK(cond, ...) ((cond) ? (void)0 : ::kvrt::test::fail(__VA_ARGS__))

using Counts = std::map<std::string, uint64_t>;  // events by name, and how often each happened

struct SimGrammar {
  std::string source;
  std::shared_ptr<GrammarMasks> masks;
};
std::vector<SimGrammar> sim_grammars(const Tokenizer& tokenizer);

// The setting that the actors of one thread share.
struct Setting {
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  uint64_t room = 0;              // tokens that a session can have
  std::vector<uint32_t> windows;  // by group of layers
  Random* random = nullptr;
  Counts* counts = nullptr;
  bool trace = false;
  bool alone = true;   // no other thread is in the host
  bool quota = false;  // the store has one
  std::vector<std::shared_ptr<DraftModel>> drafts{};
  std::vector<SimGrammar> grammars{};
  void note(const std::string& what, uint64_t n = 1) {
    (*counts)[what] += n;
    if (trace && n) std::printf("  %s\n", what.c_str());
  }
};

class Bell final : public Wake {
 public:
  void ring() override { ++rung; }
  std::atomic<uint64_t> rung{0};
};

struct Saved {
  std::vector<int32_t> tokens;
  std::vector<Said> said;
  SessionId id;
  uint64_t revision = 0, newest = 0;  // newest: the last revision that the name ever had
  bool exists = false;
};

class Actor {
 public:
  Actor(Setting* setting, SessionOptions options, std::shared_ptr<Bell> bell);                    // opens
  Actor(Setting* setting, SessionOptions options, std::shared_ptr<Bell> bell, Session* resumed);  // takes over
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  void close();

  bool generating() const { return running_.has_value(); }
  bool usable() const { return !running_ && !failed_; }
  Session* session() const { return session_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  uint64_t rows = 0;         // that ran for this revision; the world counts them
  uint64_t passed_over = 0;  // steps that it could have been in
  uint64_t lazy_until = 0;   // step until which nobody reads it

  void append();
  void append_text();
  void append_message();
  void set_messages();
  void truncate();
  void erase();
  void prefill();
  void begin();
  void cancel();
  void cancel_in_step();
  void refused();  // calls that do not fit the state
  // Takes one event: false when there was none.
  bool read(int32_t timeout_ms);
  std::unique_ptr<Actor> fork(std::shared_ptr<Bell> bell);
  void save(const std::string& name, bool suspend, Saved* saved);
  void resumed(const std::string& name, const Saved& saved, const Report& report);
  void check();  // the whole state, between calls

  SessionOptions options;

 private:
  struct Running {
    GenerateOptions options;
    std::unique_ptr<GrammarMatcher> matcher;  // null: any token may come
    std::vector<int32_t> before;              // begin
    std::vector<Said> said_before;
    size_t prompt = 0;
    uint64_t kv_tokens = 0, given_up = 0;  // when it began: tokens with KV; blocks and sessions that had to make room in the pool so far
    std::string text;
    Reason end = Reason::kNone;  // the last token ended it
    uint32_t stop_tokens = 0;
    uint64_t next_logits = 0, logits_seen = 0;
    bool logits_taken = false;  // of the token to come
    int32_t accepted = -1;
    bool cancelled = false;
    uint64_t left_after_cancel = 0;
  };

  std::vector<int32_t> some_tokens(uint64_t count);
  std::string some_text(uint64_t max);
  GenerateOptions some_options();
  void speculate(GenerateOptions* o);
  std::span<const uint64_t> mask() const { return running_->matcher ? running_->matcher->mask() : std::span<const uint64_t>(); }
  void start(GenerateOptions o);
  void accept();
  void on_logits(const Event& event);
  void on_token(const Event& event);
  void on_done(const Event& event);
  void on_failure(const Status& status);
  void check_report(const Report& report);
  void leave(Reason reason);
  bool add_said(std::span<const int32_t> tokens, const Running& running, std::vector<Said>* said) const;
  std::vector<int32_t> saved_tokens() const;
  std::vector<Said> saved_said(const std::vector<int32_t>& tokens) const;
  bool undone_by_cancel() const;
  void drop_messages();
  void adopt_messages();
  void check_messages() const;
  void check_rewrite(const std::vector<int32_t>& old, bool revision_prompt, bool whole);
  void check_appended(const std::vector<int32_t>& old, const AppendInfo& info);
  uint64_t generated_end() const;  // tokens up to the end of the last generated message
  std::vector<int32_t> rendered(const std::vector<int32_t>& old, bool revision_prompt) const;

  Setting* w_;
  Session* session_ = nullptr;
  std::shared_ptr<Bell> bell_;
  uint64_t heard_ = 0;  // rings when the mailbox was last empty
  std::vector<int32_t> tokens_;
  std::vector<Said> said_;
  std::optional<Running> running_;
  bool suspended_ = false, failed_ = false;
  uint64_t from_disk_ = 0;  // at most so many tokens were loaded since the last report
  std::string name_;
  uint64_t revision_ = 0;
  SessionId id_;
};

}  // namespace kvrt::test
