// JSON schemas by facts: texts that an answer may be, and texts that it may not. What is invalid by the standard is in the second list; what
// is valid there and not written (json_schema.h says which) is in the third.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

struct Fact {
  const char* schema;
  std::vector<const char*> valid, invalid, unwritten{};
};

void check(std::span<const Fact> facts, SchemaMembers members = SchemaMembers::kClosed) {
  for (const Fact& fact : facts) {
    const auto made = Grammar::from_json_schema(fact.schema, members);
    ASSERT_TRUE(made.is_ok()) << fact.schema << ": " << made.status().message();
    for (const char* text : fact.valid) EXPECT_TRUE(fits(*made.value(), text)) << fact.schema << " on " << text;
    for (const char* text : fact.invalid) EXPECT_FALSE(fits(*made.value(), text)) << fact.schema << " on " << text;
    for (const char* text : fact.unwritten) EXPECT_FALSE(fits(*made.value(), text)) << fact.schema << " on " << text;
  }
}

TEST(Schema, Choices) {
  const Fact facts[] = {
      {R"({"oneOf":[{"type":"number"},{"type":"integer"}]})", {"1.5", "-0.25"}, {"1", "\"a\""}, {"1.0"}},
      {R"({"oneOf":[{"type":"string","minLength":2},{"type":"string","maxLength":3}]})", {"\"a\"", "\"abcd\""}, {"\"ab\"", "\"abc\""}},
      {R"({"oneOf":[{"pattern":"^a"},{"pattern":"b$"}],"type":"string"})", {"\"ax\"", "\"xb\"", "\"a\""}, {"\"ab\"", "\"axb\"", "\"x\""}},
      {R"({"type":"object","properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})"},
       {"{}", R"({"a":1,"b":1})"}},
      {R"({"oneOf":[{"enum":[1,2]},{"enum":[2,3]}]})", {"1", "3"}, {"2", "4"}},
      {R"({"oneOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":"integer"}}]})",
       {R"(["a"])", "[1,2]"},
       {"[]", R"([1,"a"])"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}}},{"type":"object","properties":{"k":{"const":2}}}]})",
       {R"({"k":1})", R"({"k":2})"},
       {"{}", R"({"k":3})"}},
      {R"({"anyOf":[{"type":"integer"},{"minimum":2}]})", {"1", "2.5", "3"}, {"1.5"}},
      {R"({"not":{"type":["string","null","array","object"]}})", {"1", "true", "2.5"}, {"null", "\"a\"", "[]", "{}"}},
      {R"({"type":"string","not":{"enum":["a","b"]}})", {"\"c\"", "\"\"", "\"ab\""}, {"\"a\"", "\"b\""}},
      {R"({"type":"integer","not":{"const":5},"minimum":0})", {"4", "6", "55"}, {"5", "-1"}},
      {R"({"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}})",
       {"{}", R"({"a":1})", R"({"b":1})"},
       {R"({"a":1,"b":2})"}},
      {R"({"type":"string","not":{"pattern":"\\d"}})", {"\"abc\""}, {"\"a1\"", "\"\u0661\""}},
      {R"({"not":{"not":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{}},"if":{"properties":{"a":{"const":1}},"required":["a"]},
           "then":{"required":["b"]},"else":{"properties":{"b":{"type":"string"}}}})",
       {R"({"a":1,"b":2})", R"({"a":2})", R"({"a":2,"b":"x"})", "{}"},
       {R"({"a":1})", R"({"a":2,"b":2})"}},
      {R"({"allOf":[{"if":{"const":1},"then":false},{"if":{"const":2},"then":false}],"type":"integer","minimum":0,"maximum":3})",
       {"0", "3"},
       {"1", "2"}},
  };
  check(facts);
}

