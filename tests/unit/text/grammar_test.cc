// Grammars by small cases: refusals and their words, limits, masks, ends, the cache. Whole languages are compared in tests/golden.
#include "runtime/text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/text/grammar/grammar_states.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

using Refusal = std::tuple<std::string, Code, std::string>;  // a source, the status, a part of its message

size_t count(std::span<const uint64_t> mask) {
  size_t n = 0;
  for (uint64_t word : mask) n += static_cast<size_t>(__builtin_popcountll(word));
  return n;
}

TEST(CodePoints, Utf8RangesSpellExactlyTheSet) {
  const CodePointSet sets[] = {
      CodePointSet::all(), {{0x7F, 0x80}, {0x7FF, 0x800}, {0xFFFF, 0x10000}}, {{0xE9, 0x4E2D}}, {{0x10FFF, 0x3ABCD}}};
  for (const CodePointSet& set : sets) {
    const auto ranges = utf8_ranges(set);
    for (char32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 || c > 0xFF00 ? 1 : 7) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string bytes;
      append_code_point(c, &bytes);
      const auto spelled = std::count_if(ranges.begin(), ranges.end(), [&](const Utf8Range& r) {
        bool all = r.size == bytes.size();
        for (size_t i = 0; all && i < bytes.size(); ++i) {
          all = r.bytes[i].first <= static_cast<uint8_t>(bytes[i]) && static_cast<uint8_t>(bytes[i]) <= r.bytes[i].second;
        }
        return all;
      });
      ASSERT_EQ(spelled, set.contains(c) ? 1 : 0) << static_cast<uint32_t>(c);
    }
  }
}

TEST(Grammar, RefusesGbnfByLineAndColumn) {
  const Refusal cases[] = {
      {"", Code::kInvalid, "no rule root"},
      {"x ::= \"a\"", Code::kInvalid, "no rule root"},
      {"root ::= \"a\"\nx ::= y", Code::kInvalid, "line 2, column 7: there is no rule y"},
      {"root ::= \"a", Code::kInvalid, "line 1, column 10: a literal without"},
      {"root ::= \"\xC3\xA9\" [z-a]", Code::kInvalid, "line 1, column 15: a range whose end"},
      {"root ::= [a", Code::kInvalid, "a class without"},
      {"root ::= []", Code::kInvalid, "an empty class"},
      {"root ::= (\"a\"", Code::kInvalid, "a group without"},
      {"root ::= \"a\"{2,1}", Code::kInvalid, "maximum is below"},
      {"root ::= \"a\"{,3}", Code::kInvalid, "expected a number"},
      {"root ::= \"a\"{3", Code::kInvalid, "closing }"},
      {"root ::= \"\\q\"", Code::kInvalid, "unknown escape"},
      {"root ::= \"\\uD800\"", Code::kInvalid, "no such character"},
      {"root ::= \"\\x1\"", Code::kInvalid, "2 hexadecimal digits"},
      {"root ::= \"a\"\nroot ::= \"b\"", Code::kInvalid, "line 2, column 1: a second rule root"},
      {"root = \"a\"", Code::kInvalid, "expected ::="},
      {"root ::= \"a\" )", Code::kInvalid, "expected the end of the rule"},
      {"root ::= \"a\xFF\"", Code::kInvalid, "not valid UTF-8"},
      {"root ::= root \"a\" | \"b\"", Code::kInvalid, "left recursion: root"},
      {"root ::= x? root | \"b\"\nx ::= \"c\"", Code::kInvalid, "left recursion: root"},
      {"root ::= \"a\" root", Code::kInvalid, "nothing fits"},
      {"root ::= (\"a\"{2000}){2000}", Code::kLimit, " states"},
      {"root ::= \"a\"{2001}", Code::kLimit, "more than 2000"},
      {"root ::= " + std::string(65, '(') + "\"a\"" + std::string(65, ')'), Code::kLimit, "nested deeper than 64"},
      {"root ::= \"" + std::string(kGrammarBytesMax, 'a') + "\"", Code::kLimit, "the limit is"},
  };
  for (const auto& [source, code, message] : cases) {
    const auto made = Grammar::from_gbnf(source);
    EXPECT_EQ(made.status().code(), code) << source.substr(0, 100) << ": " << made.status().message();
    EXPECT_NE(made.status().message().find(message), std::string::npos) << source.substr(0, 100) << ": " << made.status().message();
    EXPECT_EQ(made.status().detail(), code == Code::kLimit ? Detail::kGrammarLimit : Detail::kGrammarError);
  }
}

