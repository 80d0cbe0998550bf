// ReplyParser: splits a model's streamed answer into content, reasoning and tool calls, as the model's family writes them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/text/reply/reply_style.h"

namespace kvrt {

// Increments of a streamed answer in, parts out; adjacent increments of one kind are one text, the same however the answer was split.
// * Bytes are held back as long as they may still become a marker or a call, and not longer.
// * A call that is malformed, unfinished at the end, or longer than kReplyCallBytesMax is content, verbatim. The JSON must be strict
//   (RFC 8259, kJsonDepthMax); Python calls take literals as keyword arguments, nothing positional.
//   A call is given out once its payload is whole; its end marker may be missing. A control token within a payload ends it unfinished.
// * An argument in tags has the type that the tool's schema says, else the model; where neither does, one that reads as JSON but no string
//   is that, and any other is text. A value that is not of its type is text.
// * Where an answer begins, and after such a call, {"name": "f", "arguments": without a marker is the begin of a call of the tool f (BareHead),
//   also within ``` or ```json: in the formats whose calls are such objects. Any other text is content.
// * White space next to a marker belongs to the marker. Where no marker is, it is content.
// * Two texts of one kind with nothing but markers between them have a newline between them.
// * A reasoning end without its begin is dropped when nothing but white space came before it, and is content else.
// * Markers within reasoning are reasoning, but for those that end it (CallSyntax::kInReasoning), and for a call's where the name of a tool
//   comes as CallBegin says: that is a call, and ends reasoning. Without a list of tools only kInReasoning's markers begin one, of any name.
// * In gpt-oss's answers a recipient is called that is a function, or one of the tools; where these are known, text to another is text.
// * Of two markers with the same beginning the longer one counts. One may be of several tokens, some of them control tokens.
// Linear in the text. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyStyle style);
  ~ReplyParser();
  ReplyParser(const ReplyParser& other);  // goes on from the state of `other`
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  // Appends to `out`. `control`: the bytes are the spelling of one control token; it is a marker of the style or dropped, never shown.
  // Otherwise any bytes; where pushes are whole code points, so are parts.
  void push(std::string_view text, bool control, std::vector<ReplyPart>* out);
  // The end of the answer: the bytes held back come out. The parser is then as new.
  void finish(std::vector<ReplyPart>* out);
  // In place of finish(), for an answer that was cut here and goes on: what finish() gave of it before does not come again, but where it
  // was the begin of a marker or of a call, that is one.
  void go_on();
  AnswerPlace place() const;
  bool reasons() const;  // within reasoning, and in no call that began there

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrt
