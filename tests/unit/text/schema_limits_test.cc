// JSON schemas at the compiler's limits: LIMIT, within bounds of time and memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/grammar/grammar.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

// What would take for ever ends with LIMIT, or is taken, within a second of the processor.
TEST(SchemaLimits, OptionalMembersAreLimited) {
  const auto object = [](int count, const char* more) {
    std::string schema = R"({"type":"object","properties":{)";
    for (int i = 0; i < count; ++i) schema += (i ? ",\"f" : "\"f") + std::to_string(i) + R"(":{"type":"boolean"})";
    return schema + "}" + more + "}";
  };
  const auto refused = Grammar::from_json_schema(object(1001, ""), SchemaMembers::kClosed);
  EXPECT_EQ(refused.status().code(), Code::kLimit);
  EXPECT_NE(refused.status().message().find("more than 1000 members that are not required"), std::string::npos)
      << refused.status().message();
  const auto tokenizer = byte_tokenizer({});
  const auto made = Grammar::from_json_schema(object(1000, ""), SchemaMembers::kClosed);
  ASSERT_TRUE(made.is_ok());
  GrammarMatcher matcher(made.value(), GrammarVocab::make(*tokenizer));
  for (char c : std::string(R"({"f7": true, "f999": false})")) {
    ASSERT_TRUE(has(matcher.mask(), static_cast<unsigned char>(c)) && matcher.accept(static_cast<unsigned char>(c))) << c;
  }
  EXPECT_TRUE(matcher.complete() && matcher.status().is_ok());
}

// What is denied is denied, or the schema is refused.
TEST(SchemaLimits, DenialsOfManyCharactersAreRefused) {
  std::string texts, names;
  for (int i = 0; i < 5'000; ++i) texts += (i ? ",\"" : "\"") + std::string(16, 'x') + std::to_string(1'000 + i) + "\"";
  for (int i = 0; i < 900; ++i) names += (i ? ",\"" : "\"") + std::string(120, 'x') + std::to_string(i) + "\":{}";
  for (const std::string& source :
       {R"({"type":"string","not":{"enum":[)" + texts + "]}}",
        R"({"type":"object","additionalProperties":true,"propertyNames":{"minLength":1},"properties":{)" + names + "}}"}) {
    const auto made = Grammar::from_json_schema(source);
    EXPECT_EQ(made.status().code(), Code::kLimit) << source.substr(0, 60);
    EXPECT_NE(made.status().message().find("constants or names of more than 100000 characters"), std::string::npos)
        << made.status().message();
  }
}

TEST(SchemaLimits, HostileSchemasEnd) {
  auto repeated = [](const std::string& one, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) {
      out += i ? "," : "";
      for (char c : one) out += c == '@' ? std::to_string(i) : std::string(1, c);
    }
    return out;
  };
  auto letters = [](int n) {  // different ones, none beside another; fewer than 0: from the last on
    std::string out;
    for (int i = n < 0 ? -n - 1 : 0; n < 0 ? i >= 0 : i < n; i += n < 0 ? -1 : 1)
      append_code_point(static_cast<char32_t>(i < 19'000 ? 0x4000 + 2 * i : 0x10000 + 2 * i), &out);
    return out;
  };
  std::string nested = "{}";
  for (int i = 0; i < 16; ++i) nested = R"({"allOf":[)" + nested + "," + nested + "]}";
  const std::string sources[] = {
      R"({"type":"object","oneOf":[)" + repeated(R"({"properties":{"a@":{"const":@},"b":{"minLength":@}}})", 100) + "]}",
      R"({"type":"object","allOf":[)" + repeated(R"({"if":{"properties":{"k":{"const":@}}},"then":{"required":["x@"]}})", 120) + "]}",
      R"({"type":"object","dependentRequired":{)" + repeated(R"("a@":["b@"])", 40) + "}}",
      R"({"type":"object","patternProperties":{)" + repeated(R"("^(a|b)*a(a|b){1@}$":{"type":"null"})", 6) + "}}",
      R"({"type":"string","allOf":[)" + repeated(R"({"pattern":"(a|b)*a(a|b){@}"})", 20) + "]}",
      R"({"type":"string","pattern":"^([^:]{1,90}:){1,90}$","minLength":2000,"maxLength":4000})",
      R"({"type":"integer","allOf":[)" + repeated(R"({"multipleOf":9@})", 10) + "]}",
      R"({"not":{"allOf":[)" + repeated(R"({"not":{"anyOf":[{"required":["a@"]},{"required":["b@"]}]}})", 60) + "]}}",
      R"({"type":"array","items":{"enum":[)" + repeated("@", 2'000) + R"(]},"uniqueItems":true,"maxItems":1500})",
      R"({"enum":[)" + repeated("\"a@\"", 30'000) + R"(],"allOf":[)" + repeated(R"({"pattern":"^a.*@"})", 30) + "]}",
      R"({"anyOf":[)" + repeated(R"({"anyOf":[{"$ref":"#/anyOf/@"},{"type":"null"}]})", 200) + "]}",
      R"({"allOf":[)" + repeated(R"({"minimum":@})", 55'000) + "]}",
      R"({"type":"object","allOf":[)" + repeated(R"({"properties":{"a@":{}}})", 30'000) + "]}",
      R"({"type":"object","propertyNames":{"enum":[)" + repeated(R"("a@")", 80'000) + "]}}",
      R"({"uniqueItems":true,"const":[)" + repeated("@", 140'000) + "]}",
      R"({"enum":[")" + std::string(500'000, 'a') + R"("],"allOf":[)" + repeated(R"({"pattern":"(a*a*){1,30}@$"})", 1'000) + "]}",
      R"({"allOf":[{"type":"string"},)" + repeated(R"({"$ref":"#/allOf/@"})", 40'000) + "]}",
      nested,
      R"({"type":"object","propertyNames":{"pattern":"^(?:a{2000}){9}$","minLength":80000}})",
      R"({"pattern":")" + letters(99'000) + "\"}",
      R"({"type":"string","pattern":"^[)" + letters(60'000) + "]*$\"}",
      R"({"type":"string","pattern":"[)" + letters(-90'000) + "]\"}",
      R"({"type":"string","not":{"enum":[")" + letters(50'000) + "\"]}}",
      R"({"$id":")" + std::string(200'000, 'a') + R"(","$defs":{)" + repeated(R"("a@":{"$anchor":"a@"})", 1'500) + "}}",
      R"({"$id":")" + std::string(200'000, 'a') + R"(","allOf":[)" + repeated(R"({"$anchor":"a@","$ref":"#a1499"})", 1'500) + "]}",
      R"({"properties":{")" + std::string(200'000, 'a') + R"(":{"anyOf":[)" + repeated(R"({"minLength":@})", 2'000) + "]}}}",
  };
  for (const std::string& source : sources) {
    [[maybe_unused]] rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    [[maybe_unused]] const clock_t begin = clock();
    const auto made = Grammar::from_json_schema(source);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(static_cast<double>(clock() - begin) / CLOCKS_PER_SEC, 1.0) << source.substr(0, 100);
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << source.substr(0, 100);
#endif
    EXPECT_TRUE(made.is_ok() || made.status().code() == Code::kLimit || made.status().code() == Code::kUnsupported ||
                made.status().code() == Code::kInvalid)
        << made.status().message();
    if (made.status().code() == Code::kLimit) {
      EXPECT_EQ(made.status().detail(), Detail::kGrammarLimit);
    }
  }
}

}  // namespace
}  // namespace kvrt
