// CallBegin tells where a call begins within open reasoning: its mark, its head and the name of a tool have come. After a mark that is only
// mentioned something else comes. The reader goes by this, and so does the mask of an answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/syntax.h"

namespace kvrt::reply {

// Follows byte by byte what may stand between a syntax's mark and the name, in all its ways at once.
class CallBegin {
 public:
  explicit CallBegin(const CallSyntax& syntax);

  // A pattern (pattern.h) with one %n, for the rest of a call's head, or of its payload as far as the name; and bytes of which one follows.
  struct Way {
    std::string pattern, after;
    size_t name_at;
  };
  // A place in a way; of the name the first `bytes` bytes, by which `names[first..end)` begin.
  struct At {
    uint32_t way, place, first, end, bytes;
    auto operator<=>(const At&) const = default;
  };
  using Names = std::span<const std::string_view>;  // sorted
  using Places = std::vector<At>;

  const std::vector<Way>& ways() const { return ways_; }
  Places begin(Names names) const;
  // The places after `c`; none: it leads nowhere. `named`: the name of a tool is whole, and `c` follows it.
  Places step(const Places& from, Names names, char c, bool* named) const;
  std::string next(const Places& from, Names names) const;  // the bytes that lead on, or follow a name
  bool at_name(const At& at) const;                         // but for white space the name is next

 private:
  void add(std::string_view pattern, std::string_view after);
  void add_payload(std::string_view head, unsigned flags);
  enum class Step : uint8_t { kByte, kSpace, kRun, kName, kAfter };
  template <typename Visit>
  void each_step(At at, Names names, Visit visit) const;

  std::vector<Way> ways_;
};

const CallBegin& call_begin(const CallSyntax& syntax);  // of a row of syntaxes()

}  // namespace kvrt::reply