TEST(Grammar, RefusesSchemasByPointer) {
  const Refusal cases[] = {
      {"{", Code::kInvalid, "not valid JSON at byte"},
      {"3", Code::kInvalid, "an object, true or false"},
      {"false", Code::kInvalid, "nothing fits"},
      {R"({"type":"text"})", Code::kInvalid, "#/type: there is no type \"text\""},
      {R"({"type":"object","type":"array"})", Code::kInvalid, "the member \"type\" twice"},
      {R"({"allOf":[{},{"a~/b":[{"x":1,"x":2}]}]})", Code::kInvalid, "#/allOf/1/a~0~1b/0 has the member \"x\" twice"},
      {R"({"properties":{"a":{"type":"object","required":"b"}}})", Code::kInvalid, "#/properties/a/required: required is a list"},
      {R"({"minLength":-1})", Code::kInvalid, "#/minLength"},
      {R"({"enum":[]})", Code::kInvalid, "#/enum"},
      {R"({"type":"string","enum":[1,2]})", Code::kInvalid, "nothing fits"},
      {R"({"minLength":3,"maxLength":2,"type":"string"})", Code::kInvalid, "nothing fits"},
      {R"({"type":"integer","minimum":0.2,"maximum":0.8})", Code::kInvalid, "nothing fits"},
      {R"({"type":"object","required":["a"],"properties":{"b":{}},"additionalProperties":false})", Code::kInvalid, "nothing fits"},
      {R"({"$ref":"#"})", Code::kInvalid, "leads back to itself"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})", Code::kInvalid, "leads back to itself"},
      {R"({"$ref":"#/$defs/x"})", Code::kInvalid, "there is no #/$defs/x"},
      {R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})", Code::kInvalid, "nothing fits"},
      {R"({"pattern":"(a"})", Code::kInvalid, "#/pattern: a group without"},
      {R"({"pattern":"a**"})", Code::kInvalid, "a quantifier after a quantifier"},
      {R"({"$ref":"other.json"})", Code::kUnsupported, "#/$ref: a $ref to another document"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"string"}]})", Code::kUnsupported, "applies to the same value already"},
      {R"({"allOf":[{"anyOf":[{"$ref":"#"},{"type":"string"}]}]})", Code::kUnsupported, "applies to the same value already"},
      {R"({"a/b":1,"properties":{"x~y":{"contains":{},"maxContains":1}}})", Code::kUnsupported,
       "#/properties/x~0y/maxContains: maxContains"},
      {R"({"not":{}})", Code::kInvalid, "nothing fits"},
      {R"({"type":"string","not":{"type":"string"}})", Code::kInvalid, "nothing fits"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}})", Code::kInvalid, "nothing fits"},
      {R"({"oneOf":[{"type":"number"},{"type":"number"}]})", Code::kInvalid, "nothing fits"},
      {R"({"not":{"uniqueItems":true}})", Code::kUnsupported, "#/not/uniqueItems: the denial of uniqueItems"},
      {R"({"type":"array","items":{"type":"string"},"uniqueItems":true})", Code::kUnsupported, "#/uniqueItems: uniqueItems of other items"},
      {R"({"contains":{},"maxContains":2})", Code::kUnsupported, "#/maxContains: maxContains"},
      {R"({"contains":{},"minContains":2})", Code::kUnsupported, "#/minContains: minContains above 1"},
      {R"({"type":"integer","multipleOf":7001})", Code::kUnsupported, "#/multipleOf: a multipleOf this large"},
      {R"({"format":"idn-hostname"})", Code::kUnsupported, "#/format: format \"idn-hostname\""},
      {R"({"const":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}})", Code::kUnsupported,
       "#/const: a constant object of more than 8"},
      {R"({"type":"object","minProperties":2})", Code::kUnsupported, "minProperties above the number of named members"},
      {R"({"type":"object","propertyNames":{"anyOf":[{"maxLength":3},{"pattern":"x"}]}})", Code::kUnsupported, "propertyNames with anyOf"},
      {R"({"type":"object","dependentRequired":{"a":[1]}})", Code::kInvalid, "a list of names"},
      {R"({"pattern":"(a(?=b))b"})", Code::kUnsupported, "look-around"},
      {R"({"pattern":"(a)\\1"})", Code::kUnsupported, "a back reference"},
      {R"({"pattern":"\\bx"})", Code::kUnsupported, "a word boundary"},
      {R"({"type":"array","minItems":2001})", Code::kLimit, "minItems above 2000"},
      {R"({"pattern":"a{2001}"})", Code::kLimit, "more than 2000"},
      {R"({"pattern":"^(a|b)*a(a|b){200}$"})", Code::kLimit, "#/pattern: patterns whose automata"},
      {R"({"minLength":99999999})", Code::kLimit, "minLength above"},
  };
  for (const auto& [source, code, message] : cases) {
    const auto made = Grammar::from_json_schema(source);
    EXPECT_EQ(made.status().code(), code) << source << ": " << made.status().message();
    EXPECT_NE(made.status().message().find(message), std::string::npos) << source << ": " << made.status().message();
  }
}

