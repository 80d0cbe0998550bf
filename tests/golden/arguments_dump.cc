// Calls that every family's grammar of arguments lets a walk make, as the reply parser reads them; for tests/golden/arguments_valid.py.
// usage: arguments_dump WALKS SEED < schemas > lines     a schema a line
//   lines, of fields between tabs: the family, 1 where its marks are control tokens, the schema's number, then
//   U message: it is refused; C call; B text: not exactly one call came of it; L: a walk came to no end
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "runtime/base/json.h"
#include "tests/support/arguments_rig.h"

using namespace kvrt;

namespace {

std::string shown(const std::vector<rig::Written>& pieces) {
  std::string text, out;
  for (const rig::Written& piece : pieces) text += piece.text;
  append_json_string(text, &out);
  return out;
}

std::string one_walk(const rig::CallWalk& walk, uint64_t seed) {
  const auto arguments = walk.walk(seed);
  if (!arguments) return "L";
  const auto pieces = walk.call(*arguments);
  const auto parts = walk.read(pieces);
  if (parts.size() != 1 || parts[0].kind != ReplyPart::Kind::kToolCall) return "B\t" + shown(pieces);
  return "C\t" + parts[0].text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s WALKS SEED\n", argv[0]), 2;
  const uint64_t walks = strtoull(argv[1], nullptr, 10), seed = strtoull(argv[2], nullptr, 10);
  const std::unique_ptr<Tokenizer> tokenizers[] = {rig::marks_tokenizer(false), rig::marks_tokenizer(true)};
  const std::shared_ptr<const GrammarVocab> vocabs[] = {GrammarVocab::make(*tokenizers[0]), GrammarVocab::make(*tokenizers[1])};
  std::string schema;
  for (int number = 0; std::getline(std::cin, schema); ++number) {
    for (const reply::Family& family : reply::families()) {
      for (int controls = 0; controls < 2; ++controls) {
        const std::string head = std::string(family.name) + "\t" + std::to_string(controls) + "\t" + std::to_string(number) + "\t";
        rig::CallWalk walk(*tokenizers[controls], family, schema);
        const Status made = walk.compile(vocabs[controls]);
        if (!made.is_ok()) printf("%sU\t%s: %s\n", head.c_str(), code_name(made.code()), made.message().c_str());
        for (uint64_t i = 0; made.is_ok() && i < walks; ++i) printf("%s%s\n", head.c_str(), one_walk(walk, seed + i).c_str());
      }
    }
  }
  return 0;
}
