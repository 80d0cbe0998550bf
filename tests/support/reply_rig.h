// A reply parser's parts of an answer, written short, at every split.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/reply/reply_parser.h"

namespace kvrt::reply_rig {

using Kind = ReplyPart::Kind;
using Parts = std::vector<ReplyPart>;

struct Piece {
  std::string text;
  bool control;
};

// "text {{control token}} text"
inline std::vector<Piece> pieces_of(std::string_view answer) {
  std::vector<Piece> pieces;
  const auto control_at = [&](size_t at) {
    while ((at = answer.find("{{", at)) != std::string_view::npos && !answer.substr(at + 2).starts_with('<') &&
           !answer.substr(at + 2).starts_with('[') && !answer.substr(at + 2).starts_with(']') && !answer.substr(at + 2).starts_with("｜"))
      ++at;
    return std::min(at, answer.size());
  };
  while (!answer.empty()) {
    const size_t at = control_at(0);
    const bool control = at == 0;
    const size_t end = control ? answer.find("}}") : at;
    pieces.push_back({std::string(answer.substr(control ? 2 : 0, control ? end - 2 : end)), control});
    answer.remove_prefix(control ? end + 2 : end);
  }
  return pieces;
}

inline ReplyStyle style_of(ReplyFormat format) { return {format, "", ""}; }
inline ReplyStyle thinking(ReplyFormat format, bool open = false) {
  return {format, "<think>", "</think>", open ? AnswerPlace::kReasoning : AnswerPlace::kBegin};
}

inline std::string show(const Parts& parts) {
  std::string text;
  for (const ReplyPart& part : parts)
    text += std::string(part.kind == Kind::kContent ? "C" : part.kind == Kind::kReasoning ? "R" : "T") + "<" + part.text + ">";
  return text;
}

inline void add(const Parts& increments, Parts* joined) {
  for (const ReplyPart& part : increments) {
    ASSERT_FALSE(part.text.empty());
    bool joins = !joined->empty() && joined->back().kind == part.kind && part.kind != Kind::kToolCall;
    if (joins)
      joined->back().text += part.text;
    else
      joined->push_back(part);
  }
}

// Texts are split before every byte for which cut(byte in all) is true.
template <typename Cut>
std::string parse(ReplyParser* parser, const std::vector<Piece>& pieces, Cut cut) {
  Parts joined;
  size_t at = 0;
  auto push = [&](std::string_view text, bool control) {
    Parts parts;
    parser->push(text, control, &parts);
    add(parts, &joined);
  };
  for (const Piece& piece : pieces) {
    size_t begin = 0;
    for (size_t i = 1; i < piece.text.size() && !piece.control; ++i) {
      if (!cut(at + i)) continue;
      push(std::string_view(piece.text).substr(begin, i - begin), false);
      begin = i;
    }
    push(std::string_view(piece.text).substr(begin), piece.control);
    at += piece.text.size();
  }
  Parts parts;
  parser->finish(&parts);
  add(parts, &joined);
  return show(joined);
}

inline void expect_pieces(const ReplyStyle& style, const std::vector<Piece>& pieces, const std::string& expected, const std::string& what) {
  ReplyParser parser(style);
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.text.size();
  ASSERT_EQ(parse(&parser, pieces, [](size_t) { return false; }), expected) << what;
  ASSERT_EQ(parse(&parser, pieces, [](size_t) { return true; }), expected) << what << ": byte by byte";
  for (size_t split = 1; split < bytes; ++split)
    ASSERT_EQ(parse(&parser, pieces, [=](size_t at) { return at == split; }), expected) << what << ": split at " << split;
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(parse(&parser, pieces, [&](size_t) { return random() % 4 == 0; }), expected) << what << ": random split " << round;
}

// The markers as control tokens where the answer says so.
inline void expect(const ReplyStyle& style, std::string_view answer, const std::string& expected) {
  expect_pieces(style, pieces_of(answer), expected, std::string(answer));
}

// The same, also where the tokenizer has no such tokens and they come as text.
inline void expect_also_as_text(const ReplyStyle& style, std::string_view answer, const std::string& expected) {
  expect(style, answer, expected);
  std::string text;
  for (const Piece& piece : pieces_of(answer)) text += piece.text;
  expect_pieces(style, {{text, false}}, expected, "as text: " + text);
}

// A call's part, in the interface's form.
inline std::string call(const std::string& name, const std::string& arguments, const std::string& id = "") {
  return "T<{\"name\":\"" + name + "\",\"arguments\":" + arguments + (id.empty() ? "" : ",\"id\":\"" + id + "\"") + "}>";
}

}  // namespace kvrt::reply_rig
