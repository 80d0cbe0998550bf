// ReplyParser: splits a model's streamed answer into content, reasoning and tool calls, as the model's family writes them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/text/reply/reply_style.h"

namespace kvrt {

// Takes increments of a streamed answer and gives parts. Adjacent parts of one kind make one text, which does not depend on the split.
// * Bytes are held back as long as they may still become a marker or a call, and not longer.
// * A call that is malformed, unfinished at the end, or longer than kReplyCallBytesMax is content, verbatim. The JSON must be strict
//   (RFC 8259, kJsonDepthMax); Python calls take literals as keyword arguments, nothing positional.
//   A call is given out once its payload is whole; its end marker may be missing. A control token within a payload ends it unfinished.
// * An argument in tags has the type that the tool's schema gives, else the one that the model gives. If neither does, an argument that reads
//   as JSON other than a string is that, and any other is text. A value that is not of its type is text.
// * In the formats whose calls are JSON objects, {"name": "f", "arguments": without a marker begins a call of the tool f (BareHead): at the
//   beginning of an answer and after such a call, also within ``` or ```json. Any other text is content.
// * White space next to a marker belongs to the marker. Other white space is content.
// * Two texts of one kind with nothing but markers between them have a newline between them.
// * An end of reasoning that never began is dropped if only white space came before it, and is content otherwise.
// * Markers within reasoning are reasoning, with two exceptions: those that end it (CallSyntax::kInReasoning), and a call's if the name of a tool
//   follows as CallBegin says: that is a call, and ends reasoning. Without a list of tools only kInReasoning's markers begin a call, of any name.
// * In gpt-oss's answers a message to a function, or to one of the tools, is a call; if the tools are known, a message to anybody else is text.
// * Of two markers with the same beginning the longer one counts. One may be of several tokens, some of them control tokens.
// Linear in the text. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyStyle style);
  ~ReplyParser();
  ReplyParser(const ReplyParser& other);  // goes on from the state of `other`
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  // Appends to `out`. With `control` the bytes spell one control token, which is a marker of the style or is dropped, and never shown. Otherwise
  // they are any bytes; if each push is of whole code points, so is each part.
  void push(std::string_view text, bool control, std::vector<ReplyPart>* out);
  // Ends the answer: the bytes that were held back come out. The parser is then as new.
  void finish(std::vector<ReplyPart>* out);
  // Takes the place of finish() for an answer that was cut here and goes on. What finish() gave before does not come again; if it was the
  // beginning of a marker or of a call, the marker or call counts.
  void go_on();
  AnswerPlace place() const;
  bool reasons() const;  // it is within reasoning, and not in a call that began there

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrt
