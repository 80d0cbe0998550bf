// The cost of a grammar in a decode step: mask and accept, over a sampler's generations.
// usage: schema_valid.py schemas | bench_grammar MODEL.gguf [GENERATIONS_PER_SCHEMA]     a JSON schema a line
// With a third argument, "tools", a line is a list of tools, and answers are a model's of the Hermes family: some text, then a call. Behind them
// come tools of 30 and 64 members, none of them required, whose calls have members in random orders; and beside them, as it is with no more
// to keep, responses that fit the same schema, in its order. Memory is that of one grammar with its states and masks, after one and after all.
// Each generation comes three times, each time cold, and a figure is the least of the three: a busy machine's pauses are not the mask's cost.
// Then it comes again, warm.
// A schema that is refused counts for the compile times alone, on a line of its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <random>
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

// Of each step of a generation.
struct Costs {
  std::vector<double> mask, accept;
  void add(const Costs& other) {
    mask.insert(mask.end(), other.mask.begin(), other.mask.end());
    accept.insert(accept.end(), other.accept.begin(), other.accept.end());
  }
  void least(const Costs& other) {
    if (mask.empty()) return add(other);
    for (size_t i = 0; i < mask.size(); ++i) {
      mask[i] = std::min(mask[i], other.mask[i]);
      accept[i] = std::min(accept[i], other.accept[i]);
    }
  }
};

// One of these tokens, and of what the sampler adds to them; null: of them alone.
Status generate(const Tokenizer& tokenizer, const std::shared_ptr<GrammarMasks>& masks, rig::MaskSampler* sampler,
                std::vector<int32_t>* tokens, Costs* costs) {
  GrammarMatcher matcher(masks);
  for (size_t n = 0; n < (sampler ? 160 : tokens->size()); ++n) {
    auto begin = now();
    const auto mask = matcher.mask();
    costs->mask.push_back(since(begin));
    if (n == tokens->size()) tokens->push_back(sampler->draw(mask));
    const int32_t token = (*tokens)[n];
    begin = now();
    const bool ok = matcher.accept(token);
    costs->accept.push_back(since(begin));
    if (!ok) return error(Code::kInternal, Detail::kNone, "a token of the mask is not accepted");
    if (tokenizer.is_end(token)) break;
  }
  return {};
}

// Each cold three times, of which the least counts, and once warm. `sampler` adds to the tokens in the first of them.
Status measure(const Tokenizer& tokenizer, const std::shared_ptr<const Grammar>& grammar, const std::shared_ptr<const GrammarVocab>& vocab,
               rig::MaskSampler* sampler, std::vector<int32_t>* tokens, Costs* cold, Costs* warm, size_t* bytes = nullptr) {
  Costs least;
  std::shared_ptr<GrammarMasks> masks;
  for (int time = 0; time < 3; ++time) {
    masks = GrammarMasks::make(grammar, vocab);
    Costs costs;
    KVRT_TRY(generate(tokenizer, masks, time == 0 ? sampler : nullptr, tokens, &costs));
    least.least(costs);
  }
  cold->add(least);
  if (bytes) *bytes = std::max(*bytes, masks->bytes());
  Costs again;
  KVRT_TRY(generate(tokenizer, masks, nullptr, tokens, &again));
  warm->add(again);
  return {};
}

