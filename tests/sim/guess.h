// Guess: a draft of the tests' own. It computes what the toy says next, and proposes that, or something else, or what no draft should.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/speculation/draft.h"
#include "tests/sim/toy.h"

namespace kvrt::test {

// Thread-safe; a draft belongs to one thread at a time. windows: by group of the target's layers.
class GuessModel final : public DraftModel {
 public:
  GuessModel(ToyEnv* env, std::vector<uint32_t> windows, const Tokenizer* tokenizer, uint64_t seed)
      : env_(env), windows_(std::move(windows)), tokenizer_(*tokenizer), seed_(seed) {}
  std::unique_ptr<Draft> open(const std::string& domain, bool share) override;
  uint64_t run(std::span<Draft* const> drafts, uint64_t deadline_ns, const std::function<bool()>& enough) override;
  uint64_t weight_bytes() const override { return 1; }

  std::function<void()> during;  // called while tokens are proposed

 private:
  class Guess;
  ToyEnv* const env_;
  const std::vector<uint32_t> windows_;
  const Tokenizer& tokenizer_;
  std::atomic<uint64_t> seed_;
};

}  // namespace kvrt::test