TEST(Schema, TypesThatKeywordsImply) {
  const Fact facts[] = {
      {R"({"contains":false})", {"1", "null", "{}", "\"a\""}, {"[]", "[1]"}},
      {R"({"minItems":3,"maxItems":2})", {"true", R"({"a":[]})"}, {"[]", "[1,2,3]"}},
      {R"({"prefixItems":[false],"minItems":1})", {"1"}, {"[]", "[1]"}},  // [] is too short, too
      {R"({"required":["a"],"properties":{"a":false}})", {"[{}]", "1"}, {"{}", R"({"a":1})"}},
      {R"({"pattern":"^a$","minLength":2})", {"1", "[]"}, {"\"a\"", "\"aa\""}},
      {R"({"minimum":5,"maximum":4})", {"\"a\"", "null"}, {"5", "4.5"}},
      {R"({"items":{"minimum":5,"maximum":4},"minItems":1})", {R"(["a"])", "[null]"}, {"[]", "[5]"}, {"1"}},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"minItems":1,"items":{"$ref":"#/$defs/a"}}}})", {"1", "[1,[{}]]"}, {"[]", "[[]]"}},
      {R"({"type":"object","properties":{"a":{"contains":false}},"required":["a"]})", {R"({"a":1})"}, {R"({"a":[1]})"}},
      {R"({"minLength":1})", {"\"a\""}, {"\"\""}, {"1", "[]"}},
  };
  check(facts);
  EXPECT_EQ(Grammar::from_json_schema(R"({"type":"array","contains":false})").status().code(), Code::kInvalid);
  EXPECT_EQ(Grammar::from_json_schema(R"({"contains":false,"not":{"type":["string","number","null","boolean","object"]}})").status().code(),
            Code::kInvalid);
}

// What an if evaluates is no longer unevaluated where it holds, though it asks for nothing by itself.
TEST(Schema, WhatAnIfEvaluates) {
  const Fact facts[] = {
      {R"({"if":{"prefixItems":[{"const":"a"}]},"unevaluatedItems":false,"type":"array"})",
       {"[]", R"(["a"])"},
       {R"(["b"])", R"(["a","a"])"}},
      {R"({"prefixItems":[true],"if":{"prefixItems":[{"const":1},true]},"unevaluatedItems":false,"type":"array"})",
       {"[1,2]", "[2]", "[1]"},
       {"[2,2]", "[1,2,3]"}},
      {R"({"allOf":[{"if":{"prefixItems":[{"const":"a"}]}}],"unevaluatedItems":{"type":"null"},"type":"array"})",
       {R"(["a",null])", "[null]"},
       {R"(["b"])"}},
      {R"({"if":{"properties":{"a":{"const":1}},"required":["a"]},"unevaluatedProperties":false,"type":"object"})",
       {"{}", R"({"a":1})"},
       {R"({"a":2})", R"({"b":1})"}},
  };
  check(facts);
}

// A denial does not hold because of a denial that holds because of it, nor because a way out of it is not written.
TEST(Schema, DenialsHoldBySomethingElse) {
  const Fact facts[] = {
      {R"({"type":"integer","minimum":1,"maximum":2,"not":{"oneOf":[{"const":1,"required":["x"]}]}})", {"2"}, {"1"}},
      {R"({"type":"string","pattern":"^a?$","not":{"allOf":[{"enum":[""],"required":["a"]}]}})", {"\"a\""}, {"\"\""}},
      {R"({"type":"string","pattern":"^a?$","not":{"anyOf":[{"enum":[""],"required":["a"]}]}})", {"\"a\""}, {"\"\""}},
      {R"({"type":"string","pattern":"^a?$","not":{"anyOf":[{"const":"","minItems":1},{"const":"","minItems":1}]}})", {"\"a\""}, {"\"\""}},
      {R"({"type":"string","pattern":"^a?$","oneOf":[{},{"oneOf":[{"enum":[""],"required":["a"]}]}]})", {"\"a\""}, {"\"\""}},
      {R"({"type":["array","null"],"oneOf":[true,{"pattern":"a","anyOf":[{"maxLength":2,"enum":[[]]}]}]})", {"null", "[1]"}, {"[]"}},
      {R"({"type":["array","null"],"not":{"anyOf":[{"type":"array","not":{"propertyNames":false,"minItems":1}}]}})",
       {"null", "[1]"},
       {"[]"}},
      {R"({"type":"boolean","not":{"const":true}})", {"false"}, {"true"}},
  };
  check(facts);
}

