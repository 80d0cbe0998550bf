// The families of models: the signs by which a chat template shows them, and how their calls are written.
#pragma once

#include <span>
#include <string_view>

#include "runtime/text/reply/reply_style.h"
#include "runtime/text/reply/tags.h"

namespace kvrt::reply {

// How a family writes the calls of one turn: `begin`; for each call `call`, its name, `named`, its arguments and `end`; `between` between two
// calls; and `close`. In these texts %d is the call's number from 0 and %D from 1, as templates count; an answer may have any number. %i is
// nine letters or digits. White space with a line break, or after one of ,:;[{, may be other white space, or missing; %s is white space that
// is missing and may come. The parser reads more than that: it takes JSON's keys in any order.
struct WrittenCalls {
  std::string_view begin, call, named, end, between, close;
  enum class Arguments : uint8_t {
    kJson,    // an object
    kPython,  // k="v", l=[1, None]
    kTags,    // in `tags`, whose end is a part of `end`
    kQuoted,  // {k:<|"|>v<|"|>,l:[1,null]}
  } arguments = Arguments::kJson;
  const TagForm* tags = nullptr;
  std::string_view may_precede = {}, may_follow = {};  // marks that may come before `begin` and after `close`, with no content between
};

struct Family {
  std::string_view name;
  ReplyFormat format;
  std::string_view sign, also;  // the template of such a model has both
  WrittenCalls written;
};
std::span<const Family> families();  // if a template has the signs of several, the first one counts

}  // namespace kvrt::reply