TEST(Grammar, TheGuideToTheSchemaRulesHolds) {
  auto takes = [](const char* schema, const char* text) {
    const auto made = Grammar::from_json_schema(schema);
    EXPECT_TRUE(made.is_ok()) << schema << ": " << made.status().message();
    return made.is_ok() && fits(*made.value(), text);
  };
  const char* two = R"({"properties":{"b":{"type":"null"},"a":{"type":"null"}},"required":["a"]})";
  EXPECT_TRUE(takes(two, R"({"b":null,"a":null})"));
  EXPECT_TRUE(takes(two, "{\n  \"b\": null,\n  \"a\": null\n}"));
  EXPECT_FALSE(takes(two, R"({"a":null,"b":null})"));  // the order of properties
  EXPECT_FALSE(takes(two, R"({"a":null,"c":null})"));  // closed where it names properties
  EXPECT_FALSE(takes(two, R"({"a":null,"a":null})"));
  EXPECT_FALSE(takes(two, R"({"a" :null})"));
  EXPECT_FALSE(takes(two, ("{" + std::string(2, ' ') + R"("a":null})").c_str()));  // no white space without an end
  EXPECT_FALSE(takes(R"({"type":"object","properties":{"a":{}},"additionalProperties":true})", R"({"\u0061":1,"a":2})"));
  const char* open = R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":true})";
  EXPECT_TRUE(takes(open, R"({"ab":null,"a":1,"abc":2,"":3})"));
  EXPECT_FALSE(takes(open, R"({"ab":null,"ab":1})"));  // no other member has a name of the listed ones
  EXPECT_FALSE(takes(open, R"({"ab":1})"));
  EXPECT_TRUE(takes(R"({"minLength":2})", R"("\ud83d\ude00\n")"));
  EXPECT_FALSE(takes(R"({"minLength":2})", R"("\ud83d\ude00")"));  // one character
  EXPECT_FALSE(takes("{}", R"("\ud83d")"));
  EXPECT_FALSE(takes("{}", "\"\x01\""));
  EXPECT_FALSE(takes("{}", "\"\xED\xA0\x80\""));  // a surrogate as UTF-8
  EXPECT_FALSE(takes("{}", "01"));
  EXPECT_TRUE(takes(R"({"type":"integer","minimum":-3,"maximum":1e3,"title":"t","x-own":1})", "1000"));
  EXPECT_FALSE(takes(R"({"type":"integer","maximum":1e3})", "1001"));
  EXPECT_FALSE(takes(R"({"type":"number","exclusiveMinimum":0.5})", "0.50"));
  EXPECT_TRUE(takes(R"({"type":"number","exclusiveMinimum":0.5})", "0.500001"));
}

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kMeasured = true;
#else
constexpr bool kMeasured = false;  // time and memory are those of the checks
#endif