TEST(Schema, Members) {
  const Fact facts[] = {
      {R"({"patternProperties":{"^x-":{"type":"string"},"^n":{"type":"integer"}},"additionalProperties":false})",
       {"{}", R"({"x-a":"b","n":1})", R"({"n1":2,"x-":""})"},
       {R"({"x-a":1})", R"({"n":"a"})", R"({"y":1})"}},
      {R"({"properties":{"a":{"type":"integer"}},"patternProperties":{"a":{"minimum":3},"b":{"type":"null"}}})",
       {R"({"a":3})", R"({"a":4,"b":null})", R"({"a":3,"ab":null})"},
       {R"({"a":2})", R"({"b":1})", R"({"ab":5})"}},
      {R"({"patternProperties":{"^\\w$":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
       {R"({"a":1,"bb":null})"},
       {R"({"a":null})", R"({"bb":1})"},
       {"{\"\u00fc\":1}", "{\"\u00fc\":null}"}},
      {R"({"type":"object","propertyNames":{"maxLength":2,"pattern":"^[a-z]+$"}})", {R"({"ab":1})", "{}"}, {R"({"abc":1})", R"({"A":1})"}},
      {R"({"type":"object","propertyNames":{"enum":["a","b"]}})", {R"({"a":1})", R"({"a":1,"b":2})"}, {R"({"c":1})"}},
      {R"({"properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","minProperties":1,"additionalProperties":{"type":"null"}})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}"}},
      {R"({"type":"object","maxProperties":1})", {"{}", R"({"a":1})"}, {R"({"a":1,"b":1})"}},
      {R"({"type":"object","maxProperties":0})", {"{}"}, {R"({"a":1})"}},
      // A name may come twice: two of them are no second member.
      {R"({"properties":{"a":{}},"additionalProperties":{},"minProperties":2})", {R"({"a":1,"b":2})"}, {R"({"b":1,"b":2})", R"({"a":1})"}},
      {R"({"properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})", {"{}", R"({"b":1})", R"({"a":1,"b":1})"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{},"b":{}},"dependencies":{"a":{"properties":{"b":{"type":"string"}},"required":["b"]}}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":"x"})"},
       {R"({"a":1})", R"({"a":1,"b":1})"}},
      {R"({"allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false})",
       {R"({"b":1,"a":1})", "{}"},
       {R"({"c":1})"}},
      {R"({"type":"object","allOf":[{"properties":{"a":{}}},{"unevaluatedProperties":false}]})", {"{}"}, {R"({"a":1})"}},
  };
  check(facts);
  const Fact open[] = {
      {R"({"properties":{"a":{"type":"null"}}})", {R"({"a":null,"b":1})", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"type":"null"}},"additionalProperties":false})", {R"({"a":null})"}, {R"({"b":1})"}},
      {R"({"type":"object"})", {R"({"a":1,"a":2})"}, {"1"}},
      {R"({"patternProperties":{"^x":{"type":"null"}}})", {R"({"x":null,"b":1})"}, {R"({"x":1})"}},
  };
  check(open, SchemaMembers::kOpen);
}

