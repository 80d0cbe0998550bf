// BareHead recognizes the beginning of a call that has no mark: `{"name": "f", "arguments":` of a tool f, perhaps in a list, or `[f(` of Python's
// calls. No other text is such a beginning. The grammar of answers (bare_text.cc) binds a call from the same byte on.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/text/reply/syntax.h"
#include "runtime/text/reply/tools.h"

namespace kvrt::reply {

class BareHead {
 public:
  // The syntax and the tools must outlive this object, or the next reset.
  void reset(const CallSyntax& syntax, const ReplyTools& tools);
  bool feed(char c);  // false: the text is not a call
  bool whole() const { return at_ == At::kWhole; }

 private:
  // What comes next, after white space.
  enum class At : uint8_t {
    kFirst,
    kItem,
    kWord,
    kObject,
    kNameKey,
    kColon,
    kNameQuote,
    kName,
    kComma,
    kKeyQuote,
    kKey,
    kLastColon,
    kWhole
  };
  bool go(At at);
  bool feed_key(char c);
  bool feed_name(char c);

  const CallSyntax* syntax_ = nullptr;
  const ReplyTools* tools_ = nullptr;
  At at_ = At::kFirst;
  std::string key_;                          // what has come of the key
  std::span<const std::string_view> names_;  // the names that begin as the text so far does
  size_t size_ = 0;                          // how many bytes of a name have come
};

}  // namespace kvrt::reply
