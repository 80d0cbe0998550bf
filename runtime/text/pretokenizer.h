// Pretokenizer: cuts text into the pieces inside which byte-level BPE merges. Named by tokenizer.ggml.pre.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

// Immutable after create: any thread.
class Pretokenizer {
 public:
  // Unknown names are UNSUPPORTED.
  static Result<std::unique_ptr<Pretokenizer>> create(std::string_view name);
  virtual ~Pretokenizer() = default;
  // Appends the pieces of `text` (valid UTF-8) in order; together they are the text.
  virtual Status split(std::string_view text, std::vector<std::string_view>* pieces) const = 0;
};

}  // namespace kvrt