// RFC 5321: an address has at most 254 characters, of which 64 stand before the @.
TEST(Schema, FormatsWithLengths) {
  const auto quoted = [](const std::string& text) { return '"' + text + '"'; };
  const std::string b60(60, 'b'), c60(60, 'c');
  const std::string long_address = quoted(std::string(64, 'a') + "@" + b60 + "." + c60 + ".example.com");
  const std::string too_long_part = quoted(std::string(65, 'a') + "@example.com");
  const std::string address_128 = quoted("ann@" + b60 + "." + c60 + ".de"), host_121 = quoted(b60 + "." + c60);
  const Fact facts[] = {
      {R"({"type":"string","format":"email"})", {"\"ann@example.com\"", long_address.c_str()}, {"\"ann\"", too_long_part.c_str()}},
      {R"({"type":"string","format":"email","maxLength":254})", {"\"ann@example.com\"", long_address.c_str()}, {"\"ann\""}},
      {R"({"type":"string","format":"email","minLength":6,"maxLength":254})", {"\"ann@example.com\""}, {"\"a@b.c\""}},
      {R"({"type":"string","format":"email","maxLength":100})",
       {"\"ann.lee+1@example.com\""},
       {address_128.c_str(), too_long_part.c_str()}},
      {R"({"type":"string","format":"email","maxLength":30})", {"\"ann@example.com\""}, {"\"ann.lee@a.very.long.example.com\""}},
      {R"({"type":"string","format":"hostname","maxLength":20})", {"\"example.com\""}, {"\"a.long.example.com.au\""}},
      {R"({"type":"string","format":"hostname","maxLength":100})", {"\"example.com\""}, {host_121.c_str()}},
      {R"({"type":"string","format":"hostname","minLength":4,"maxLength":253})", {"\"example.com\"", host_121.c_str()}, {"\"a.b\""}},
  };
  check(facts);
}

TEST(Schema, StringsAndFormats) {
  const Fact facts[] = {
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})", {"\"ab\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "\"A1\""}},
      {R"({"type":"string","anyOf":[{"not":{"format":"x"}},{"pattern":"everything"}]})", {"\"everything\""}, {"\"nothing\""}},
      {R"({"type":"string","pattern":"b","maxLength":2})", {"\"b\"", "\"ab\"", "\"bx\""}, {"\"abx\"", "\"a\""}},
      {R"({"allOf":[{"pattern":"^a"},{"pattern":"z$"}],"type":"string"})", {"\"az\"", "\"a-z\""}, {"\"a\"", "\"z\""}},
      {R"({"type":"string","pattern":"^(?!aws:)[a-z:]+$"})", {"\"aw\"", "\"xaws:\""}, {"\"aws:\"", "\"aws:x\""}},
      {R"({"type":"string","pattern":"^[a-z-]+(?<!-)$"})", {"\"a-b\""}, {"\"a-\""}},
      {R"-({"type":"string","pattern":"^(a|b$|^c)"})-", {"\"ax\"", "\"b\"", "\"cx\""}, {"\"bx\"", "\"x\""}},
      {R"({"type":"string","format":"date","pattern":"^2024"})", {"\"2024-02-29\""}, {"\"2023-02-28\"", "\"2024-02-30\""}},
      {R"({"type":"string","format":"uri","maxLength":12})", {"\"a:b\"", "\"http://a.de/\""}, {"\"http://a.com/b\""}},
      {R"({"type":"string","enum":["a","bb"],"maxLength":1})", {"\"a\""}, {"\"bb\""}},
      {R"({"type":"string","enum":["2024-01-01","x"],"format":"date"})", {"\"2024-01-01\""}, {"\"x\""}},
      {R"({"oneOf":[{"format":"ipv4"},{"format":"ipv6"}],"type":"string"})", {"\"127.0.0.1\"", "\"::1\""}, {"\"x\""}},
      {R"({"type":"string","format":"uri"})",
       {"\"http://localhost:11434/api\"", "\"https://a.org/a%20b\"", "\"mailto:a@b\"", "\"urn:isbn:0451450523\"",
        "\"http://[::1]:80/?q=(a)#f\""},
       {"\"localhost\"", "\"http://a b/\"", "\"http://a/%2\"", "\"//a/b\"", "\"\"", "\"http://\u00fc/\""}},
      {R"({"type":"string","format":"uri-reference"})", {"\"../a\"", "\"#f\"", "\"\"", "\"//a/b\""}, {"\"a b\"", "\"\\\\a\""}},
      {R"({"type":"string","format":"iri"})", {"\"http://\u00fc/\u4e2d\""}, {"\"\u00fc\""}},
      {R"({"type":"string","format":"email"})",
       {"\"anna.maria.smith@mail.co.uk\"", "\"o'brien@x.org\"", "\"a+b@localhost\""},
       {"\"a@b@c\"", "\".a@b\"", "\"a..b@c\"", "\"a@\"", "\"a b@c\""}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"2001:db8::1\"", "\"::\"", "\"::ffff:1.2.3.4\"", "\"1:2:3:4:5:6:7:8\""},
       {"\"1:2:3\"", "\"1::2::3\"", "\":1:2:3:4:5:6:7:8\"", "\"12345::\""}},
      {R"({"type":"string","format":"duration"})",
       {"\"P1Y2M3DT4H5M6S\"", "\"PT36H\"", "\"P4W\""},
       {"\"P\"", "\"PT\"", "\"P1Y1W\"", "\"1D\""}},
      {R"({"type":"string","format":"json-pointer"})", {"\"\"", "\"/a~0/b~1\""}, {"\"a\"", "\"/~2\"", "\"/~\""}},
      {R"({"type":"string","format":"regex"})", {"\"^a(b|c)*\\\\d{2}$\"", "\"[^x]+\""}, {"\"(\"", "\"a**\"", "\"[\""}},
      {R"({"type":"string","format":"hostname"})", {"\"a-b.s3.eu-west-1.amazonaws.com\""}, {"\"-a\"", "\"a-\"", "\"a..b\"", "\"a_b\""}},
      {R"({"type":"string","format":"hostname"})",
       {"\"xn--4gbwdl.xn--wgbh1c\"", "\"www.xn--bcher-kva.example\"", "\"xn--mnchen-ost-9db.a.b.c.d.e.xn--p1ai\"", "\"a.xn--fiqs8s\""},
       {"\"xn--\"", "\"xn--x\"", "\"xn--bcher-\"", "\"xn--99zz9\"", "\"ab--cdef\"", "\"xn---abc\""},
       {"\"xn--a--bcd\""}},
  };
  check(facts);
}

