// JSON, RFC 8259: a reader that gives one part of a text after another, and writers of strings and numbers. Neither is recursive, nor bound
// to the host's locale, and neither keeps anything that would need memory to be freed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace kvrt {

class JsonReader {
 public:
  enum class Part : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kKey, kArray, kArrayEnd, kObject, kObjectEnd, kEnd, kWrong };

  explicit JsonReader(std::string_view text);  // the text must outlive the reader

  // The next part; kEnd when the text was one value and nothing more, kWrong where it stops being JSON: from then on always that.
  Part next();
  // The text of a kString or a kKey, valid UTF-8; the spelling of a kNumber. Valid until the next call of next.
  std::string_view text() const { return text_; }
  size_t depth() const { return open_.size(); }  // arrays and objects that are open
  size_t at() const { return at_; }              // bytes read; at kWrong: up to and with the wrong one

 private:
  enum class Want : uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kCommaOrEnd, kNothing };

  Part wrong(size_t at);
  Part ended(Part part);
  Part value();
  Part word(std::string_view word, Part part);
  Part number();
  Part string(Part part);
  bool escape();
  bool code_unit(uint32_t* out);
  Part open(Part part, char bracket, Want want);
  Part close(char bracket);
  char peek() const { return at_ < source_.size() ? source_[at_] : '\0'; }

  std::string_view source_, text_;
  size_t at_ = 0;
  std::string open_;     // the brackets
  std::string decoded_;  // the text of a string with escapes
  Want want_ = Want::kValue;
  bool wrong_ = false;
};

// Each adds to *out.
void append_json_string(std::string_view text, std::string* out);      // in quotes; bytes that are no UTF-8 become U+FFFD
void append_json_number(std::string_view spelling, std::string* out);  // of a kNumber: an integer as it is, else a double
void append_json_real(double number, std::string* out);                // the shortest digits; null where JSON has no such number
void append_json_value(JsonReader* reader, JsonReader::Part first, std::string* out);  // to its end or a kWrong, without white space

}  // namespace kvrt
