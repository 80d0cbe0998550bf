// The cost of a grammar in a decode step: mask and accept, over a sampler's generations.
// usage: schema_valid.py schemas | bench_grammar MODEL.gguf [GENERATIONS_PER_SCHEMA]     a JSON schema a line; each generation starts cold
// With a third argument, "tools", a line is a list of tools, and answers are a model's of the Hermes family: text or calls.
// A schema that is refused counts for the compile times alone, on a line of its own.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <set>
#include <string>

#include "runtime/text/answer/answer_grammar.h"
#include "tests/support/grammar_rig.h"

using namespace kvrt;

namespace {

// Microseconds of the thread's own time: other programs may run beside.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double since(double begin) { return now() - begin; }

void report(const char* what, std::vector<double> us) {
  if (us.empty()) return;
  std::sort(us.begin(), us.end());
  auto at = [&](double q) { return us[static_cast<size_t>(q * static_cast<double>(us.size() - 1))]; };
  double sum = 0;
  for (double u : us) sum += u;
  printf("%-28s n %7zu  median %8.1f us  p99 %8.1f us  max %8.1f us  mean %8.1f us\n", what, us.size(), at(0.5), at(0.99), us.back(),
         sum / static_cast<double>(us.size()));
}

Result<std::shared_ptr<const Grammar>> grammar_of(const std::string& line, bool tools, const GrammarVocab& vocab) {
  if (!tools) return Grammar::from_json_schema(line);
  AnswerRules rules;
  rules.style.format = ReplyFormat::kHermes;
  rules.choice = ToolChoice::kAuto;
  rules.tools = line;
  return answer_grammar(rules, vocab);
}

Status run(const char* path, uint64_t generations, bool tools) {
  KVRT_ASSIGN(const auto tokenizer, rig::open_tokenizer(path));
  auto begin = now();
  const auto vocab = GrammarVocab::make(*tokenizer);
  printf("vocabulary of %u tokens: %.1f ms\n", tokenizer->vocab_size(), since(begin) / 1e3);
  std::vector<double> compile, refuse, step, first, cached, accept;
  std::string schema;
  while (std::getline(std::cin, schema)) {
    begin = now();
    auto made = grammar_of(schema, tools, *vocab);
    const double us = since(begin);
    (made.is_ok() ? compile : refuse).push_back(us);
    if (us > 20e3) printf("%.1f ms: line %zu, %s\n", us / 1e3, compile.size() + refuse.size(), made.status().message().c_str());
    if (!made.is_ok()) continue;
    const auto grammar = std::move(made).value();
    for (uint64_t seed = 0; seed < generations; ++seed) {
      GrammarMatcher matcher(grammar, vocab);
      rig::MaskSampler sampler(*tokenizer, seed);
      std::set<const uint64_t*> seen;
      for (int n = 0; n < 160; ++n) {
        begin = now();
        const auto mask = matcher.mask();
        const double mask_us = since(begin);
        const int32_t token = sampler.draw(mask);
        begin = now();
        const bool ok = matcher.accept(token);
        const double accept_us = since(begin);
        if (!ok) return error(Code::kInternal, Detail::kNone, "a token of the mask is not accepted");
        (seen.insert(mask.data()).second ? first : cached).push_back(mask_us);
        accept.push_back(accept_us);
        step.push_back(mask_us + accept_us);
        if (tokenizer->is_end(token)) break;
      }
    }
  }
  report("compile a schema", compile);
  report("refuse a schema", refuse);
  report("mask + accept, each step", step);
  report("mask, a state's first", first);
  report("mask, again", cached);
  report("accept", accept);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s MODEL.gguf|bytes [GENERATIONS_PER_SCHEMA [tools]] < schemas\n", argv[0]), 2;
  const Status status = run(argv[1], argc > 2 ? strtoull(argv[2], nullptr, 10) : 34, argc > 3);
  if (!status.is_ok()) fprintf(stderr, "%s: %s\n", code_name(status.code()), status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
