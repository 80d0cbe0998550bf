// Arguments of calls as the families' templates write them: which the grammar of a tool's schema takes. What walks make and what the
// reply parser reads of it is held against jsonschema in tests/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "runtime/text/reply/family.h"
#include "runtime/text/reply/tools.h"
#include "tests/support/arguments_rig.h"

namespace kvrt {
namespace {

const reply::Family& family_of(std::string_view name) {
  for (const reply::Family& family : reply::families())
    if (family.name == name) return family;
  ADD_FAILURE() << "no family " << name;
  return reply::families()[0];
}

struct Vocab {
  explicit Vocab(bool controls) : tokenizer(rig::marks_tokenizer(controls)), vocab(GrammarVocab::make(*tokenizer)) {}
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const GrammarVocab> vocab;
};

// The call's arguments as they are read; "": the grammar does not take the text; else why.
std::string read(std::string_view family, const std::string& parameters, std::string_view text, bool controls) {
  static const Vocab vocabs[] = {Vocab(false), Vocab(true)};
  const Vocab& v = vocabs[controls];
  rig::CallWalk walk(*v.tokenizer, family_of(family), parameters);
  const Status made = walk.compile(v.vocab);
  if (!made.is_ok()) return made.message();
  if (!walk.accepts(text)) return "";
  const auto parts = walk.read(walk.call(walk.tokens(text)));
  if (parts.size() != 1 || parts[0].kind != ReplyPart::Kind::kToolCall) return "no call";
  constexpr std::string_view kBefore = R"({"name":"f","arguments":)";
  const std::string call = parts[0].text.substr(kBefore.size());
  return call.substr(0, call.find(",\"id\":") == call.npos ? call.size() - 1 : call.find(",\"id\":"));
}

void expect(std::string_view family, const std::string& parameters, std::string_view text, const std::string& arguments) {
  for (bool controls : {false, true})
    EXPECT_EQ(read(family, parameters, text, controls), arguments) << family << (controls ? ", control tokens: " : ": ") << text;
}

const char* const kWeather = R"({"type": "object", "required": ["city"], "properties": {
  "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
  "tags": {"type": "array", "items": {"type": "string"}},
  "opts": {"type": "object", "properties": {"unit": {"enum": ["c", "f"]}, "deep": {"type": ["number", "null"]}}}}})";
const char* const kRead = R"({"city":"Zürich \"<b>\" it's","days":-3,"exact":true,"tags":["a","1"],"opts":{"unit":"f","deep":null}})";

