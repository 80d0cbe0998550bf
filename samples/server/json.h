// JSON, as much as a server of text needs: a reader whose values know their place in the text, so that schemas and tools go on as they came,
// and a writer.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// A value. It refers to the text that it was read from, which must stay.
struct Json {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = kNull;
  bool truth = false;
  double number = 0;
  std::string text;                // of a string, UTF-8
  std::string_view raw;            // the value as it stands in the text
  std::vector<Json> items;         // of an array or an object
  std::vector<std::string> names;  // of an object's items

  bool is(Kind k) const { return kind == k; }
  // The member; null: there is none, or it is null. Of two with one name the last one counts.
  const Json* find(std::string_view name) const;
};

struct JsonError : std::runtime_error {
  using runtime_error::runtime_error;
};

// Arrays and objects within one another.
constexpr int kRequestDepthMax = 60;    // of what a client sends
constexpr int kArgumentsDepthMax = 59;  // of a call's arguments: kvrt takes 64, and a list of messages has them within five
constexpr int kKvrtDepthMax = 80;       // of what kvrt writes: a call may have 64, and a session has it within six

// Reads one value of the whole text. Throws JsonError, which says where.
Json read_json(std::string_view text, int depth_max = kRequestDepthMax);

// True where the two say the same: numbers by value, members in any order.
bool same(const Json& a, const Json& b);

// The first bytes of `text` that are no UTF-8; npos: all are.
size_t find_bad_utf8(std::string_view text);
// With U+FFFD in place of each of these.
std::string valid_utf8(std::string_view bytes);
// The number of bytes at the end of `text` that begin a character and do not end it.
size_t half_character(std::string_view text);

// Writes values one after another; it sets the commas.
class JsonWriter {
 public:
  JsonWriter& begin(char bracket);  // '{' or '['
  JsonWriter& end(char bracket);    // '}' or ']'
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& number(uint64_t value);
  JsonWriter& number(double value);
  JsonWriter& raw(std::string_view json);  // a value that is JSON
  JsonWriter& null() { return raw("null"); }
  // A member with a text.
  JsonWriter& pair(std::string_view name, std::string_view text) { return key(name).string(text); }
  JsonWriter& pair(std::string_view name, uint64_t value) { return key(name).number(value); }
  std::string take() { return std::move(out_); }
  const std::string& str() const { return out_; }

 private:
  void comma();
  std::string out_;
};
