#include "tests/sim/guess.h"

#include <limits>
#include <utility>

#include "tests/sim/oracle.h"

namespace kvrt::test {

class GuessModel::Guess final : public Draft {
 public:
  Guess(const GuessModel& model, uint64_t seed)
      : model_(model), random_(seed), sees_most_(random_.one_in(3) ? 1 + random_.below(100) : UINT64_MAX) {}

  uint64_t begins_at() const override { return begin_; }
  uint64_t behind(std::span<const int32_t> tokens) const override { return tokens.empty() ? 0 : seen_ % tokens.size(); }
  void begin_at(uint64_t position) override { begin_ = position; }
  uint64_t sees_most() const override { return sees_most_; }
  void next_generation() override { sees_most_ = random_.one_in(3) ? 1 + random_.below(100) : UINT64_MAX; }
  bool ask(const Ask& ask) override {
    proposed_.clear();
    seen_ = random_.below(300);
    const uint64_t kind = random_.below(16);
    if (kind < 1) return false;
    if (kind < 2) return true;
    propose(ask, kind);
    return true;
  }
  std::vector<Proposed> take() override { return std::exchange(proposed_, {}); }

 private:
  // Half of the times all tokens are right, else up to some place.
  void propose(const Ask& ask, uint64_t kind) {
    const uint32_t vocab = model_.tokenizer_.vocab_size();
    const uint64_t more = kind < 4 ? 1 + random_.below(40) : 0;  // than it was asked for
    const uint64_t wanted = kind < 6 ? random_.below(ask.least.size() + 1) : ask.least.size() + more;
    const uint64_t right = kind < 10 ? wanted : random_.below(wanted + 1);
    const bool no_token = random_.one_in(10);
    std::vector<int32_t> tokens = oracle_tokens(ask.tokens, model_.windows_, vocab, *ask.sampling, right);
    while (tokens.size() < wanted) tokens.push_back(static_cast<int32_t>(random_.below(vocab)));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int32_t none[] = {-1, static_cast<int32_t>(vocab), std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()};
      const float chances[] = {1, 0.9f, 0.5f, 0};
      const int32_t token = no_token && i >= wanted / 2 ? none[random_.below(4)] : tokens[i];
      proposed_.push_back({token, chances[random_.below(4)], static_cast<uint8_t>(random_.below(Chances::kRanks))});
    }
  }

  const GuessModel& model_;
  Random random_;
  uint64_t sees_most_;
  uint64_t begin_ = 0, seen_ = 0;
  std::vector<Proposed> proposed_;
};

std::unique_ptr<Draft> GuessModel::open(const std::string&, bool) {
  const uint64_t seed = ++seed_;
  return seed % 16 == 0 ? nullptr : std::make_unique<Guess>(*this, seed);
}

uint64_t GuessModel::run(std::span<Draft* const> drafts, uint64_t, const std::function<bool()>& enough) {
  if (during) during();
  if (enough()) return 0;
  env_->advance(50'000 * drafts.size());
  return 20 * drafts.size();
}

}  // namespace kvrt::test
