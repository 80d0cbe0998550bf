// The markers of an answer: bytes and control tokens are held back while they may become one.
#include <algorithm>

#include "runtime/text/reply/machine.h"

namespace kvrt {

using reply::CallSyntax;

namespace {

// The kinds of bytes in the tail.
constexpr char kPlain = 'p', kControl = 'c', kControlMore = '+';

}  // namespace

// What a schema binds is no mark, but for a control token.
bool ReplyParser::Impl::in_bound_text() const {
  return style_->bound && mode_ == Mode::kContent && !blank_ && last_ != Mode::kCall && tail_kinds_[0] == kPlain;
}

bool ReplyParser::Impl::call_may_begin(const CallSyntax& syntax) const {
  const bool content = mode_ == Mode::kContent, reasoning = mode_ == Mode::kReasoning;
  if (syntax.flags & CallSyntax::kFence) return content && more_ != nullptr && more_ == bare_ && (ended_ == nullptr || ended_ == bare_);
  return content || (reasoning && (style_->tools != nullptr || syntax.flags & CallSyntax::kInReasoning));
}

bool ReplyParser::Impl::is_active(const Marker& marker) const {
  const bool content = mode_ == Mode::kContent, reasoning = mode_ == Mode::kReasoning;
  if (in_bound_text()) return false;
  switch (marker.role) {
    case Role::kReasoningBegin:
      return content || (reasoning && reasoning_blank_);
    case Role::kReasoningEnd:
      return reasoning || (content && blank_);
    case Role::kCallBegin:
      return call_may_begin(*marker.syntax);
    case Role::kFrame:
      return content || (reasoning && marker.syntax->flags & CallSyntax::kInReasoning);
    case Role::kCallEnd:
      return content && ended_ == marker.syntax;
    case Role::kHarmony:
      return true;
    case Role::kHarmonyMessage:
      return mode_ == Mode::kHeader;
  }
  return false;
}

bool ReplyParser::Impl::begins_longer(std::string_view text) const {
  return std::any_of(markers_.begin(), markers_.end(), [&](const Marker& marker) {
    return marker.text.size() > text.size() && marker.text.starts_with(text) && is_active(marker);
  });
}

bool ReplyParser::Impl::begins_active(std::string_view text) const {
  return std::any_of(markers_.begin(), markers_.end(),
                     [&](const Marker& marker) { return marker.text.starts_with(text) && is_active(marker); });
}

// `shown`: the bytes of it that are no control tokens.
void ReplyParser::Impl::act(const Marker& marker, std::string shown) {
  if (mode_ == Mode::kReasoning && marker.role != Role::kCallBegin) put_announced();
  switch (marker.role) {
    case Role::kReasoningBegin:
      mode_ = Mode::kReasoning;
      reasoning_blank_ = true;
      break;
    case Role::kReasoningEnd:
      if (mode_ == Mode::kContent) begun();  // none was open
      mode_ = Mode::kContent;
      break;
    case Role::kCallBegin:
      if (!marker.syntax->heads[0].empty()) return begin_call(*marker.syntax, std::move(shown), "");
      hold(shown);  // it announces a call, and goes where white space before one goes
      if (!shown.empty()) announced_ = space_.size();
      return;
    case Role::kCallEnd:
      more_ = bare_after(*marker.syntax);
      if (bare_ != nullptr && marker.text == reply::kFenceMark) ended_ = nullptr;  // the same mark begins another
      break;
    case Role::kFrame:
      begun();
      mode_ = Mode::kContent;
      break;
    case Role::kHarmony:
      return begin_header(marker.text, shown);
    case Role::kHarmonyMessage:
      return end_header();
  }
  drop_space();
  given_ = 0;
  trim_ = true;
}

// Something that is not shown, behind which the grammar of answers has free text: a call needs its mark.
void ReplyParser::Impl::begun() {
  if (style_->tools != nullptr && mode_ == Mode::kContent && more_ == bare_) more_ = nullptr;
}

void ReplyParser::Impl::byte(char c) {
  if (mode_ == Mode::kCall) return call_byte(c);
  if (tail_.empty() && !begins_marker_[static_cast<uint8_t>(c)]) return plain(c);
  hold_tail({&c, 1}, false);
  settle(false);
}

// A control token is a part of a marker, or none: then bytes before it that might have become a marker are none.
void ReplyParser::Impl::control(std::string_view spelling) {
  if (spelling.empty() || !begins_active(tail_ + std::string(spelling))) settle(true);
  while (mode_ == Mode::kCall) {
    if (call_control(spelling)) return;
    give_up();
    settle(true);
  }
  if (spelling.empty() || !begins_active(tail_ + std::string(spelling))) return begun();
  hold_tail(spelling, true);
  settle(false);
}

void ReplyParser::Impl::hold_tail(std::string_view bytes, bool control_token) {
  for (size_t i = 0; i < bytes.size(); ++i) tail_kinds_.push_back(!control_token ? kPlain : i == 0 ? kControl : kControlMore);
  tail_.append(bytes);
}

// The first bytes of the tail, without control tokens.
std::string ReplyParser::Impl::take_tail(size_t bytes) {
  std::string shown;
  for (size_t i = 0; i < bytes; ++i)
    if (tail_kinds_[i] == kPlain) shown.push_back(tail_[i]);
  tail_.erase(0, bytes);
  tail_kinds_.erase(0, bytes);
  return shown;
}

// Looks what the tail is, as far as that is known; `ended`: no byte of it comes any more.
void ReplyParser::Impl::settle(bool ended) {
  while (!tail_.empty() && (ended || !begins_longer(tail_))) {
    const Marker* longest = nullptr;
    for (const Marker& marker : markers_) {
      const bool whole =
          tail_.starts_with(marker.text) && (tail_.size() == marker.text.size() || tail_kinds_[marker.text.size()] != kControlMore);
      if (whole && is_active(marker) && (longest == nullptr || marker.text.size() > longest->text.size())) longest = &marker;
    }
    size_t unit = 1;
    while (unit < tail_.size() && tail_kinds_[unit] == kControlMore) ++unit;
    const size_t bytes = longest != nullptr ? longest->text.size() : unit;
    std::string rest = tail_.substr(bytes), kinds = tail_kinds_.substr(bytes);
    const std::string shown = take_tail(bytes);
    tail_.clear();
    tail_kinds_.clear();
    if (longest != nullptr) {
      act(*longest, shown);
    } else if (!shown.empty()) {
      plain(shown[0]);
    } else {
      begun();
    }
    feed_again(rest, kinds);
  }
}

void ReplyParser::Impl::feed_again(std::string_view bytes, std::string_view kinds) {
  for (size_t at = 0, end; at < bytes.size(); at = end) {
    end = std::min(kinds.find_first_not_of(kControlMore, at + 1), bytes.size());
    if (kinds[at] == kPlain) {
      byte(bytes[at]);
    } else {
      control(bytes.substr(at, end - at));
    }
  }
}

}  // namespace kvrt
