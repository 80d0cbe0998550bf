// str(), repr() and json.dumps() of Python, over template values.
#pragma once

#include <string_view>

#include "runtime/text/template/value.h"

namespace kvrt::jinja {

// A text that grows at the end of the arena; past the arena's limit it stays short, and full() says so.
class TextBuilder {
 public:
  explicit TextBuilder(Arena* arena) : arena_(arena) {}
  void append(std::string_view s) { text_ = arena_->concat(text_, s); }
  void append(char c) { append(std::string_view(&c, 1)); }
  void append(char32_t c);
  void repeat(std::string_view s, uint64_t times);
  bool full() const { return arena_->full(); }
  std::string_view view() const { return text_; }
  Value value() const { return Value::of(text_.data() == nullptr ? std::string_view("") : text_); }

 private:
  Arena* arena_;
  std::string_view text_;
};

// False: there is something in the value that is not printed (a namespace, a generator, a function). A dict that is `spelled` is JSON as a text,
// as tojson writes it.
bool append_str(Value value, TextBuilder* out);
bool append_repr(Value value, TextBuilder* out);
void append_number(Value value, TextBuilder* out);

// json.dumps. False: a value that JSON does not have, or keys that cannot be sorted.
struct JsonFormat {
  std::string_view item = ", ", key = ": ", indent;
  bool lines = false, ascii = false, sorted = false;
};
bool append_json(Value value, const JsonFormat& format, TextBuilder* out);

}  // namespace kvrt::jinja
