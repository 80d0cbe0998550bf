// Any answer, of any format, at any split: the same parts; calls of the promised form; and where there was no call, the text itself.
// Input: the format, flags (1: reasoning, 2: opened by the prompt, 4: tools with schemas), a seed of splits; then text and control tokens in turn, ended by 0xFF.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/base/utf8.h"
#include "runtime/text/reply/reply_parser.h"
#include "runtime/text/reply/syntax.h"
#include "tests/fuzz/require.h"

namespace {

using kvrt::ReplyPart;
using Parts = std::vector<ReplyPart>;

void join(Parts* parts) {
  Parts joined;
  for (ReplyPart& part : *parts) {
    require(!part.text.empty(), "no part is empty");
    bool joins = !joined.empty() && joined.back().kind == part.kind && part.kind != ReplyPart::Kind::kToolCall;
    if (joins) {
      joined.back().text += part.text;
    } else {
      joined.push_back(std::move(part));
    }
  }
  parts->swap(joined);
}

struct Piece {
  std::string_view text;
  bool control;
};

// Texts are cut where the bits of `cuts`, mixed anew at each byte, say so.
Parts parse(kvrt::ReplyParser* parser, const std::vector<Piece>& pieces, uint32_t cuts, bool every_byte) {
  Parts parts;
  for (const Piece& piece : pieces) {
    size_t begin = 0;
    for (size_t i = 1; i < piece.text.size() && !piece.control; ++i) {
      cuts = cuts * 1664525 + 1013904223;
      if (!every_byte && cuts >> 30 != 0) continue;
      parser->push(piece.text.substr(begin, i - begin), false, &parts);
      begin = i;
    }
    parser->push(piece.text.substr(begin), piece.control, &parts);
  }
  parser->finish(&parts);
  join(&parts);
  return parts;
}

bool same(const Parts& a, const Parts& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ReplyPart& x, const ReplyPart& y) { return x.kind == y.kind && x.text == y.text; });
}

void check_call(const std::string& text) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  require(!json.is_discarded() && json.is_object(), "a call is a JSON object");
  require(json["name"].is_string() && !json["name"].get_ref<const std::string&>().empty(), "a call has a name");
  require(json["arguments"].is_object(), "a call has arguments");
  require(json.size() == 2 || (json.size() == 3 && json["id"].is_string()), "a call has no more than an id");
}

const std::shared_ptr<const kvrt::ReplyTools> kTools = kvrt::read_reply_tools(
    R"([{"name": "f", "parameters": {"properties": {"a": {"type": ["integer", "object"]}, "s": {"type": "string"}, "l": {"items": {"$ref": "#"}}}}}])");

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  kvrt::ReplyStyle style;
  style.format = static_cast<kvrt::ReplyFormat>(data[0] % (static_cast<int>(kvrt::ReplyFormat::kHarmony) + 1));
  if (data[1] & 1) style = {style.format, "<think>", "</think>", data[1] & 2 ? kvrt::AnswerPlace::kReasoning : kvrt::AnswerPlace::kBegin};
  if (data[1] & 4) style.tools = kTools;
  const uint32_t cuts = data[2];
  const std::string_view answer(reinterpret_cast<const char*>(data) + 3, size - 3);
  (void)kvrt::detect_reply_style(answer);
  (void)kvrt::answer_place(style, answer);
  std::vector<Piece> pieces;
  bool valid = true;
  size_t bytes = 0;
  for (size_t at = 0, end; at <= answer.size(); at = end + 1) {
    end = std::min(answer.find('\xff', at), answer.size());
    pieces.push_back({answer.substr(at, end - at), pieces.size() % 2 == 1});
    bytes += end - at;
    valid &= kvrt::find_invalid_utf8(pieces.back().text) == std::string_view::npos;
  }
  kvrt::ReplyParser parser(style);
  Parts parts;
  for (const Piece& piece : pieces) parser.push(piece.text, piece.control, &parts);
  parser.finish(&parts);
  size_t shown = 0;
  bool plain = true;
  std::string content;
  for (const ReplyPart& part : parts) {
    require(!valid || kvrt::find_invalid_utf8(part.text) == std::string_view::npos, "parts are whole code points where pushes are");
    plain &= part.kind == ReplyPart::Kind::kContent;
    if (part.kind == ReplyPart::Kind::kToolCall) {
      check_call(part.text);
    } else {
      shown += part.text.size();
      content += part.text;
    }
  }
  require(shown <= bytes, "nothing is shown twice");
  const bool framed = std::any_of(kvrt::reply::syntaxes().begin(), kvrt::reply::syntaxes().end(), [&](const kvrt::reply::CallSyntax& s) {
    return s.format == style.format && s.flags & kvrt::reply::CallSyntax::kFrame;
  });
  if (plain && pieces.size() == 1 && style.reasoning_begin.empty() && style.format != kvrt::ReplyFormat::kHarmony && !framed)
    require(content == answer, "without calls the text is the content");
  join(&parts);
  require(same(parts, parse(&parser, pieces, cuts, true)), "byte by byte the parts are the same");
  require(same(parts, parse(&parser, pieces, cuts, false)), "however split the parts are the same");
  return 0;
}
