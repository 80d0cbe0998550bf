// Parts of answers, for tests/golden/reply_equivalence.py.
// usage: reply_dump detect < template              the style, as one line of JSON
//        reply_dump families                       how each family writes its calls, a line of JSON for each
//        reply_dump FORMAT BEGIN END OPEN [TOOLS] < answers  FORMAT: a number; OPEN: 0 or 1; TOOLS: a JSON array
// Each answer is u32 pieces, and of each u32 control, u32 bytes and the bytes. Each of its parts is a line: C, R or T and a JSON string;
// an empty line ends it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/text/reply/family.h"
#include "runtime/text/reply/reply_parser.h"

using namespace kvrt;

static void print(const std::vector<ReplyPart>& parts) {
  for (size_t i = 0; i < parts.size();) {
    const auto kind = parts[i].kind;
    std::string text = parts[i++].text;
    for (; kind != ReplyPart::Kind::kToolCall && i < parts.size() && parts[i].kind == kind; ++i) text += parts[i].text;
    printf("%c%s\n", "CRT"[static_cast<int>(kind)], nlohmann::json(text).dump().c_str());
  }
  printf("\n");
}

static int detect() {
  std::string text;
  for (int c; (c = getchar()) != EOF;) text.push_back(static_cast<char>(c));
  const ReplyStyle style = detect_reply_style(text);
  nlohmann::json json = {static_cast<int>(style.format), style.reasoning_begin, style.reasoning_end, style.begin == AnswerPlace::kReasoning,
                         style.family != nullptr ? style.family->name : ""};
  printf("%s\n", json.dump().c_str());
  return 0;
}

static nlohmann::json written(const reply::Family& family) {
  static const char* const kArguments[] = {"json", "python", "tags", "quoted"};
  const reply::WrittenCalls& w = family.written;
  nlohmann::json json = {{"begin", w.begin},
                         {"call", w.call},
                         {"named", w.named},
                         {"end", w.end},
                         {"between", w.between},
                         {"close", w.close},
                         {"form", kArguments[static_cast<int>(w.arguments)]}};
  if (w.tags != nullptr)
    json["tags"] = {
        {"open", w.tags->open}, {"close", w.tags->close}, {"pad", w.tags->pad}, {"quote", w.tags->quote}, {"unquote", w.tags->unquote}};
  return json;
}

static int list_families() {
  for (const reply::Family& family : reply::families()) {
    const nlohmann::json json = {{"name", family.name}, {"format", static_cast<int>(family.format)}, {"written", written(family)}};
    printf("%s\n", json.dump().c_str());
  }
  return 0;
}

static bool read_u32(uint32_t* value) { return fread(value, sizeof *value, 1, stdin) == 1; }

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "detect") == 0) return detect();
  if (argc == 2 && strcmp(argv[1], "families") == 0) return list_families();
  if (argc < 5 || argc > 6) return fprintf(stderr, "usage: %s detect | families | FORMAT BEGIN END OPEN [TOOLS]\n", argv[0]), 2;
  ReplyStyle style = {static_cast<ReplyFormat>(atoi(argv[1])), argv[2], argv[3],
                      argv[4][0] == '1' ? AnswerPlace::kReasoning : AnswerPlace::kBegin};
  if (argc == 6) style.tools = read_reply_tools(argv[5]);
  ReplyParser parser(style);
  uint32_t pieces, control, bytes;
  while (read_u32(&pieces)) {
    std::vector<ReplyPart> parts;
    for (; pieces > 0; --pieces) {
      if (!read_u32(&control) || !read_u32(&bytes)) return 1;
      std::string text(bytes, '\0');
      if (fread(text.data(), 1, bytes, stdin) != bytes) return 1;
      parser.push(text, control != 0, &parts);
    }
    parser.finish(&parts);
    print(parts);
  }
  return 0;
}
