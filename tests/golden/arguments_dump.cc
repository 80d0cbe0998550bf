// Calls that every family's grammar of arguments lets a walk make, as the reply parser reads them; for tests/golden/arguments_valid.py.
// usage: arguments_dump WALKS SEED < requests > lines
//   a request a line: {"schema": .., "texts": {"family": ["arguments as it writes them", ..]}, "families": [those that are asked; none: all]}
//   lines, of fields between tabs: the family, 1 where its marks are control tokens, the schema's number, then
//   U message: it is refused; C call; B text: not exactly one call came of it; L: a walk came to no end;
//   T text taken call: the number of a text, 1 where the grammar takes it, and the call that is read of it or nothing
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "tests/support/arguments_rig.h"

using namespace kvrt;

namespace {

std::string as_json(const std::string& text) {
  std::string out;
  append_json_string(text, &out);
  return out;
}

std::string shown(const std::vector<rig::Written>& pieces) {
  std::string text;
  for (const rig::Written& piece : pieces) text += piece.text;
  return as_json(text);
}

std::string call_of(const std::vector<ReplyPart>& parts) {
  return parts.size() == 1 && parts[0].kind == ReplyPart::Kind::kToolCall ? parts[0].text : "";
}

std::string one_walk(const rig::CallWalk& walk, uint64_t seed) {
  const auto arguments = walk.walk(seed);
  if (!arguments) return "L";
  const auto pieces = walk.call(*arguments);
  const std::string call = call_of(walk.read(pieces));
  return call.empty() ? "B\t" + shown(pieces) : "C\t" + call;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s WALKS SEED\n", argv[0]), 2;
  const uint64_t walks = strtoull(argv[1], nullptr, 10), seed = strtoull(argv[2], nullptr, 10);
  const std::unique_ptr<Tokenizer> tokenizers[] = {rig::marks_tokenizer(false), rig::marks_tokenizer(true)};
  const std::shared_ptr<const GrammarVocab> vocabs[] = {GrammarVocab::make(*tokenizers[0]), GrammarVocab::make(*tokenizers[1])};
  std::string line;
  for (int number = 0; std::getline(std::cin, line); ++number) {
    const auto request = nlohmann::ordered_json::parse(line);
    const auto asked = request.value("families", nlohmann::ordered_json::array());
    for (const reply::Family& family : reply::families()) {
      if (!asked.empty() && std::find(asked.begin(), asked.end(), family.name) == asked.end()) continue;
      for (int controls = 0; controls < 2; ++controls) {
        const std::string head = std::string(family.name) + "\t" + std::to_string(controls) + "\t" + std::to_string(number) + "\t";
        rig::CallWalk walk(*tokenizers[controls], family, request["schema"].dump());
        const Status made = walk.compile(vocabs[controls]);
        if (!made.is_ok()) printf("%sU\t%s\n", head.c_str(), as_json(code_name(made.code()) + (": " + made.message())).c_str());
        for (uint64_t i = 0; made.is_ok() && i < walks; ++i) printf("%s%s\n", head.c_str(), one_walk(walk, seed + i).c_str());
        const auto& texts = request["texts"].value(family.name, nlohmann::ordered_json::array());
        for (size_t i = 0; made.is_ok() && i < texts.size(); ++i) {
          const std::string text = texts[i].get<std::string>(), call = call_of(walk.read(walk.call(walk.tokens(text))));
          printf("%sT\t%zu\t%d\t%s\n", head.c_str(), i, walk.accepts(text), call.c_str());
        }
      }
    }
  }
  return 0;
}
