// Session: one conversation's tokens, block table, messages, generation and mailbox. Plain state; the scheduler and the engine act on it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/engine/cancel.h"
#include "runtime/engine/sampling/output_text.h"
#include "runtime/engine/sampling/sampler.h"
#include "runtime/engine/snapshot/autosave.h"
#include "runtime/kv/kv_cache.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/parser.h"
#include "runtime/text/template/chat_template.h"
#include "storage/store/store.h"

namespace kvrt {

// The numbers of kvrt.h's enums (asserted in api/session.cc).
enum class SessionState : uint32_t { kIdle = 1, kGenerating = 2, kSuspended = 3, kFailed = 4 };
enum class EventType : uint32_t {
  kNone = 0,
  kToken = 1,
  kProgress = 2,
  kLogits = 3,
  kDone = 4,
  kIdle = 7,
  kContent = 8,
  kReasoning = 9,
  kToolCall = 10
};
enum class Reason : uint32_t { kNone, kEos, kStop, kMaxTokens, kContextFull, kCancelled, kPrefilled, kFailed };
enum class ReuseStop : uint32_t { kAll, kNewTokens, kDifferentToken, kNotStored, kEvicted, kDamaged, kOtherNumerics };
enum class WantLogits : uint32_t { kNone, kLast, kAll };

struct Report {
  Reason reason = Reason::kNone;
  uint64_t prompt_tokens = 0, reused_memory = 0, reused_disk = 0, prefilled = 0, generated = 0;
  ReuseStop reuse_stopped = ReuseStop::kAll;
  uint64_t reuse_stopped_at = 0;
  uint32_t stop_tokens = 0;
  uint64_t seed = 0;
  double queue_ms = 0, ttft_ms = 0, prefill_ms = 0, decode_ms = 0;
  uint64_t kv_blocks = 0, kv_bytes = 0;
  uint64_t pool_bytes_begin = 0, pool_bytes_prefilled = 0, pool_bytes_end = 0;
  uint64_t recomputed = 0;
};

struct Event {
  EventType type = EventType::kNone;
  int32_t token = 0;
  uint64_t position = 0;
  std::string text;
  float logprob = 0;
  std::vector<TokenValue> top;
  uint64_t done = 0, total = 0;
  std::vector<float> logits;
  Report report;
};

enum class GrammarKind : uint32_t { kNone, kGbnf, kJsonSchema, kContinue };
enum class ReplyKind : uint32_t { kNone, kAuto, kPlain, kHermes, kLlama3, kMistral, kGemma, kDeepSeek };

// What an answer has to be. Its place among the tokens is all that a matcher needs besides: it takes them again.
struct AnswerGrammar {
  GrammarKind kind = GrammarKind::kNone;
  std::string source;
  uint64_t begin = 0;  // the answer's first token
};

struct GenerateOptions {
  bool prefill_only = false;
  WantLogits logits = WantLogits::kNone;  // of a prefill
  uint32_t max_tokens = 0;                // 0: no limit but the context
  SamplingOptions sampling;
  bool ignore_eos = false;
  std::vector<int32_t> stop_tokens;
  std::vector<std::string> stop_strings;
  bool emit_logits = false;
  bool generation_prompt = true;
  bool host_samples = false;    // accept() gives the tokens
  bool all_or_nothing = false;  // a generation that does not come to its end leaves no trace
  GrammarKind grammar_kind = GrammarKind::kNone;
  std::string grammar;
  ReplyKind reply = ReplyKind::kNone;
  std::shared_ptr<Cancel> cancel{};  // null: none
};

// A message and the tokens [begin, end) that it became. A generated one keeps its sampled tokens.
struct Message {
  std::string json;
  uint64_t begin = 0, end = 0;
  bool generated = false;
};

// What a session says: all that a call may have to put back.
struct Conversation {
  std::vector<int32_t> tokens;
  std::vector<Message> messages;
  AnswerGrammar grammar;
};

// A prefill or generation from begin to DONE.
struct Generation {
  explicit Generation(GenerateOptions o) : options(std::move(o)), text(options.stop_strings) {}
  GenerateOptions options;
  OutputText text;
  std::unique_ptr<GrammarMatcher> matcher;  // null: any token will do
  std::optional<ReplyParser> parser;        // of the answer's parts, where they are wanted
  std::vector<ReplyPart> parts;             // so far
  Report report;
  std::optional<Conversation> before;  // all_or_nothing: to go back to
  uint64_t order = 0;                  // who began first keeps its blocks when they run short
  uint64_t prompt_end = 0;             // tokens when it began
  bool warmed = false;                 // the prefix look-up was done
  bool admitted = false;               // it may take blocks
  bool recompute_all = false;          // prefill with all logits
  uint64_t next_logits = 0;            // recompute_all: first position still to run
  std::vector<bool> accounted;         // prompt positions that the report has as reused or computed; empty: not counted yet
  uint64_t computed = 0;               // prompt positions that ran, each once
  uint64_t decoded_end = 0;            // positions after the prompt whose rows ran once
  std::vector<float> awaited;          // the row that accept() answers; empty: none is due
  bool finished = false;               // DONE is in the mailbox, or the session's failure is set
  bool no_memory = false;              // finished, and the failure is that there was no memory: not even to say so
  uint64_t begin_ns = 0, first_step_ns = 0, first_token_ns = 0, last_token_ns = 0;
};

void add_part(std::vector<ReplyPart>* parts, ReplyPart part);  // adjacent increments of a kind become one

// Tells a host's loop that there is an event to take. ring() with no lock held.
class Wake {
 public:
  virtual ~Wake() = default;
  virtual void ring() = 0;
};

// What a session is, whoever holds it: a fork copies it whole. What belongs to one handle (its name in the store, what it generates, who is
// told) is Session's.
struct SessionValue : Conversation {
  std::string domain;
  std::shared_ptr<Store> store;  // fixed for life
  TemplateArguments arguments;   // now: when it was opened, so that a date in its prompt stays
  SessionState state = SessionState::kIdle;