TEST(Arguments, AsTemplatesWriteThem) {
  const std::string json =
      R"({"city": "Zürich \"<b>\" it's", "days": -3, "exact": true, "tags": ["a", "1"], "opts": {"unit": "f", "deep": null}})";
  for (const reply::Family& family : reply::families())
    if (family.written.arguments == reply::WrittenCalls::Arguments::kJson && family.name != "Mistral")  // its ids follow
      expect(family.name, kWeather, json, kRead);
  expect("LFM2", kWeather, R"(city="Zürich \"<b>\" it's", days=-3, exact=True, tags=['a', '1'], opts={"unit": "f", "deep": null})", kRead);
  expect("LFM2", kWeather, R"(city='Zürich "<b>" it\'s', days=-3, exact=True, tags=["a", "1"], opts={'unit': 'f', 'deep': None})", kRead);
  expect("Gemma", kWeather, R"(city="x")", R"({"city":"x"})");
  expect("Gemma 4", kWeather,
         R"({city:<|"|>Zürich "<b>" it's<|"|>,days:-3,exact:true,tags:[<|"|>a<|"|>,<|"|>1<|"|>],opts:{unit:<|"|>f<|"|>,deep:null}})",
         kRead);
  expect("Qwen3-Coder", kWeather,
         "<parameter=city>\nZürich \"<b>\" it's\n</parameter>\n<parameter=days>\n-3\n</parameter>\n<parameter=exact>\ntrue\n</parameter>\n"
         "<parameter=tags>\n[\"a\", \"1\"]\n</parameter>\n<parameter=opts>\n{\"unit\": \"f\", \"deep\": null}\n</parameter>\n",
         kRead);
  expect("GLM", kWeather,
         "<arg_key>city</arg_key>\n<arg_value>Zürich \"<b>\" it's</arg_value>\n<arg_key>days</arg_key>\n<arg_value>-3</arg_value>\n"
         "<arg_key>exact</arg_key>\n<arg_value>true</arg_value>\n<arg_key>tags</arg_key>\n<arg_value>[\"a\", \"1\"]</arg_value>\n"
         "<arg_key>opts</arg_key>\n<arg_value>{\"unit\": \"f\", \"deep\": null}</arg_value>\n",
         kRead);
  expect("DeepSeek V4", kWeather,
         "<｜DSML｜parameter name=\"city\" string=\"true\">Zürich \"<b>\" it's</｜DSML｜parameter>\n"
         "<｜DSML｜parameter name=\"days\" string=\"false\">-3</｜DSML｜parameter>\n"
         "<｜DSML｜parameter name=\"exact\" string=\"false\">true</｜DSML｜parameter>\n"
         "<｜DSML｜parameter name=\"tags\" string=\"false\">[\"a\", \"1\"]</｜DSML｜parameter>\n"
         "<｜DSML｜parameter name=\"opts\" string=\"false\">{\"unit\": \"f\", \"deep\": null}</｜DSML｜parameter>\n",
         kRead);
  expect("Kimi K3", kWeather,
         "<|open|>argument key=\"city\" type=\"string\"<|sep|>Zürich \"<b>\" it's<|close|>argument<|sep|>"
         "<|open|>argument key=\"days\" type=\"number\"<|sep|>-3<|close|>argument<|sep|>"
         "<|open|>argument key=\"exact\" type=\"boolean\"<|sep|>true<|close|>argument<|sep|>"
         "<|open|>argument key=\"tags\" type=\"array\"<|sep|>[\"a\", \"1\"]<|close|>argument<|sep|>"
         "<|open|>argument key=\"opts\" type=\"object\"<|sep|>{\"unit\": \"f\", \"deep\": null}<|close|>argument<|sep|>",
         kRead);
  expect("MiniMax M3", kWeather,
         "]<]minimax[>[<city>Zürich \"<b>\" it's]<]minimax[>[</city>]<]minimax[>[<days>-3]<]minimax[>[</days>]<]minimax[>[<exact>true"
         "]<]minimax[>[</exact>]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[<item>1]<]minimax[>[</item>"
         "]<]minimax[>[</tags>]<]minimax[>[<opts>]<]minimax[>[<unit>f]<]minimax[>[</unit>]<]minimax[>[<deep>null]<]minimax[>[</deep>"
         "]<]minimax[>[</opts>",
         kRead);
  expect("MiniCPM", kWeather,
         "<param name=\"city\"><![CDATA[Zürich \"<b>\" it's]]></param><param name=\"days\">-3</param><param name=\"exact\">true</param>"
         "<param name=\"tags\">[\"a\", \"1\"]</param><param name=\"opts\">{\"unit\": \"f\", \"deep\": null}</param>",
         kRead);
  for (const reply::Family& family : reply::families()) {  // a tool without arguments
    const bool object = family.written.arguments == reply::WrittenCalls::Arguments::kJson || family.name == "Gemma 4";
    if (family.name != "Mistral") expect(family.name, "", object ? "{}" : "", "{}");
    expect(family.name, "", object ? "{\"a\":1}" : "a", "");
  }
}