// [gate]: a compile ends within a second and 64 MiB; in process time, for other programs run beside.
TEST(Grammar, HostileSourcesEndSoon) {
  auto repeated = [](const std::string& s, int n, const char* between) {
    std::string out;
    for (int i = 0; i < n; ++i) out += (i ? between : "") + s + std::to_string(i) + (s.back() == '"' ? "\"" : "");
    return out;
  };
  std::vector<std::pair<bool, std::string>> sources{{false, "root ::= ((\"a\"{2000}){2000}){2000}"},
                                                    {false, "root ::= (\"a\"{248}){2000}"},
                                                    {false, "root ::= \"w" + repeated("\" | \"w", 60'000, "").substr(4) + "\""},
                                                    {false, "root ::= ([ab]* \"a\" [ab]{2000}){50}"},
                                                    {true, R"({"enum":[)" + repeated("\"", 90'000, ",") + "]}"},
                                                    {true, R"({"enum":[)" + repeated("", 150'000, ",") + "]}"},
                                                    {true, "{\"anyOf\":[" + repeated(R"({"$ref":"#/anyOf/)", 2'000, "\"},") + "\"}]}"},
                                                    {true, R"({"pattern":"^(((((a{2000}){2000}){2000})*)*)*$"})"},
                                                    {true, R"({"pattern":"(a|b)*a(a|b){2000}"})"}};
  std::string nullable = "root ::= r0", deep = "{}";
  for (int i = 0; i < 9'000; ++i) nullable += " r" + std::to_string(i) + "?";
  for (int i = 0; i < 9'000; ++i) nullable += "\nr" + std::to_string(i) + " ::= \"x\" | r" + std::to_string(i + 1);
  sources.emplace_back(false, nullable + "\nr9000 ::= \"y\"*");
  for (int i = 0; i < 62; ++i) deep = "{\"items\":" + deep + ",\"minItems\":3}";
  sources.emplace_back(true, deep);
  for (const auto& [schema, source] : sources) {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    const clock_t begin = clock();
    const auto made = schema ? Grammar::from_json_schema(source) : Grammar::from_gbnf(source);
    const double seconds = static_cast<double>(clock() - begin) / CLOCKS_PER_SEC;
    getrusage(RUSAGE_SELF, &after);
    if (kMeasured) {
      EXPECT_LT(seconds, 1.0) << source.substr(0, 60);
    }
    if (kMeasured) {
      EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << source.substr(0, 60);
    }
    EXPECT_TRUE(made.is_ok() || made.status().code() == Code::kLimit || made.status().code() == Code::kInvalid ||
                made.status().code() == Code::kUnsupported)
        << made.status().message();
  }
}

TEST(GrammarMatcher, MasksEndsAndControlTokens) {
  const auto tokenizer = byte_tokenizer({{"ab", 1}, {"abc", 1}, {"<|im_end|>", 3}, {"<|im_start|>", 3}, {"ab!", 4}});
  const int32_t ab = 256, abc = 257, end = 258, start = 259;
  const auto vocab = GrammarVocab::make(*tokenizer);
  GrammarMatcher m(gbnf("root ::= \"ab\" (\"c\" | \"d\")?"), vocab);
  EXPECT_EQ(count(m.mask()), 3u);  // a, ab, abc
  EXPECT_TRUE(has(m.mask(), 'a') || has(m.mask(), ab));
  EXPECT_TRUE(has(m.mask(), abc));
  EXPECT_FALSE(m.may_end());
  EXPECT_FALSE(m.accept(end));
  EXPECT_FALSE(m.accept(start));
  EXPECT_FALSE(m.accept(-1));
  EXPECT_FALSE(m.accept(1'000'000));
  EXPECT_TRUE(m.accept(ab));
  EXPECT_TRUE(m.may_end());
  EXPECT_FALSE(m.complete());
  EXPECT_TRUE(has(m.mask(), end));
  EXPECT_FALSE(has(m.mask(), start));
  EXPECT_EQ(count(m.mask()), 3u);  // c, d, the end
  EXPECT_FALSE(m.accept(ab));      // and the state is as before
  EXPECT_TRUE(m.accept(end));
  EXPECT_EQ(count(m.mask()), 3u);
}

// The masks of plain runs are a short cut: they must be those that a try of each token gives.
TEST(GrammarMatcher, TheMaskIsWhatAcceptTakes) {
  std::vector<std::pair<std::string, int64_t>> more;
  for (const char* text : {"he", "hello", "a\"", "\",\"", "lo,", "\xC3\x83\xC2\xA9", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "}}"})
    more.emplace_back(text, 1);
  const auto tokenizer = byte_tokenizer(more);
  const auto vocab = GrammarVocab::make(*tokenizer);
  const auto schema = Grammar::from_json_schema(
      R"({"type":"object","properties":{"s":{"type":"string","maxLength":4},"t":{"type":"string","minLength":2},"u":{}}})");
  ASSERT_TRUE(schema.is_ok()) << schema.status().message();
  for (const auto& grammar : {schema.value(), gbnf("root ::= [^x]{0,6} \"x\" | .{2,3} \"q\" [^\\n]*")}) {
    for (const std::string_view text : {R"({"s":"ab\n", "t":"hello)", "ab\xC3\xA9qhelloqq"}) {
      GrammarMatcher m(grammar, vocab);
      std::string so_far;
      for (char c : text) {
        const auto mask = m.mask();
        for (int32_t token = 0; token < static_cast<int32_t>(tokenizer->vocab_size()); ++token) {
          GrammarStates states(grammar->automaton());
          auto at = states.begin();
          for (char b : so_far + std::string(tokenizer->piece(token, false))) {
            if (at != GrammarStates::kDead) at = states.step(at, static_cast<uint8_t>(b));
          }
          ASSERT_EQ(has(mask, token), at != GrammarStates::kDead) << so_far << " then token " << token;
        }
        std::vector<int32_t> id;
        for (int32_t token = 0; token < 256; ++token) {
          if (tokenizer->piece(token, false) == std::string_view(&c, 1)) id.push_back(token);
        }
        if (!m.accept(id.at(0))) break;
        so_far += c;
      }
    }
  }
}

// Exponentially many readings, and rules within rules: a bound that is told, not a hang; an allowed grammar still fits.
TEST(GrammarMatcher, AmbiguityIsBounded) {
  const auto tokenizer = byte_tokenizer({{"aaaaaaaaaaaaaaaa", 1}, {"((((((((", 1}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  std::vector<int32_t> ids;
  ASSERT_TRUE(tokenizer->encode("a(", false, &ids).is_ok());
  for (const char* source :
       {"root ::= x\nx ::= \"a\" y \"b\" | \"a\" z \"c\" | \"d\"\ny ::= x | x x\nz ::= x | x \"e\" | x x x",
        "root ::= \"a\" root root root | \"\"", "root ::= (\"a\"{0,400}){0,400}", "root ::= \"(\" root \")\" | \"a\""}) {
    const clock_t begin = clock();
    GrammarMatcher m(gbnf(source), vocab);
    const int32_t token = source == std::string_view("root ::= \"(\" root \")\" | \"a\"") ? ids[1] : ids[0];
    int taken = 0;
    while (taken < 20'000 && m.status().is_ok() && m.accept(token)) {
      if (taken++ % 64 == 0) {
        EXPECT_TRUE(has(m.mask(), token) || !m.status().is_ok());
      }
    }
    EXPECT_EQ(m.status().code(), Code::kLimit) << source << " after " << taken;
    EXPECT_EQ(m.status().detail(), Detail::kGrammarLimit);
    if (kMeasured) {
      EXPECT_LT(static_cast<double>(clock() - begin) / CLOCKS_PER_SEC, 4.0) << source;
    }
  }
}

}  // namespace
}  // namespace kvrt
