// The tool calls of each family: a table of markers, of heads, which stand between a marker and a call's payload, and of payloads.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "runtime/text/reply/parser.h"

namespace kvrt::reply {

// One way of a format to write calls. The payload is one JSON object or an array of them; where a head gave the name, the object of
// its arguments.
struct CallSyntax {
  ReplyFormat format;
  std::string_view begin;  // "": bare, where an answer begins and again after its calls
  // Patterns of the head. %s: white space, perhaps none; %n: the name; %i: letters of an identifier; %d: digits; the text between
  // ( and ) is the call's id; else literally. None: the marker only announces others.
  std::array<std::string_view, 4> heads;
  std::array<std::string_view, 3> ends;  // markers that may follow, in any order
  enum Flags : unsigned {
    kNone = 0,
    kPython = 1,   // the payload may be f(k="v") or a list of such
    kStrict = 2,   // it may be no call at all: the object has only a call's keys, and arguments
    kRepeats = 4,  // another payload may follow without a marker
    kTags = 8,     // it is arguments in tags, and their end (tags.h)
  };
  unsigned flags = kNone;
};
std::span<const CallSyntax> syntaxes();

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_name(char c) { return is_word(c) || c == '-' || c == '.' || c == '/'; }

// Reads a call's head by all patterns at once.
class HeadReader {
 public:
  void reset(const CallSyntax& syntax);
  bool feed(char c);  // false: no pattern goes on
  struct Head {
    std::string name, id;  // "": the payload has them
  };
  const Head* complete() const;  // the head where the payload may begin now, or null

 private:
  struct Track {
    std::string_view pattern;  // the rest of it
    size_t run = 0;            // bytes of the class under way
    bool alive = false, in_id = false;
    Head head;
  };
  static bool advance(Track* track, char c);
  static bool done(const Track& track);
  std::array<Track, 4> tracks_;
};

// Harmony: all text stands in messages <|start|>role<|channel|>channel to=recipient <|constrain|>type<|message|>text<|end|>.
inline constexpr std::string_view kHarmonyMessage = "<|message|>";
inline constexpr std::string_view kHarmonyMarkers[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};

// A header with its <|channel|> as kHarmonyChannel and its other markers as white space.
inline constexpr std::string_view kHarmonyChannel = " channel=";
struct HarmonyHeader {
  std::string recipient;  // a call's; "": the message is no call
  bool reasoning = false;
};
HarmonyHeader read_harmony_header(std::string_view header);

}  // namespace kvrt::reply
