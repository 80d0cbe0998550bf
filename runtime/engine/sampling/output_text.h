// OutputText: the text of one generation as it grows: whole code points, stop strings found, partial matches held back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

// Not thread-safe: guarded by its owner's lock.
class OutputText {
 public:
  explicit OutputText(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {}

  // Adds one token's bytes; returns the text that can be shown now. After a stop string matched, the text before it.
  std::string push(std::string_view piece);
  std::string flush();   // the text held back for a stop string, at a point that none may cross
  std::string finish();  // all text held back, at the end of a generation
  bool stopped() const { return stopped_; }
  size_t bytes_cut() const { return bytes_cut_; }  // from the matched stop string on, of the text that came
  // The count of tokens at the end that have bytes of the matched stop string.
  uint32_t stop_tokens() const { return stop_tokens_; }

 private:
  std::string release(size_t end);

  std::vector<std::string> stops_;
  Utf8Stream utf8_;
  std::string held_;                // decoded, not yet returned; starts at byte released_ of the text
  std::vector<size_t> token_ends_;  // bytes of text after each token
  size_t released_ = 0;
  bool stopped_ = false;
  size_t bytes_cut_ = 0;
  uint32_t stop_tokens_ = 0;
};

}  // namespace kvrt
