// The state of a ReplyParser. It reads byte by byte, so that the split of an answer cannot matter, and it never goes back: bytes that turn out
// not to be a call are given out as content and not read again, except the byte that showed it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/bare.h"
#include "runtime/text/reply/call_begin.h"
#include "runtime/text/reply/payload.h"
#include "runtime/text/reply/reply_parser.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

// One machine for all formats: its many fields are the state between two bytes of an answer.
class ReplyParser::Impl {
 public:
  explicit Impl(ReplyStyle style);
  void push(std::string_view text, bool control, std::vector<ReplyPart>* out);
  void finish(std::vector<ReplyPart>* out);
  void go_on();
  AnswerPlace place() const;
  bool reasons() const;

 private:
  enum class Mode : uint8_t { kContent, kReasoning, kCall, kHeader };
  enum class Role : uint8_t { kReasoningBegin, kReasoningEnd, kCallBegin, kCallEnd, kFrame, kHarmony, kHarmonyMessage };
  struct Marker {
    std::string_view text;
    Role role;
    const reply::CallSyntax* syntax = nullptr;
  };

  void start();
  bool is_active(const Marker& marker) const;
  bool in_bound_text() const;
  bool call_may_begin(const reply::CallSyntax& syntax) const;
  bool begins_active(std::string_view text) const;  // of a marker that may stand here
  bool begins_longer(std::string_view text) const;  // that and more
  void act(const Marker& marker, std::string shown);

  void begun();
  void byte(char c);
  void control(std::string_view spelling);
  void hold_tail(std::string_view bytes, bool control);
  std::string take_tail(size_t bytes);
  void settle(bool ended);
  void feed_again(std::string_view bytes, std::string_view kinds);
  void plain(char c);
  void put(char c);
  void hold(std::string_view text);
  void put_space();
  void drop_space();
  void put_announced();
  void emit(std::string_view text);

  void begin_call(const reply::CallSyntax& syntax, std::string shown, std::string name);
  bool name_byte(char c);
  bool begin_payload(char c);
  void call_byte(char c);
  bool call_control(std::string_view spelling);
  void end_call();
  const reply::CallSyntax* bare_after(const reply::CallSyntax& syntax) const;
  void give_up();

  void begin_header(std::string_view marker, std::string_view shown);
  void header_byte(char c);
  void end_header();

  std::shared_ptr<const ReplyStyle> style_;  // of all copies: markers_ has views of it
  std::vector<Marker> markers_;
  bool begins_marker_[256] = {};
  const reply::CallSyntax* bare_ = nullptr;  // of a call without a mark
  std::string_view prompted_;                // a marker at the prompt's end

  std::vector<ReplyPart>* out_ = nullptr;
  size_t out_begin_ = 0;  // parts from before this push
  size_t given_ = 0;      // bytes of those held back that were given out before, where the answer was cut

  Mode mode_ = Mode::kContent;
  std::string space_;                         // white space held back: dropped if a marker follows
  size_t announced_ = 0;                      // bytes of it to the end of the last marker in it
  std::string tail_;                          // after it: bytes that may become a marker
  std::string tail_kinds_;                    // of each of them: kPlain, or of a control token its first or another byte
  bool trim_ = false;                         // white space is dropped: a marker came before
  Mode last_ = Mode::kCall;                   // the mode of the last text or call given out
  bool blank_ = true;                         // neither content nor call so far
  bool reasoning_blank_ = true;               // no reasoning since its begin
  const reply::CallSyntax* more_ = nullptr;   // a payload of this syntax may begin here, without a marker
  const reply::CallSyntax* ended_ = nullptr;  // the syntax of the call right before: its end markers may follow

  // A call; shown_ and header_ serve a Harmony header too.
  const reply::CallSyntax* syntax_ = nullptr;
  Mode before_ = Mode::kContent;  // it goes on if it is no call
  std::string shown_;             // the content if it is no call: all but control tokens
  reply::HeadReader head_reader_;
  reply::BareHead bare_head_;
  bool in_bare_head_ = false;
  reply::PatternReader head_;
  reply::PayloadScan scan_;
  bool in_payload_ = false;
  size_t mark_bytes_ = 0;            // of shown_: the call's marker
  bool naming_ = false;              // within open reasoning, and no tool's name has come yet
  reply::CallBegin::Places places_;  // then: what may come
  std::string payload_;
  std::string header_;   // for read_harmony_header()
  bool marked_ = false;  // the header began with a marker,
  bool hidden_ = false;  // a control token: it is never shown
};

}  // namespace kvrt
