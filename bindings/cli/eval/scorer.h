// Scorer: how likely a model finds given tokens.
#pragma once

#include "bindings/cli/eval/data.h"
#include "bindings/cli/eval/record.h"
#include "bindings/cli/eval/windows.h"

namespace cli::eval {

// The tokens of an item.
struct ItemTokens {
  std::vector<int32_t> prompt;
  std::vector<std::vector<int32_t>> choices;  // each follows the prompt
  uint64_t rows() const;                      // the prompt once, and the choices
};

// CANCELLED: Ctrl-C came. Scores are logs of probabilities, in nats.
class Scorer {
 public:
  // Windows have `tokens_max` tokens at most, and so have a prompt and a choice together. `place`: what is scored, and where it failed.
  Scorer(const Model& model, uint32_t tokens_max, Place* place);

  kvrt_status tokens_of(const DataFile& file, const Item& item, ItemTokens* out) const;
  std::vector<Window> windows_of(const std::vector<int32_t>& text) const { return eval::windows_of(text, prefix_, tokens_max_); }
  kvrt_status tokens_of(const std::string& text, std::vector<int32_t>* out) const;
  // So many of the items, from the first on, fit into memory side by side; at least 1.
  size_t fit(std::span<const ItemTokens> items) const;
  // Of each item the sum of each choice. The choices of all items are computed side by side, and share the KV of their prompt.
  kvrt_status score(std::span<const ItemTokens> items, std::vector<Answers>* out);
  // Of each token after the context.
  kvrt_status score(const Window& window, Answers* out);
  uint64_t rows() const { return rows_; }
  void go_to(const std::string& axis, uint32_t index) { *place_ = {axis, index, 0}; }

 private:
  const Model& model_;
  Place* const place_;
  uint32_t tokens_max_, flags_ = KVRT_TEXT_SPECIAL;
  int32_t prefix_ = 0;  // stands before what has nothing before it
  uint64_t room_ = 0;   // tokens of items side by side
  uint32_t block_ = 0;  // tokens
  uint64_t rows_ = 0;   // that were computed so far
};

}  // namespace cli::eval
