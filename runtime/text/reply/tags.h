// TagScan reads the arguments of a call that each stand in a tag, as a TagForm says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/pattern.h"

namespace kvrt::reply {

// The patterns of the marks in <parameter=key>value</parameter> .. </function>. White space between tags is not a part of any value.
struct TagForm {
  std::string_view open;          // before a value; %k: its key, %t: its type
  std::string_view close;         // after it; with %k a value may be tags in turn, and those of a list are <item>
  std::string_view end;           // after the last tag
  std::string_view pad;           // a line break on either side of a value, which is not a part of it
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
  std::string value;      // as it was written, without what the form adds
};

class TagScan {
 public:
  enum class State : uint8_t { kMore, kDone, kRefused };
  void reset(const TagForm& form);
  State feed(char c);
  // Whether the last bytes, which spell `mark`, are a mark and not a part of a value.
  bool is_mark(std::string_view mark) const;
  const std::vector<Argument>& arguments() const { return arguments_; }

 private:
  State between(char c);
  State value(char c);
  State nested(char c);
  State end_value(size_t bytes);

  const TagForm* form_ = nullptr;
  bool in_value_ = false;
  PatternReader open_, end_;  // the mark under way, between values
  size_t mark_bytes_ = 0;
  std::string close_;   // the mark that ends the value under way
  size_t name_at_ = 0;  // where the name of a nested tag in the value under way begins; 0: there is none
  std::vector<std::string> nested_;
  std::vector<Argument> arguments_;
};

}  // namespace kvrt::reply
