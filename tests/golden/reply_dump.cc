// Parts of answers, for tests/golden/reply_equivalence.py.
// usage: reply_dump detect < template              the style, as one line of JSON
//        reply_dump FORMAT BEGIN END OPEN < answers  FORMAT: a number; OPEN: 0 or 1
// Each answer is u32 pieces, and of each u32 control, u32 bytes and the bytes. Each of its parts is a line: C, R or T and a JSON string;
// an empty line ends it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/text/reply/parser.h"

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
  nlohmann::json json = {static_cast<int>(style.format), style.reasoning_begin, style.reasoning_end, style.reasoning_open};
  printf("%s\n", json.dump().c_str());
  return 0;
}

static bool read_u32(uint32_t* value) { return fread(value, sizeof *value, 1, stdin) == 1; }

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "detect") == 0) return detect();
  if (argc != 5) return fprintf(stderr, "usage: %s detect | FORMAT BEGIN END OPEN\n", argv[0]), 2;
  ReplyParser parser({static_cast<ReplyFormat>(atoi(argv[1])), argv[2], argv[3], argv[4][0] == '1'});
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
