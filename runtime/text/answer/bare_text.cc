// Free text of families whose calls have no mark: {"name": .., an object with a call's keys, or [f(, a list of calls. Text that begins as a
// call does is none where it goes on in another way, as PayloadScan says.
#include <algorithm>
#include <string>

#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/reply/payload.h"

namespace kvrt {

namespace {
constexpr char kWord[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr char kInWord[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.";
}  // namespace

AnswerBuilder::Node AnswerBuilder::bytes_to(std::string_view bytes, Node to) {
  std::vector<Node> ways;
  for (char c : bytes) ways.push_back(then(builder_.bytes(static_cast<uint8_t>(c), static_cast<uint8_t>(c)), to));
  const Node join = builder_.join();
  builder_.link(join, ways);
  return join;
}

AnswerBuilder::Node AnswerBuilder::bare_text(const FreeText::Text& text) {
  const Node begin = builder_.join(), object = builder_.join(), list = builder_.join(), word = builder_.join();
  const std::string space(reply::kWhiteSpace);
  builder_.link(begin, either({bytes_to(space, begin), bytes_to("{", object), bytes_to("[", list), text.begin_but(space + "{[", begin)}));
  builder_.link(object, either({bytes_to(space, object), bytes_to("\"", bare_key(text, "")), text.begin_but(space + "\"")}));
  builder_.link(list, either({bytes_to(space, list), bytes_to("{", object), bytes_to(kWord, word), text.begin_but(space + "{" + kWord)}));
  builder_.link(word, either({bytes_to(kInWord, word), text.begin_but(std::string(kInWord) + "(")}));
  return begin;
}

// The first key of an object, of which `begin` has come: none of a call's.
AnswerBuilder::Node AnswerBuilder::bare_key(const FreeText::Text& text, std::string_view begin) {
  std::string next;  // bytes by which it may become a call's
  std::vector<Node> ways;
  for (std::string_view key : reply::kCallKeys) {
    if (!key.starts_with(begin)) continue;
    const char c = key.size() == begin.size() ? '"' : key[begin.size()];
    if (next.find(c) != std::string::npos) continue;
    next.push_back(c);
    if (c != '"') ways.push_back(bytes_to({&c, 1}, bare_key(text, key.substr(0, begin.size() + 1))));
  }
  ways.push_back(text.begin_but(next));
  const Node join = builder_.join();
  builder_.link(join, ways);
  return join;
}

}  // namespace kvrt
