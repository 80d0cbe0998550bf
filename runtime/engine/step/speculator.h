// Speculator: proposes tokens for the next step of sessions that decode, and says how many of them the step is to check.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/session/engine_lock.h"
#include "runtime/engine/step/draft_costs.h"
#include "runtime/engine/step/generations.h"
#include "runtime/engine/step/queue.h"

namespace kvrt {

// Guarded by Engine's lock; the leader of a step uses it.
class Speculator {
 public:
  // step_ms_max: see Pace.
  Speculator(uint32_t context, uint32_t step_ms_max, Queue* queue, Generations* generations)
      : context_(context), step_ms_max_(step_ms_max), queue_(queue), generations_(generations) {}

  // Makes proposals for the sessions whose next row is their last token's. Gives the lock back meanwhile, if there is one. The step's leader
  // accepts one of up to patience_ns.
  void propose(EngineLock* lock, const Runtime& runtime, const LoadedModel& model, uint64_t patience_ns) KVRT_REQUIRES(lock->mu);

  // The tokens that are proposed to follow the session's last one.
  static std::span<const Speculation::Token> proposed(const Session& session);

  // One session's proposals in a step, of which it takes the first `take`.
  struct Offer {
    std::span<const Speculation::Token> tokens;
    uint32_t least = 0, take = 0;
  };
  // Chooses for a step of `rows` rows of sessions that decode the proposals by which it gives most tokens in its time; with a prompt's rows
  // only those that were asked for. At most `room` rows more.
  void choose(std::span<Offer> offers, uint32_t rows, uint32_t room, bool with_prompt) const;

  // A step took that long. `prompt`: it had rows of prompts, too.
  void measured(uint32_t rows, bool prompt, uint64_t work_ns);

 private:
  // A session for which tokens are proposed.
  struct Seat {
    Session* session;
    bool asked = false;   // its draft was
    uint64_t behind = 0;  // the draft, when it was
  };
  // Who decodes in the next step: with proposals, and others.
  struct Decoders {
    std::vector<Seat> seats;
    uint32_t others = 0;
  };
  // How long drafts may take, and what makes them end before.
  struct Limit {
    uint64_t ns = 0;
    std::function<bool()> enough;
  };
  Decoders decoders() const;
  uint64_t limit_ns(const Decoders& all, uint64_t patience_ns) const;
  void propose_known(std::span<const Seat> seats, const Tokenizer& tokenizer);
  bool ask_draft(Session* session, DraftCosts::Rows rows) const;
  double tokens_left(const Generation& generation) const;
  bool catches_up(Session* session, DraftCosts::Rows rows) const;
  void run_drafts(Decoders* all, const Limit& limit, const Runtime& runtime, const LoadedModel& target);
  void take_drafts(std::span<Seat> seats, const Tokenizer& tokenizer, double work_ns, uint64_t rows);

  const uint32_t context_, step_ms_max_;
  Queue* const queue_;
  Generations* const generations_;
  StepCosts costs_;
  static constexpr double kBelieved = 0.8;  // of the next one, before any came
  double draft_right_ = kBelieved;          // the share of drafted tokens that come, in all generations
  DraftCosts draft_costs_;
  double usual_tokens_ = 0;  // Generations', when propose began
};

}  // namespace kvrt
