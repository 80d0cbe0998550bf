#include "runtime/text/reply/reply_parser.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/text/reply/calls.h"
#include "runtime/text/reply/family.h"
#include "runtime/text/reply/machine.h"
#include "runtime/text/reply/tools.h"

namespace kvrt {

using reply::CallSyntax;
using reply::is_space;
using reply::PatternReader;
using reply::PayloadScan;

namespace {

// The arguments, which follow a Harmony header that names a recipient.
constexpr CallSyntax kHarmonyCall = {ReplyFormat::kHarmony, "", {"%s"}, {}};

bool calls_have_mark(ReplyFormat format) {
  return std::ranges::any_of(reply::families(), [&](const reply::Family& family) {
    const std::string_view first = family.written.begin.empty() ? family.written.call : family.written.begin;
    return family.format == format && !first.starts_with('{');
  });
}

}  // namespace

ReplyParser::Impl::Impl(ReplyStyle style) : style_(std::make_shared<const ReplyStyle>(std::move(style))) {
  if (!style_->reasoning_begin.empty()) markers_.push_back({style_->reasoning_begin, Role::kReasoningBegin});
  if (!style_->reasoning_end.empty()) markers_.push_back({style_->reasoning_end, Role::kReasoningEnd});
  for (const CallSyntax& syntax : reply::syntaxes()) {
    if (syntax.format != style_->format) continue;
    if (syntax.flags & CallSyntax::kPrompted) prompted_ = syntax.begin;
    const bool frame = syntax.flags & CallSyntax::kFrame;
    if (!frame && !style_->calls) continue;
    if (syntax.flags & CallSyntax::kUnmarked && (!style_->unmarked || style_->tools == nullptr)) continue;
    if (syntax.begin.empty() && !(style_->bound && calls_have_mark(style_->format))) bare_ = &syntax;
    if (!syntax.begin.empty()) markers_.push_back({syntax.begin, frame ? Role::kFrame : Role::kCallBegin, &syntax});
    for (std::string_view end : syntax.ends)
      if (!end.empty()) markers_.push_back({end, Role::kCallEnd, &syntax});
  }
  if (style_->format == ReplyFormat::kHarmony) {
    for (std::string_view marker : reply::kHarmonyMarkers) markers_.push_back({marker, Role::kHarmony});
    markers_.push_back({reply::kHarmonyMessage, Role::kHarmonyMessage});
  }
  for (const Marker& marker : markers_) begins_marker_[static_cast<uint8_t>(marker.text[0])] = true;
  start();
}

void ReplyParser::Impl::start() {
  bool reasoning = style_->begin == AnswerPlace::kReasoning && !style_->reasoning_end.empty();
  mode_ = style_->format == ReplyFormat::kHarmony ? Mode::kHeader : reasoning ? Mode::kReasoning : Mode::kContent;
  trim_ = mode_ == Mode::kReasoning;
  last_ = Mode::kCall;
  blank_ = reasoning_blank_ = true;
  more_ = bare_;
  ended_ = nullptr;
  marked_ = hidden_ = false;
  given_ = 0;
  header_.clear();
  hold_tail(prompted_, true);
}

void ReplyParser::Impl::push(std::string_view text, bool control_token, std::vector<ReplyPart>* out) {
  out_ = out;
  out_begin_ = out->size();
  if (control_token) return control(text);
  for (char c : text) byte(c);
}

void ReplyParser::Impl::finish(std::vector<ReplyPart>* out) {
  out_ = out;
  out_begin_ = out->size();
  settle(true);
  while (mode_ == Mode::kCall || mode_ == Mode::kHeader) {
    give_up();
    settle(true);  // what was no call may end with what was no marker
  }
  put_space();
  start();
}

void ReplyParser::Impl::go_on() {
  std::vector<ReplyPart> parts;
  Impl(*this).finish(&parts);
  for (const ReplyPart& part : parts) given_ += part.text.size();
}

AnswerPlace ReplyParser::Impl::place() const {
  const Mode mode = mode_ == Mode::kCall ? before_ : mode_;
  const bool bare = mode_ == Mode::kContent && blank_ && bare_ != nullptr && more_ == bare_;  // a call without its mark may still begin
  if (bare) return AnswerPlace::kBegin;
  return mode == Mode::kReasoning ? AnswerPlace::kReasoning : mode == Mode::kHeader ? AnswerPlace::kBegin : AnswerPlace::kContent;
}

bool ReplyParser::Impl::reasons() const { return place() == AnswerPlace::kReasoning && (mode_ != Mode::kCall || naming_); }

// A byte that belongs to no marker.
void ReplyParser::Impl::plain(char c) {
  if (mode_ == Mode::kHeader) return header_byte(c);
  if (mode_ == Mode::kContent && more_ != nullptr) {
    if (PayloadScan::begins(*more_, false, c)) {
      begin_call(*more_, "", "");
      return call_byte(c);
    }
    if (!blank_ && (c == ';' || c == ',')) {  // between calls
      trim_ = false;
      return hold({&c, 1});
    }
  }
  put(c);
}

void ReplyParser::Impl::put(char c) {
  if (is_space(c) && !markers_.empty()) {
    if (trim_ && space_.empty()) return;
    return hold({&c, 1});
  }
  put_space();
  emit({&c, 1});
}

void ReplyParser::Impl::hold(std::string_view text) {
  space_.append(text);
  if (space_.size() >= kReplyCallBytesMax) put_space();
}

void ReplyParser::Impl::put_space() {
  emit(space_);
  drop_space();
}

void ReplyParser::Impl::drop_space() {
  space_.clear();
  announced_ = 0;
}

// Markers that announced a call, where none came: within reasoning they are mentioned alone.
void ReplyParser::Impl::put_announced() { emit(std::string_view(space_).substr(0, announced_)); }

void ReplyParser::Impl::emit(std::string_view text) {
  if (text.empty()) return;
  const bool reasoning = mode_ == Mode::kReasoning, breaks = trim_ && last_ == mode_ && given_ == 0;
  if (trim_ && last_ == mode_ && given_ > 0) --given_;  // the line break came before, too
  const size_t given = std::min(given_, text.size());
  given_ -= given;
  text.remove_prefix(given);
  if (!text.empty()) {
    auto kind = reasoning ? ReplyPart::Kind::kReasoning : ReplyPart::Kind::kContent;
    if (out_->size() == out_begin_ || out_->back().kind != kind) out_->push_back({kind, {}});
    if (breaks) out_->back().text.push_back('\n');
    out_->back().text.append(text);
  }
  trim_ = false;
  last_ = mode_;
  if (reasoning) {
    reasoning_blank_ = false;
  } else {
    blank_ = false;
    more_ = ended_ = nullptr;
  }
}

void ReplyParser::Impl::begin_call(const CallSyntax& syntax, std::string shown, std::string name) {
  before_ = mode_ == Mode::kReasoning ? Mode::kReasoning : Mode::kContent;
  mode_ = Mode::kCall;
  syntax_ = &syntax;
  shown_ = std::move(shown);
  head_reader_.reset(syntax.heads);
  head_ = PatternReader();
  head_.name = std::move(name);
  in_payload_ = false;
  payload_.clear();
  in_bare_head_ = style_->tools != nullptr && (syntax.begin.empty() || syntax.flags & CallSyntax::kFence) && head_.name.empty();
  if (in_bare_head_) bare_head_.reset(syntax, *style_->tools);
  mark_bytes_ = shown_.size();
  naming_ = before_ == Mode::kReasoning && style_->tools != nullptr;
  if (naming_) places_ = reply::call_begin(syntax).begin(style_->tools->names());
}

// Within open reasoning a call has the name of a tool. False: it is only mentioned.
bool ReplyParser::Impl::name_byte(char c) {
  bool named = false;
  places_ = reply::call_begin(*syntax_).step(places_, style_->tools->names(), c, &named);
  naming_ = !named;
  return named || !places_.empty();
}

// True where the payload begins with `c`, after a whole head.
bool ReplyParser::Impl::begin_payload(char c) {
  const PatternReader* head = head_reader_.complete();
  if (head == nullptr) return false;
  const bool named = !head->name.empty() || !head_.name.empty();
  if (!PayloadScan::begins(*syntax_, named, c)) return false;
  if (head_.name.empty()) head_ = *head;
  scan_.reset(*syntax_, named);
  return true;
}

void ReplyParser::Impl::call_byte(char c) {
  bool ok = shown_.size() < kReplyCallBytesMax && (!naming_ || name_byte(c)), done = false;
  if (ok && !in_payload_) {
    in_payload_ = begin_payload(c);
    ok = in_payload_ || head_reader_.feed(c);
  }
  if (ok && in_payload_ && in_bare_head_) {
    ok = bare_head_.feed(c);
    in_bare_head_ = !bare_head_.whole();
  }
  if (ok && in_payload_) {
    PayloadScan::State state = scan_.feed(c);
    ok = state != PayloadScan::State::kRefused;
    done = state == PayloadScan::State::kDone;
    payload_.push_back(c);
  }
  if (!ok) {
    give_up();
    return byte(c);
  }
  shown_.push_back(c);
  if (done) end_call();
}

// True where the call goes on with a control token: one of its head, or a tag.
bool ReplyParser::Impl::call_control(std::string_view spelling) {
  if (in_bare_head_) return false;
  for (char c : spelling)
    if (naming_ && !name_byte(c)) return false;
  if (!in_payload_ && syntax_->tags != nullptr && !spelling.empty()) in_payload_ = begin_payload(spelling[0]);
  if (!in_payload_) return std::all_of(spelling.begin(), spelling.end(), [this](char c) { return head_reader_.feed(c); });
  PayloadScan::State state = scan_.feed_control(spelling);
  payload_.append(spelling);
  if (state == PayloadScan::State::kDone) end_call();
  return state != PayloadScan::State::kRefused;
}

void ReplyParser::Impl::end_call() {
  if (!reply::append_calls(payload_, head_, *syntax_, style_->tools.get(), out_)) return give_up();
  mode_ = Mode::kContent;
  shown_.clear();
  drop_space();
  given_ = 0;
  trim_ = true;
  last_ = Mode::kCall;
  blank_ = false;
  ended_ = syntax_;
  more_ = (syntax_->flags & CallSyntax::kRepeats) ? syntax_ : bare_after(*syntax_);
}

// What may follow a call, and its end marker, without a marker.
const CallSyntax* ReplyParser::Impl::bare_after(const CallSyntax& syntax) const {
  const bool mixes =
      bare_ != nullptr && bare_->flags & CallSyntax::kUnmarked && !(syntax.flags & (CallSyntax::kUnmarked | CallSyntax::kFence));
  return mixes ? nullptr : bare_;
}

// It is no call, or no header: the bytes held back are content. Behind a marker that is only mentioned they may have another one: few do, so
// that none is looked at more than a few times.
void ReplyParser::Impl::give_up() {
  const bool mentioned = mode_ == Mode::kCall && naming_;
  mode_ = mode_ == Mode::kCall ? before_ : Mode::kContent;
  naming_ = false;
  std::string shown;
  shown.swap(shown_);
  const size_t whole = mentioned ? mark_bytes_ : shown.size();
  for (size_t i = 0; i < whole; ++i) put(shown[i]);
  for (size_t i = whole; i < shown.size(); ++i) byte(shown[i]);
}

void ReplyParser::Impl::begin_header(std::string_view marker, std::string_view shown) {
  const bool ends = marker == "<|end|>" || marker == "<|call|>" || marker == "<|return|>";
  if (mode_ == Mode::kHeader && (ends || header_.size() >= kReplyHeaderBytesMax)) give_up();
  if (mode_ != Mode::kHeader) {
    mode_ = Mode::kHeader;
    header_.clear();
    shown_.clear();
    hidden_ = false;
  }
  if (ends) {
    drop_space();
    trim_ = true;
  }
  marked_ = !ends;
  hidden_ |= !ends && shown.empty();
  if (hidden_) shown_.clear();
  if (!ends && !hidden_) shown_.append(shown);
  header_.append(marker == "<|channel|>" ? reply::kHarmonyChannel : " ");
}

void ReplyParser::Impl::header_byte(char c) {
  constexpr std::string_view kRecipient = "to=";
  std::string_view words = header_;
  bool ok = header_.size() < kReplyHeaderBytesMax && (hidden_ || reply::is_name(c) || c == '=' || is_space(c));
  if (!marked_ && ok) {  // the prompt or the message before has the <|start|>: only a recipient may come without a marker
    words.remove_prefix(std::min(words.find_first_not_of(" \t\r\n"), words.size()));
    ok = words.size() >= kRecipient.size() || (words.empty() && is_space(c)) || kRecipient[words.size()] == c;
  }
  if (!ok) {
    give_up();
    return byte(c);
  }
  header_.push_back(c);
  if (!hidden_) shown_.push_back(c);
}

// A whole header is never shown, also where no call follows it.
void ReplyParser::Impl::end_header() {
  auto [recipient, function, reasoning] = reply::read_harmony_header(header_);
  shown_.clear();
  const bool other = !function && style_->tools != nullptr && !style_->tools->has(recipient);  // python, browser.open: not of this session
  if (!recipient.empty() && !other) return begin_call(kHarmonyCall, "", std::move(recipient));
  mode_ = reasoning ? Mode::kReasoning : Mode::kContent;
  reasoning_blank_ = true;
  drop_space();
  given_ = 0;
  trim_ = true;
}

ReplyParser::ReplyParser(ReplyStyle style) : impl_(std::make_unique<Impl>(std::move(style))) {}
ReplyParser::ReplyParser(const ReplyParser& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

void ReplyParser::push(std::string_view text, bool control, std::vector<ReplyPart>* out) { impl_->push(text, control, out); }
void ReplyParser::finish(std::vector<ReplyPart>* out) { impl_->finish(out); }
void ReplyParser::go_on() { impl_->go_on(); }
AnswerPlace ReplyParser::place() const { return impl_->place(); }
bool ReplyParser::reasons() const { return impl_->reasons(); }

}  // namespace kvrt