// In every order that there is, each once, and the required ones all. tests/golden/arguments_orders.py has random schemas.
TEST(Arguments, MembersComeInAnyOrder) {
  const std::string parameters = R"({"type": "object", "required": ["ab", "b"], "properties": {
    "a": {"type": "integer"}, "ab": {"type": "integer"}, "b": {"type": "integer"}, "o": {"properties": {"x": {"const": 1}, "y": {"const": 2}}}}})";
  std::vector<std::string> members{R"("a": 1)", R"("ab": 2)", R"("b": 3)", R"("o": {"y": 2, "x": 1})"};
  std::ranges::sort(members);
  do {
    std::string text, compact;
    for (const std::string& member : members) text += (text.empty() ? "{" : ", ") + member;
    for (char c : text + "}")
      if (c != ' ') compact += c;
    EXPECT_EQ(read("Hermes", parameters, text + "}", false), compact);
    EXPECT_EQ(read("Hermes", parameters, text + ", " + members[2] + "}", false), "");
  } while (std::ranges::next_permutation(members).found);
  expect("Hermes", parameters, R"({"b": 3, "ab": 2})", R"({"b":3,"ab":2})");
  expect("Hermes", parameters, R"({"b": 3})", "");
  expect("Hermes", parameters, R"({"b": 3, "a": 1})", "");
  expect("Hermes", parameters, R"({"b": 3, "ab": 2, "\u0061": 1})", "");  // a name in another spelling
  expect("Hermes", parameters, R"({"b": 3, "ab": 2, "o": {"y": 2, "y": 2}})", "");
  expect("LFM2", parameters, "o={'y': 2, \"x\": 1}, b=3, ab=2", R"({"o":{"y":2,"x":1},"b":3,"ab":2})");
  expect("LFM2", parameters, "b=3, ab=2, o={'y': 2, \"y\": 2}", "");
  expect("Gemma 4", parameters, "{o:{y:2,x:1},b:3,ab:2}", R"({"o":{"y":2,"x":1},"b":3,"ab":2})");
  expect("Qwen3-Coder", parameters, "<parameter=b>\n3\n</parameter>\n<parameter=ab>\n2\n</parameter>\n", R"({"b":3,"ab":2})");
  expect("Qwen3-Coder", parameters, "<parameter=b>\n3\n</parameter>\n<parameter=b>\n2\n</parameter>\n", "");
}

TEST(Arguments, OtherMembersComeAnywhere) {
  const std::string parameters =
      R"({"type": "object", "required": ["b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "additionalProperties": {"type": "boolean"}, "minProperties": 3, "maxProperties": 4})";
  expect("Hermes", parameters, R"({"c": true, "b": 1, "a": 2})", R"({"c":true,"b":1,"a":2})");
  expect("Hermes", parameters, R"({"c": true, "aa": false, "a": 1, "b": 2})", R"({"c":true,"aa":false,"a":1,"b":2})");
  expect("Hermes", parameters, R"({"b": 1, "c": true})", "");
  expect("Hermes", parameters, R"({"c": true, "d": true, "e": true})", "");  // b and one of the listed would be too many
  expect("Hermes", parameters, R"({"a": true, "b": 1, "c": true})", "");
  expect("Hermes", parameters, R"({"a": 1, "b": 1, "c": true, "d": true, "e": true})", "");
}

// Python's other quote is for names that are known: it does not come where none of them may.
TEST(Arguments, AnotherMemberBehindAllThatAreKnown) {
  const std::string parameters =
      R"({"type": "object", "properties": {"o": {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}}})";
  const Vocab v(false);
  rig::CallWalk walk(*v.tokenizer, family_of("LFM2"), parameters);
  ASSERT_TRUE(walk.compile(v.vocab).is_ok());
  EXPECT_TRUE(walk.accepts(R"(o={'a': 1, "b": 2})"));
  for (const char* text : {"o={", "o={'a': 1, ", "o={\"b\": 1, "})
    EXPECT_EQ(walk.may_follow(text, '\''), std::string(text) != "o={'a': 1, ");
}

TEST(Arguments, MoreMembersThanAreKeptComeInOrder) {
  for (int count : {64, 65}) {
    std::string properties, forth, back;
    for (int i = 0; i < count; ++i) {
      const std::string name = "\"n" + std::to_string(i) + "\":", one = name + std::to_string(i);
      properties += (i ? "," : "") + name + R"({"type":"integer"})";
      forth += (i ? "," : "") + one;
      back = one + (i ? "," : "") + back;
    }
    const std::string parameters = R"({"type":"object","properties":{)" + properties + "}}";
    expect("Hermes", parameters, "{" + forth + "}", "{" + forth + "}");
    expect("Hermes", parameters, "{" + back + "}", count == 64 ? "{" + back + "}" : "");
    expect("Hermes", parameters, "{" + back + ",\"n7\":7}", "");
  }
}

