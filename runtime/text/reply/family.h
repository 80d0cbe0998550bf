// The families of models: the signs by which a chat template shows them, and how their calls are written.
#pragma once

#include <span>
#include <string_view>

#include "runtime/text/reply/reply_style.h"
#include "runtime/text/reply/tags.h"

namespace kvrt::reply {

// The calls of one turn as a family writes them: `begin`, then of each call `call`, its name, `named`, its arguments and `end`, `between`
// two calls, and `close`. %d is the call's number, by templates from 0, %D from 1; answers may have any. %i is nine letters or digits. White
// space with a line break, or behind one of ,:;[{, may be other, or none; %s is none that may be some. What the parser reads is more: it
// takes JSON's keys in any order.
struct WrittenCalls {
  std::string_view begin, call, named, end, between, close;
  enum class Arguments : uint8_t {
    kJson,    // an object
    kPython,  // k="v", l=[1, None]
    kTags,    // by `tags`; their end is a part of `end`
    kQuoted,  // {k:<|"|>v<|"|>,l:[1,null]}
  } arguments = Arguments::kJson;
  const TagForm* tags = nullptr;
  std::string_view may_precede = {}, may_follow = {};  // marks without content before `begin` and behind `close`
};

struct Family {
  std::string_view name;
  ReplyFormat format;
  std::string_view sign, also;  // both stand in the template
  WrittenCalls written;
};
std::span<const Family> families();  // of those whose signs a template has the first one counts

}  // namespace kvrt::reply