// A tool whose members have the types that tools have, and calls of it.
class WideTool {
 public:
  explicit WideTool(size_t members, bool call) : random_(members), is_call_(call) {
    constexpr const char* kWords[] = {"name",  "city",  "unit",  "limit", "query", "sort", "start", "end",    "date",  "time", "format",
                                      "page",  "width", "color", "label", "group", "role", "state", "status", "kind",  "type", "score",
                                      "price", "code",  "host",  "port",  "path",  "user", "note",  "source", "index", "mode"};
    while (names_.size() < members) {
      std::string name = kWords[random_() % std::size(kWords)];
      if (random_() % 2 == 0) name += std::string("_") + kWords[random_() % std::size(kWords)];
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    }
  }
  std::string source() const {  // a list of tools; or the schema
    constexpr const char* kTypes[] = {R"({"type":"string"})",
                                      R"({"type":"integer"})",
                                      R"({"enum":["low","medium","high"]})",
                                      R"({"type":"boolean"})",
                                      R"({"type":"array","items":{"type":"string"}})",
                                      R"({"type":"number"})"};
    std::string properties;
    for (size_t i = 0; i < names_.size(); ++i) properties += (i ? ",\"" : "\"") + names_[i] + "\":" + kTypes[i % std::size(kTypes)];
    const std::string schema = R"({"type":"object","properties":{)" + properties + "}}";
    return is_call_ ? R"([{"name":"f","parameters":)" + schema + "}]" : schema;
  }
  std::string text() {
    constexpr const char* kValues[] = {"\"Main Street 12, second floor\"", "20431", "\"medium\"", "true",
                                       R"(["red", "light blue"])",         "-3.25"};
    std::vector<size_t> order(names_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (is_call_) std::ranges::shuffle(order, random_);
    std::string members;
    for (size_t i : order) members += (members.empty() ? "\"" : ", \"") + names_[i] + "\": " + kValues[i % std::size(kValues)];
    return is_call_ ? "\n{\"name\": \"f\", \"arguments\": {" + members + "}}\n</tool_call>" : "{" + members + "}";
  }

 private:
  std::mt19937_64 random_;
  bool is_call_;
  std::vector<std::string> names_;
};

Status run_wide(const Tokenizer& tokenizer, const std::shared_ptr<const GrammarVocab>& vocab, const std::vector<int32_t>& opening,
                size_t members, bool call, uint64_t times) {
  WideTool tool(members, call);
  KVRT_ASSIGN(const auto grammar, grammar_of(tool.source(), call, *vocab));
  std::vector<std::vector<int32_t>> answers(times, call ? opening : std::vector<int32_t>());
  Costs cold, warm, after;
  size_t one = 0, all = 0;
  for (auto& tokens : answers) {
    KVRT_TRY(tokenizer.encode(tool.text(), true, &tokens));
    KVRT_TRY(measure(tokenizer, grammar, vocab, nullptr, &tokens, &cold, &warm, &one));
  }
  for (int time = 0; time < 3; ++time) {
    const auto masks = GrammarMasks::make(grammar, vocab);
    Costs costs;
    for (auto& tokens : answers) {
      KVRT_TRY(generate(tokenizer, masks, nullptr, &tokens, &costs));
      all = std::max(all, masks->bytes());
    }
    after.least(costs);
  }
  printf("%zu members, %s, %zu tokens\n", members, call ? "a call in random orders" : "a response in the schema's order",
         answers[0].size());
  report("mask, cold", cold.mask);
  report("accept, cold", cold.accept);
  report("mask, after others", after.mask);
  report("mask, warm", warm.mask);
  printf("memory: %.1f MiB after one, at most %.1f MiB after all %zu\n", static_cast<double>(one) / (1 << 20),
         static_cast<double>(all) / (1 << 20), answers.size());
  return {};
}

Status run(const char* path, uint64_t generations, bool tools) {
  KVRT_ASSIGN(const auto tokenizer, rig::open_tokenizer(path));
  auto begin = now();
  const auto vocab = GrammarVocab::make(*tokenizer);
  printf("vocabulary of %u tokens: %.1f ms\n", tokenizer->vocab_size(), since(begin) / 1e3);
  std::vector<double> compile, refuse;
  Costs cold, warm;
  std::string schema;
  std::vector<int32_t> opening;
  if (tools) KVRT_TRY(tokenizer->encode("It is this.\n<tool_call>", true, &opening));
  while (std::getline(std::cin, schema)) {
    begin = now();
    auto made = grammar_of(schema, tools, *vocab);
    const double us = since(begin);
    (made.is_ok() ? compile : refuse).push_back(us);
    if (us > 20e3) printf("%.1f ms: line %zu, %s\n", us / 1e3, compile.size() + refuse.size(), made.status().message().c_str());
    if (!made.is_ok()) continue;
    GrammarMatcher opens(made.value(), vocab);
    if (!std::ranges::all_of(opening, [&](int32_t token) { return opens.accept(token); })) continue;  // nothing fits the schema
    for (uint64_t seed = 0; seed < generations; ++seed) {
      std::vector<int32_t> tokens = opening;
      rig::MaskSampler sampler(*tokenizer, seed);
      KVRT_TRY(measure(*tokenizer, made.value(), vocab, &sampler, &tokens, &cold, &warm));
    }
  }
  report("compile a schema", compile);
  report("refuse a schema", refuse);
  report("mask, cold", cold.mask);
  report("accept, cold", cold.accept);
  report("mask, warm", warm.mask);
  report("accept, warm", warm.accept);
  for (size_t members : {30, 64}) {
    for (bool call : {true, false})
      if (tools) KVRT_TRY(run_wide(*tokenizer, vocab, opening, members, call, std::max<uint64_t>(generations, 1)));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: %s MODEL.gguf|bytes [GENERATIONS_PER_SCHEMA [tools]] < schemas\n", argv[0]), 2;
  const Status status = run(argv[1], argc > 2 ? strtoull(argv[2], nullptr, 10) : 34, argc > 3);
  if (!status.is_ok()) fprintf(stderr, "%s: %s\n", code_name(status.code()), status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