// A member that nothing fits does not come, and no mask leads to it; nor do members that cannot all come.
TEST(Arguments, MembersThatNothingFits) {
  const std::string never = R"({"allOf": [{"type": "integer"}, {"type": "string"}]})";
  const std::string parameters = R"({"type": "object", "properties": {"a": {"type": "integer"}, "ab": )" + never + "}";
  expect("Hermes", parameters + "}", R"({"a": 1})", R"({"a":1})");
  expect("Hermes", parameters + "}", R"({"a": 1, "ab": 1})", "");
  EXPECT_NE(read("Hermes", parameters + R"(, "required": ["ab"]})", "", false).find("nothing fits it"), std::string::npos);
  EXPECT_NE(read("Hermes", parameters + R"(, "minProperties": 2})", "", false).find("nothing fits it"), std::string::npos);
  EXPECT_NE(read("Hermes", R"({"type": "object", "required": ["a", "b"], "maxProperties": 1, "additionalProperties": true})", "", false)
                .find("nothing fits it"),
            std::string::npos);
  const std::string tree = R"({"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}},
    "type": "object", "properties": {"n": {"$ref": "#/$defs/n"}, "m": {"type": "integer"}}})";
  expect("Hermes", tree, R"({"m": 1})", R"({"m":1})");
  expect("Hermes", tree, R"({"n": {"n": {}}})", "");
}

std::string value(const std::string& schema, const std::string& text) {
  const std::string parameters = R"({"type": "object", "properties": {"p": )" + schema + R"(}, "required": ["p"]})";
  return read("Seed-OSS", parameters, "<parameter=p>" + text + "</parameter>\n", false);
}

// What a tag's text is read as must fit.
TEST(Arguments, TextsThatAreReadAsOtherTypes) {
  const std::string any = R"({"anyOf": [{"type": "string", "maxLength": 9}, {"type": "integer", "minimum": 100}]})";
  EXPECT_EQ(value(any, "100"), R"({"p":100})");
  EXPECT_EQ(value(any, "99"), "");
  EXPECT_EQ(value(any, "x99"), R"({"p":"x99"})");
  EXPECT_EQ(value(any, "9.5"), R"({"p":"9.5"})");
  EXPECT_EQ(value(any, "9.0"), "");
  EXPECT_EQ(value(any, "null"), R"({"p":"null"})");
  EXPECT_EQ(value(R"({"type": "string"})", "99"), R"({"p":"99"})");
  EXPECT_EQ(value(R"({"type": "string"})", "a</parameter>b"), "");
  EXPECT_EQ(value(R"({"type": "string", "nullable": true})", "null"), "");
  EXPECT_EQ(value(R"({"type": ["string", "null"]})", "null"), R"({"p":null})");
  EXPECT_EQ(value(R"({"type": ["string", "null"]})", "None"), R"({"p":null})");
  EXPECT_EQ(value(R"({"type": "boolean"})", "True"), R"({"p":true})");
  EXPECT_EQ(value(R"({"type": ["string", "boolean"]})", "False"), R"({"p":false})");
  EXPECT_EQ(value(R"({"type": "string"})", "None"), R"({"p":"None"})");
  EXPECT_EQ(value(R"({"type": "object", "properties": {"a": {"type": "array"}}})", "{'a': ['it', \"it's\", True]}"),
            R"({"p":{"a":["it","it's",true]}})");
  EXPECT_EQ(value(R"({"type": ["string", "array"]})", "['a']"), R"({"p":["a"]})");
  EXPECT_EQ(value(R"({"type": "array"})", "['</parameter>']"), "");
  EXPECT_EQ(value(R"({"enum": ["5", "x", 6]})", "5"), "");
  EXPECT_EQ(value(R"({"enum": ["5", "x", 6]})", "6"), R"({"p":6})");
  EXPECT_EQ(value(R"({"type": "array", "items": {"type": "string"}})", R"(["</parameter>"])"), "");
  EXPECT_EQ(value(R"({"type": "array", "items": {"type": "string"}})", R"(["<\/parameter>\u00e9"])"), R"({"p":["</parameter>é"]})");
  EXPECT_EQ(value(R"({"type": "string", "maxLength": 300})", std::string(300, 'x')), R"({"p":")" + std::string(300, 'x') + R"("})");
  EXPECT_EQ(value(R"({"type": "string", "maxLength": 300})", std::string(301, 'x')), "");
  EXPECT_NE(value(R"({"type": "string", "const": "</parameter>"})", "x").find("would not read as it is is not supported"),
            std::string::npos);
}

TEST(Arguments, NamesThatCallsCannotHave) {
  const char* const parameters = R"({"type": "object", "properties": {"a b": {"type": "integer"}}})";
  EXPECT_NE(read("LFM2", parameters, "", false).find("\"a b\" as the name of a member"), std::string::npos);
  expect("Gemma 4", parameters, "{a b:1}", R"({"a b":1})");
  expect("Qwen3-Coder", parameters, "<parameter=a b>\n1\n</parameter>\n", R"({"a b":1})");
  EXPECT_NE(read("Qwen3-Coder", R"({"properties": {"<a>": {}}})", "", false).find("\"<a>\" as the name"), std::string::npos);
  expect("Kimi K3", R"({"properties": {"a\"&b": {"type": "integer"}}})",
         "<|open|>argument key=\"a&quot;&amp;b\" type=\"number\"<|sep|>1<|close|>argument<|sep|>", R"({"a\"&b":1})");
}

