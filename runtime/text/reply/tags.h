// Arguments of a call in tags of their own, as a TagForm says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/pattern.h"

namespace kvrt::reply {

// <parameter=key>value</parameter> .. </function>: patterns of the marks. White space between tags belongs to no value.
struct TagForm {
  std::string_view open;          // before a value; %k: its key, %t: its type
  std::string_view close;         // after it; with %k a value may be tags in turn, and those of a list are <item>
  std::string_view end;           // after the last tag
  std::string_view pad;           // a line break on either side of a value, which is not of it
  std::string_view quote = {};    // before a value that may hold marks,
  std::string_view unquote = {};  // and after it
  bool entities = false;          // keys have &amp; and &quot;
  bool python = false;            // arrays and objects may be Python's

  bool nests() const { return close.find("%k") != std::string_view::npos; }
  bool typed() const { return open.find("%t") != std::string_view::npos; }
  std::string_view begin() const { return open.substr(0, open.find('%')); }  // of every tag
};

struct Argument {
  std::string key, type;  // the type: as the model tells it, or ""
  std::string value;      // as it stands, without what belongs to the form
};

class TagScan {
 public:
  enum class State : uint8_t { kMore, kDone, kRefused };
  void reset(const TagForm& form);
  State feed(char c);
  // Whether the bytes fed last, which spell `mark`, are of a mark: not of a value.
  bool is_mark(std::string_view mark) const;
  const std::vector<Argument>& arguments() const { return arguments_; }

 private:
  State between(char c);
  State value(char c);
  State nested(char c);
  State end_value(size_t bytes);

  const TagForm* form_ = nullptr;
  bool in_value_ = false;
  PatternReader open_, end_;  // of the mark under way, between values
  size_t mark_bytes_ = 0;
  std::string close_;   // of the value under way
  size_t name_at_ = 0;  // of a nested tag in the value under way; 0: in none
  std::vector<std::string> nested_;
  std::vector<Argument> arguments_;
};

}  // namespace kvrt::reply