  uint64_t disk_tokens = 0;     // loaded from the store since the last report
  bool was_evicted = false;     // the pool took blocks of this session
  bool damaged = false;         // a chunk of it was damaged or missing at the last warm
  bool suspect = false;         // its chunks made logits that are not finite: the store is to be told
  bool not_stored = false;      // resumed, and the store has no chunk for a block of it
  bool other_numerics = false;  // resumed, but its KV is of another root or block size
  uint64_t resumed_tokens = 0;  // leading tokens that came from a snapshot
  uint64_t own_tokens = 0;      // leading tokens whose chunks are its own: its last save or resume named them
  bool inexact = false;         // some of its KV may be of another arithmetic: its root is its own kind's
  // Of the snapshot whose KV it takes as it is, though another arithmetic made it: chunks of so many leading tokens lie under that root.
  BlockKey foreign_root;
  uint64_t foreign_tokens = 0;
  // The tail node in the store: tokens [begin, end) after the full blocks; valid while the session keeps those tokens.
  uint64_t saved_tail_begin = 0, saved_tail_end = 0;
};

// Guarded by Engine's lock, but for what is marked. A session belongs to one handle; calls on it do not overlap.
struct Session : SessionValue {
  explicit Session(uint32_t block_tokens) : kv(block_tokens) {}

  SessionId id;
  std::string name;  // of the last save or resume
  uint64_t gen = 0;
  std::shared_ptr<Wake> wake;  // null: nobody to tell
  bool woken = false;          // it is to be told
  Session* next_woken = nullptr;
  KvSequence kv;  // of `tokens`
  // What its last save or resume holds: an autosave that would say the same is none.
  struct Mark {
    BlockKey head;  // of the chain of all tokens
    uint64_t tokens = 0, messages = 0;
    bool operator==(const Mark&) const = default;
  } saved;
  uint64_t saved_blocks = 0;           // full ones whose KV that save had
  std::unique_ptr<Autosave> autosave;  // null: none
  uint32_t pins = 0;                   // a save reads its blocks, or a resume fills them: not to be evicted

  std::unique_ptr<Generation> generation;
  bool cancel = false;  // asked for while a step runs
  bool in_step = false;
  bool held = false;          // to be in no step: a save looks at it
  bool editing = false;       // a call changes its conversation, and lets the lock go between
  bool saving = false;        // one at a time
  uint32_t saves_wanted = 0;  // that wait for their turn
  bool closing = false;
  bool settle = false;  // its generation is over and nobody takes the DONE: the next call does what that would have done
  std::deque<Event> mailbox;
  Status failure;  // what ended the generation; given by next, then kept in last_error
  Status last_error;
  uint64_t last_used = 0;  // of the scheduler's clock: who is evicted first
  std::condition_variable changed;
};

}  // namespace kvrt