TEST(Schema, NumbersArraysConstants) {
  const Fact facts[] = {
      {R"({"type":"integer"})",
       {"123456789012345678", "1234567890123456789", "-10000000000000000000000000000000000000000", "0"},
       {"0123456789012345678", "110000000000000000000000000000000000000000.5", "--1"}},
      {R"({"type":"number"})",
       {"-10000000000000000000000000000000000000000", "123456789012345678e5"},
       {"00", "-"},
       {"10000000000000000000000000000000000000000.5", "10000000000000000000000000000000000000000e5"}},
      {R"({})", {"10000000000000000000000000000000000000000", "[-10000000000000000000000000000000000000000]"}, {}},
      {R"({"type":"integer","minimum":9223372036854775808})",
       {"9223372036854775808", "10000000000000000000000000000000000000000"},
       {"9223372036854775807", "-10000000000000000000000000000000000000000", "1"}},
      {R"({"type":"integer","maximum":10000000000000000000000000000000000000000})",
       {"10000000000000000000000000000000000000000", "9", "-10000000000000000000000000000000000000000",
        "-910000000000000000000000000000000000000000"},
       {"10000000000000000000000000000000000000001", "100000000000000000000000000000000000000000"}},
      {R"({"type":"integer","minimum":5,"not":{"enum":[7,10000000000000000000000000000000000000000]}})",
       {"6", "8", "10000000000000000000000000000000000000001", "100000000000000000000000000000000000000000"},
       {"7", "10000000000000000000000000000000000000000", "4"}},
      {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700000000000000000"}, {"1", "8", "-15"}},
      {R"({"type":"number","multipleOf":0.01})", {"19.99", "0.1", "3", "-2.5"}, {"0.001", "1.005"}},
      {R"({"type":"number","multipleOf":0.5,"exclusiveMinimum":1,"maximum":3})", {"1.5", "2", "3.0"}, {"1", "1.0", "3.5", "1.25"}},
      {R"({"allOf":[{"multipleOf":4},{"multipleOf":6}],"type":"integer","minimum":1,"maximum":30})", {"12", "24"}, {"4", "6", "18"}},
      {R"({"type":"number","minimum":0})", {"1.5e-07", "2e10", "0"}, {"-1e5", "-0.1"}},
      {R"({"type":"number","minimum":-1,"maximum":1})", {"9.9e-1", "-1e-9", "1"}, {"1e1", "1.1"}},
      {R"({"type":"number","minimum":2})", {"2", "2.5"}, {"1e0", "1.5"}, {"3e4"}},
      {R"({"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":3,"exclusiveMinimum":true})", {"4"}, {"3"}},
      {R"({"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"(["a"])", R"([1,"a",2])"}},
      {R"({"type":"array","contains":{"const":5},"items":{"type":"integer"}})", {"[5]", "[1,5,2]"}, {"[]", "[1]"}},
      {R"({"type":"array","items":{"type":"integer"},"not":{"items":{"minimum":3}}})", {"[1]", "[5,2]"}, {"[]", "[3,4]"}},
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
       {R"(["a"])", R"(["c","a","b"])"},
       {"[]", R"(["a","a"])", R"(["a","b","a"])"}},
      {R"({"type":"array","items":{"enum":[1,2,3,4,5,6,7,8,9]},"uniqueItems":true,"maxItems":2})",
       {"[]", "[1,9]"},
       {"[1,1]", "[1,2,3]"},
       {"[9,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"unevaluatedItems":false})", {"[]", "[null]"}, {"[null,1]"}},
      {R"({"const":{"a":1,"b":[{"c":2,"d":3}]}})",
       {R"({"a":1,"b":[{"d":3,"c":2}]})", R"({"b":[{"c":2,"d":3}],"a":1})"},
       {"{}", R"({"a":1})", R"({"a":1,"a":1,"b":[]})"}},
      {R"({"enum":[[],{},1,"a"],"not":{"type":"string"}})", {"[]", "{}", "1"}, {"\"a\""}},
      {R"({"$id":"http://x.org/a","$defs":{"n":{"$id":"n","type":"null"},"s":{"$anchor":"s","type":"string"}},"anyOf":[{"$ref":"n"},{"$ref":"#s"}]})",
       {"null", "\"a\""},
       {"1"}},
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"integer"}},"properties":{"x":{"$ref":"#/definitions/a","minimum":5}}})",
       {R"({"x":1})"},
       {R"({"x":"a"})"}},
  };
  check(facts);
}

