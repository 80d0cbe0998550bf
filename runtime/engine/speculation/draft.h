// Draft: what another model thinks comes next in a session. DraftModel: that model. Their implementation is an engine's (Drafting), or a test's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/sampling/sampler.h"
#include "runtime/engine/speculation/chances.h"

namespace kvrt {

// A token that may come next, with the chance that it does if those before it came. rank: of Chances.
struct Proposed {
  int32_t token = 0;
  float chance = 0;
  uint8_t rank = 0;
};

// Of one session. One thread at a time: the leader of the session's step, which holds no lock. A failure costs the proposals alone.
class Draft {
 public:
  virtual ~Draft() = default;

  // Of `tokens`: the position from which on it sees them, and how many it would have to compute before it can propose, because they are new to
  // it, or because its model needed their KV's memory for others.
  virtual uint64_t begins_at() const = 0;
  virtual uint64_t behind(std::span<const int32_t> tokens) const = 0;
  virtual void begin_at(uint64_t position) = 0;
  virtual uint64_t sees_most() const = 0;  // tokens: more are too many for its context, or were for its pool in this generation
  virtual void next_generation() = 0;      // of the session begins: the pool may have more room than it had

  struct Ask {
    std::span<const int32_t> tokens;
    std::span<const float> least;     // for each token to propose: the chance that all up to it come, below which it is the last
    const SamplingOptions* sampling;  // a token is drawn as the session draws its own
    const Chances* chances;           // by rank_of
  };
  // Asks for what may follow the tokens; DraftModel::run computes it. False: it cannot now.
  virtual bool ask(const Ask& ask) = 0;
  // What was computed since; empty while there is nothing. More than was asked for, and what is no token of the session's model, is left out.
  virtual std::vector<Proposed> take() = 0;

  // The rank of a token to which the draft itself gives this probability.
  static uint8_t rank_of(float probability);
};

class DraftModel {
 public:
  virtual ~DraftModel() = default;
  // `share`: its KV may be that of other sessions of this domain, and theirs its own. Null: it cannot draft.
  virtual std::unique_ptr<Draft> open(const std::string& domain, bool share) = 0;
  // Computes what these drafts were asked for, until the deadline, or until `enough` after a step. What is not computed then is given up; the
  // KV that was computed stays. Waits for nobody: it ends where another thread has this model's steps. Returns the count of rows that ran.
  virtual uint64_t run(std::span<Draft* const> drafts, uint64_t deadline_ns, const std::function<bool()>& enough) = 0;
  virtual uint64_t weight_bytes() const = 0;  // read for a token
};

}  // namespace kvrt
