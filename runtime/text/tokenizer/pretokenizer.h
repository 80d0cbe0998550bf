// Pretokenizer: cuts text into the pieces inside which byte-level BPE merges. Named by tokenizer.ggml.pre.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

using Pieces = std::vector<std::string_view>;

// Immutable after create: any thread.
class Pretokenizer {
 public:
  // Unknown names are UNSUPPORTED. "": "default".
  static Result<std::unique_ptr<Pretokenizer>> create(std::string_view name);
  virtual ~Pretokenizer() = default;
  // Appends the pieces of `text` (valid UTF-8) in order; together they are the text. `scratch` is working memory, reused.
  virtual Status split(std::string_view text, Pieces* scratch, Pieces* pieces) const = 0;

  // Rules that the name implies for the rest of the tokenizer.
  bool ignores_merges() const { return ignores_merges_; }  // a piece that is a token is that token, whatever its merges
  bool adds_bos() const { return adds_bos_; }              // where the file does not say
  bool composes() const { return composes_; }              // the model's own tokenizer first makes NFC of a text

 protected:
  bool ignores_merges_ = false, adds_bos_ = false, composes_ = false;
};

}  // namespace kvrt
