// SpmNormalizer: SentencePiece's changes to a text before it looks for pieces. Immutable after create: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer/special_tokens.h"

namespace kvrt {

class SpmNormalizer {
 public:
  // `charsmap`: tokenizer.ggml.precompiled_charsmap, "" for none; CORRUPT when it breaks its own format, LIMIT where it has long texts.
  // `keeps_bytes`: bytes that are no valid UTF-8 stay as they are, else each is U+FFFD.
  Status init(std::string charsmap, bool remove_extra_whitespaces, bool keeps_bytes);
  // The text as pieces spell it, U+2581 as a space (`kept`: user-defined tokens, which stay as they are). A view of `text` or of `scratch`.
  // LIMIT: the charsmap makes it many times as long.
  Result<std::string_view> apply(std::string_view text, bool space_prefix, const SpecialTokens& kept, std::string* scratch) const;

 private:
  struct Prefix {
    std::string_view normalized;
    size_t size;  // bytes of the text that it stands for
  };
  uint32_t unit(size_t at) const;
  Prefix next(std::string_view text, const SpecialTokens& kept) const;

  std::string charsmap_;
  size_t units_ = 0;  // the trie's units, 4 bytes each, that follow the first 4 bytes
  bool remove_extra_whitespaces_ = false, keeps_bytes_ = true;
};

// Replaces each U+2581 by a space.
void unescape_spaces(std::string_view text, std::string* out);

}  // namespace kvrt
