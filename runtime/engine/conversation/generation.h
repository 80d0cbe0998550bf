// Generation: a prefill or an answer from begin to DONE: its options, its progress, and the events for its host. Values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/engine/conversation/answer_guide.h"
#include "runtime/engine/conversation/conversation.h"
#include "runtime/engine/sampling/output_text.h"
#include "runtime/engine/sampling/sampler.h"
#include "runtime/engine/speculation/speculation.h"
#include "runtime/kv/kv_sequence.h"
#include "runtime/text/reply/reply_parser.h"

namespace kvrt {

class Cancel;

// The numbers of kvrt.h's enums (asserted in api/generate.cc).
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
enum class ReuseStop : uint32_t { kAll, kNewTokens, kDifferentToken, kNotStored, kEvicted, kDamaged, kOtherNumerics, kWindow };
enum class WantLogits : uint32_t { kNone, kLast, kAll };

struct Report {
  Reason reason = Reason::kNone;
  uint64_t prompt_tokens = 0, reused_memory = 0, reused_disk = 0, prefilled = 0, generated = 0;
  ReuseStop reuse_stopped = ReuseStop::kAll;
  uint64_t reuse_stopped_at = 0;
  uint32_t stop_string_tokens = 0;
  uint64_t seed = 0;
  double queue_ms = 0, ttft_ms = 0, prefill_ms = 0, decode_ms = 0;
  uint64_t kv_units = 0, kv_bytes = 0;
  struct {
    uint64_t begin = 0, prefilled = 0, end = 0;
  } pool_bytes;
  uint64_t recomputed = 0;
  uint64_t drafted = 0, accepted = 0;
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

// What proposes tokens, and how many: see kvrt_generate_options.
struct SpeculationOptions {
  bool lookup = false;
  std::string prediction;               // text
  std::shared_ptr<DraftModel> draft{};  // null: none
  uint32_t most = kDraftTokensDefault, least = 0;
  bool on() const { return lookup || draft; }
};

struct GenerateOptions {
  bool prefill_only = false;
  WantLogits logits = WantLogits::kNone;  // for a prefill
  uint32_t max_tokens = 0;                // 0: no limit but the context
  SamplingOptions sampling;
  bool ignore_eos = false;
  std::vector<int32_t> stop_tokens;
  std::vector<std::string> stop_strings;
  bool emit_logits = false;
  bool generation_prompt = true;
  bool host_samples = false;    // accept() gives the tokens
  bool all_or_nothing = false;  // a generation that is cancelled or fails leaves no trace
  AnswerAsk ask;
  ReplyKind reply = ReplyKind::kNone;
  std::shared_ptr<Cancel> cancel{};  // null: none
  SpeculationOptions speculation{};
  uint32_t vocab_wanted = 0;  // the leading tokens that are enough to draw from, 0: all; a draft's
  uint64_t draw_offset = 0;  // added to a token's position for its draw: a draft's tokens begin later than those of its session

  bool wants_logits() const { return !prefill_only || logits != WantLogits::kNone; }  // of the last token
};

// Its Session owns it. Guarded by Engine's lock, but for what StepRunner uses. It has all fields that live from begin to DONE, and no other.
struct Generation {
  explicit Generation(GenerateOptions o) : options(std::move(o)), text(options.stop_strings) {}

  struct Progress {
    bool recompute_all = false;   // prefill with all logits
    uint64_t next_logits = 0;     // of it: the first position still to run
    std::vector<bool> accounted;  // prompt positions that the report counts as reused or computed; empty: not counted yet
    uint64_t computed = 0;        // prompt positions that ran, each once
    uint64_t decoded_end = 0;     // positions after the prompt whose rows ran once
  };
  struct Times {
    uint64_t begin_ns = 0, first_step_ns = 0, first_token_ns = 0, last_token_ns = 0;  // 0: not yet
  };

  GenerateOptions options;
  OutputText text;
  struct {
    ReplyStyle style{};
    uint64_t begin = 0;  // its first token: before prompt_end where it goes on with one
  } answer;
  std::unique_ptr<AnswerGuide> guide;          // null: any token may come
  std::unique_ptr<Speculation> speculation{};  // null: nothing is proposed
  std::optional<ReplyParser> parser;           // splits the answer into parts; none: they are not wanted
  Report report;
  std::optional<Conversation> before;  // all_or_nothing: the conversation to go back to
  ChainKeys ahead;                     // of the prompt's blocks that were not in the chain when it began
  uint64_t order = 0;                  // the count of begins: when blocks run short, the first to begin keeps its own
  uint64_t prompt_end = 0;             // tokens when it began
  bool warmed = false;                 // the prefix look-up was done
  bool admitted = false;               // it may take blocks
  Progress progress;
  std::vector<float> awaited;  // the row of logits that accept() answers; empty: none
  bool finished = false;       // DONE is in the mailbox, or the session's failure or no_memory is set
  bool no_memory = false;      // it ended for want of memory, and there was none even for DONE or a failure
  bool cancel = false;         // a cancel came while a step runs
  bool abandoned = false;      // it is over, and nobody takes its DONE: the session's next call settles it
  Times times;
};

}  // namespace kvrt