TEST(Arguments, LooseOnesHaveTheTypesOfMembers) {
  const std::string loose = loose_parameters(R"({"$defs": {"n": {"type": ["integer", "null"]}}, "properties": {
    "n": {"$ref": "#/$defs/n"}, "s": {"type": "string", "pattern": "\\bx"}, "\"": {}, "o": {"properties": {"p": {}}}}, "required": ["s"]})");
  EXPECT_EQ(loose, R"({"type":"object","additionalProperties":true,"properties":{"n":{"type":["null","integer"]},)"
                   R"("s":{"type":["string"]},"\"":{},"o":{"type":["object"]}}})");
  EXPECT_EQ(loose_parameters("[1"), R"({"type":"object","additionalProperties":true,"properties":{}})");
  const std::string parameters = R"({"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}})";
  expect("MiniMax M3", loose_parameters(parameters), "]<]minimax[>[<s>12]<]minimax[>[</s>]<]minimax[>[<n>12]<]minimax[>[</n>",
         R"({"s":"12","n":12})");
  expect("Hermes", loose_parameters(parameters), R"({"s": "12", "x": [{}]})", R"({"s":"12","x":[{}]})");
}

// Each of the branches has all of them as branches: looked at one by one, they have no end.
TEST(Arguments, BranchesThatReferToEachOther) {
  const std::string ref = R"({"$ref":"#/properties/x"})";
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    std::string x = std::string("{\"") + keyword + "\":[" + ref;
    for (int i = 0; i < 3; ++i) x += "," + ref;
    const std::string parameters = R"({"type":"object","properties":{"x":)" + x + "]}}}";
    const clock_t begin = clock();
    EXPECT_EQ(loose_parameters(parameters), R"({"type":"object","additionalProperties":true,"properties":{"x":{}}})");
    const ReplyTools tools(R"([{"name":"f","parameters":)" + parameters + "}]");
    const reply::ArgumentSchema schema = tools.arguments("f").property("x");
    EXPECT_EQ(schema.types(), reply::ArgumentSchema::kUnknown);
    EXPECT_EQ(schema.property("y").id(), nullptr);
    EXPECT_EQ(schema.items().id(), nullptr);
    (void)read("Qwen3-Coder", parameters, "", false);
    EXPECT_LT(clock() - begin, CLOCKS_PER_SEC / 2) << keyword;
  }
}

TEST(Arguments, SchemasOfOneBuilder) {
  const Vocab v(false);
  GrammarBuilder builder("tools");
  const uint32_t root = builder.add_rule("root");
  std::vector<GrammarBuilder::Part> calls;
  for (const char* name : {"a", "b"}) {
    const std::string parameters = std::string(R"({"type": "object", "properties": {")") + name + R"(": {"type": "string"}}})";
    const auto rule = add_arguments(family_of("Hermes").written, parameters, *v.vocab, &builder);
    ASSERT_TRUE(rule.is_ok());
    calls.push_back(builder.call(rule.value()));
  }
  builder.define(root, builder.choice(calls));
  auto automaton = builder.build();
  ASSERT_TRUE(automaton.is_ok());
  const auto masks = GrammarMasks::make(std::make_shared<const Grammar>(std::move(automaton).value()), v.vocab);
  for (const char* text : {R"({"a": "x"})", R"({"b": "x"})"}) {
    GrammarMatcher matcher(masks);
    for (const char* c = text; *c; ++c) ASSERT_TRUE(matcher.accept(static_cast<unsigned char>(*c))) << text;
    EXPECT_TRUE(matcher.complete());
  }
}

}  // namespace
}  // namespace kvrt