// A schema that has answers of which none is written is not called one that nothing fits.
TEST(Schema, WhatIsNotWrittenIsNamed) {
  std::string patterns;
  for (char c = 'a'; c < 'm'; ++c) patterns += std::string(patterns.empty() ? "" : ",") + R"({"pattern":")" + c + "\"}";
  const std::pair<std::string, Code> facts[] = {
      {R"({"type":"string","allOf":[)" + patterns + "]}", Code::kLimit},
      {R"({"type":"number","minimum":1e15})", Code::kUnsupported},
      {R"({"type":"number","exclusiveMinimum":9007199254740992})", Code::kUnsupported},
      {R"({"type":"integer","multipleOf":5,"minimum":9223372036854775808})", Code::kUnsupported},
      {R"({"type":"number","maximum":-1e15})", Code::kUnsupported},
      {R"({"type":"number","multipleOf":1e-300})", Code::kUnsupported},
      {R"({"type":"number","multipleOf":0})", Code::kInvalid},
      {R"({"type":"number","minimum":2,"maximum":1})", Code::kInvalid},
      {R"({"type":"object","properties":{"a":{}},"minProperties":2})", Code::kUnsupported},
  };
  for (const auto& [schema, code] : facts) {
    const auto made = Grammar::from_json_schema(schema);
    EXPECT_EQ(made.status().code(), code) << schema << ": " << made.status().message();
  }
  const Fact open[] = {
      {R"({"type":"object","properties":{"a":{"type":"null"}},"minProperties":2})", {R"({"a":null,"b":1})"}, {R"({"a":null})"}}};
  check(open, SchemaMembers::kOpen);
}

}  // namespace
}  // namespace kvrt
