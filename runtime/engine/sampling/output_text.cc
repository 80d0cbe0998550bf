#include "runtime/engine/sampling/output_text.h"

#include <algorithm>

namespace kvrt {

namespace {
// The count of bytes at the end of `text` that a stop string could begin with.
size_t partial_match(std::string_view text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const auto& stop : stops) {
    for (size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.substr(text.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
    }
  }
  return longest;
}
}  // namespace

std::string OutputText::release(size_t end) {
  std::string text = held_.substr(0, end);
  held_.erase(0, end);
  released_ += text.size();
  return text;
}

std::string OutputText::push(std::string_view piece) {
  held_ += utf8_.push(piece);
  token_ends_.push_back(released_ + held_.size());
  size_t found = std::string::npos;
  for (const auto& stop : stops_) found = std::min(found, held_.find(stop));
  if (found == std::string::npos) return release(held_.size() - partial_match(held_, stops_));
  stopped_ = true;
  size_t match_begin = released_ + found;
  for (size_t i = token_ends_.size(); i-- > 0 && token_ends_[i] > match_begin;) ++stop_tokens_;
  std::string text = release(found);
  bytes_cut_ = held_.size();
  held_.clear();
  return text;
}

std::string OutputText::flush() { return stopped_ ? std::string() : release(held_.size()); }

std::string OutputText::finish() {
  if (stopped_) return {};
  held_ += utf8_.finish();
  return release(held_.size());
}

}  // namespace kvrt
