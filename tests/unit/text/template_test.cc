// The template interpreter held against Jinja2 (tests/golden/template_cases.py), and its limits.
#include "runtime/text/template/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace kvrt {
namespace {

Result<std::string> render(std::string_view source, std::string_view messages, std::string_view tools = "") {
  KVRT_ASSIGN(auto parsed, ChatTemplate::parse(source));
  TemplateOptions options;
  options.add_generation_prompt = true;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.arguments.tools = tools;
  return parsed->render(messages, options);
}

TEST(Template, EqualsJinja2) {
  std::ifstream file(KVRT_SOURCE_DIR "/tests/golden/template_cases.json");
  auto golden = nlohmann::ordered_json::parse(file);
  std::string messages = golden["messages"].dump();
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const auto& c : golden["cases"]) {
    auto source = c["template"].get<std::string>();
    auto result = render(source, messages);
    if (c.contains("error")) {
      auto why = c["error"].get<std::string>();
      Code code = why.rfind("OverflowError", 0) == 0 ? Code::kLimit : Code::kInvalid;
      EXPECT_EQ(result.status().code(), code) << source << "\n" << why << "\n" << (result.is_ok() ? *result : result.status().message());
      EXPECT_NE(result.status().message().find("template line "), std::string::npos) << source;
    } else {
      ASSERT_TRUE(result.is_ok()) << source << "\n" << result.status().message();
      EXPECT_EQ(*result, c["expected"].get<std::string>()) << source;
    }
  }
}

TEST(Template, WhatIsNotSupportedIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"x\n {% include 'a' %}", "line 2, column 5: statement \"include\""},
      {"{% block a %}{% endblock %}", "line 1, column 4: statement \"block\""},
      {"{{ 'a'|wordwrap }}", "line 1, column 8: filter \"wordwrap\""},
      {"{{ 1 is sameas 1 }}", "column 9: test \"sameas\" of int"},
      {"{{ 2 ** 64 }}", "an integer beyond 64 bits"},
      {"{{ messages[0].n + 1 }}", "an integer beyond 64 bits"},
      {"{{ -messages[0].n }}", "an integer beyond 64 bits"},
      {"{{ messages[0].n is odd }}", "an integer beyond 64 bits"},
      {"{{ '%x' % messages[0].n }}", "an integer beyond 64 bits"},
      {"{{ 'a'.encode() }}", "column 8: str \"encode\""},
      {"{{ strftime_now('%G') }}", "strftime_now(\"%G\")"},
      {"{{ 'é'.isalpha() }}", "str.isalpha of text that is not ASCII"},
      {"{{ messages|map(attribute='role') }}", "printing a generator"},
      {"{{ ('%s'|e) % 'b' }}", "operator % of escaped text"},
      {"{{ cycler(1) }}", "function \"cycler\""},
  };
  for (auto [source, part] : cases) {
    auto result = render(source, R"([{"role": "user", "n": 18446744073709551616}])");
    EXPECT_EQ(result.status().code(), Code::kUnsupported) << source << ": " << result.status().message();
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  }
}

TEST(Template, ErrorsSayWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for m in messages %}\n\n{{ m.a.b.c }}{% endfor %}", "line 3, column 8: 'a' is undefined"},
      {"{% if x %}\n{% endfor %}", "line 2, column 4: unknown or misplaced statement \"endfor\""},
      {"{{ raise_exception('roles must\\nalternate') }}", "the template raised: roles must\nalternate"},
      {"{% macro f(a) %}\n  {{ a + 1 }}{% endmacro %}\n{{ f('x') }}", "line 2, column 10: unsupported operands of +: str and int"},
      {"{{ 1|nope }}", "column 6: there is no filter \"nope\""},
  };
  for (auto [source, part] : cases) {
    auto result = render(source, R"([{"role":"user"}])");
    EXPECT_EQ(result.status().code(), Code::kInvalid) << source << ": " << result.status().message();
    EXPECT_EQ(result.status().detail(), Detail::kTemplateError) << source;
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  }
}

TEST(Template, Variables) {
  auto parsed = ChatTemplate::parse("{{ documents[0].t }}{{ enable_thinking }}{{ bos_token }}{{ strftime_now('%d %b %Y %H:%M') }}");
  ASSERT_TRUE(parsed.is_ok());
  setenv("TZ", "UTC", 1);
  TemplateOptions options;
  options.bos_token = "<s>";
  options.arguments.documents = R"([{"t":"D"}])";
  options.arguments.variables = R"({"enable_thinking":false,"bos_token":"<b>"})";
  options.arguments.now = 1753100000;
  EXPECT_EQ(*(*parsed)->render("[]", options), "DFalse<b>21 Jul 2025 12:13");
  for (const char* bad : {"[]", "1", "{", "{\"messages\":[]}", "{\"tools\":1}"}) {
    options.arguments.variables = bad;
    EXPECT_EQ((*parsed)->render("[]", options).status().code(), Code::kInvalid) << bad;
    EXPECT_EQ(normalize_arguments(options.arguments).status().code(), Code::kInvalid) << bad;
  }
  options.arguments.variables = "";
  options.arguments.documents = "{}";
  EXPECT_EQ((*parsed)->render("[]", options).status().code(), Code::kInvalid);
}

TEST(Template, Arguments) {
  EXPECT_EQ(*render("{{ tools[0].name }}", "[]", R"([{"name":"f"}])"), "f");
  for (const char* bad : {"{}", "[1]", "[", "", "[{]", "[{\"a\":\"\\ud800\"}]", "[{\"a\":\"\xff\"}]", "[] x", "null"}) {
    EXPECT_EQ(render("x", bad).status().code(), Code::kInvalid) << bad;
  }
  EXPECT_EQ(render("x", std::string(100, '[')).status().code(), Code::kLimit);
  EXPECT_EQ(render("\xff", "[]").status().code(), Code::kInvalid);
}

// tests/golden/template_calls.py holds the text of every template against Jinja2's.
TEST(Template, ArgumentsOfCallsAreObjectsOrStrings) {
  const auto said = [](const std::string& arguments) {
    return R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" + arguments + "}}]}]";
  };
  const std::string each = "{% for m in messages %}{% for c in m.tool_calls %}{% set a = c.function.arguments %}",
                    end = "{% endfor %}{% endfor %}";
  struct {
    const char *body, *object, *odd;  // the text for an object, and for a string that is none
  } const cases[] = {
      {"{{ a|tojson }}", R"({"x": 1, "y": "\"é"})", R"("{\"x")"},
      {"{{ a if a is string else a|tojson(separators=(',', ':')) }}", R"({"x":1,"y":"\"é"})", R"({"x)"},
      {"{{ 'a: ' + a + '.' }}", R"(a: {"x": 1, "y": "\"é"}.)", R"(a: {"x.)"},
      {"{{ 'a: ' ~ a|trim }}", R"(a: {"x": 1, "y": "\"é"})", R"(a: {"x)"},
      {"{{ a.strip() }}", R"({"x": 1, "y": "\"é"})", R"({"x)"},
      {"{% for k, v in a|items %}{{ k }}={{ v }};{% endfor %}", "x=1;y=\"é;", "arguments={\"x;"},
      {"{% if a is mapping %}{% for k in a %}{{ k }}={{ a[k] }};{% endfor %}{% endif %}", "x=1;y=\"é;", "arguments={\"x;"},
      {"{% if a is not mapping %}{{ raise_exception('an object') }}{% endif %}{{ a.items()|list|length }}", "2", "1"},
      {"call", "call", "call"},
  };
  for (const auto& c : cases) {
    const std::string source = each + c.body + end;
    EXPECT_EQ(*render(source, said(R"({"x": 1, "y": "\"é"})")), c.object) << c.body;
    EXPECT_EQ(*render(source, said(R"("{\"x\":1, \"y\": \"\\\"é\"}")")), c.object) << c.body;
    EXPECT_EQ(*render(source, said(R"("{\"x")")), c.odd) << c.body;
  }
  for (const char* nothing : {"null", "\"\"", "\" \\n\"", "{}", "\"{}\""})
    EXPECT_EQ(*render(each + "{{ a|tojson }}" + end, said(nothing)), "{}") << nothing;
  // An error of the template's own is told as it was.
  const auto refused = render("{{ raise_exception('no') }}", said("\"{\""));
  EXPECT_NE(refused.status().message().find("the template raised: no"), std::string::npos);
  // Deep ones count with what is around them.
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += "[";
  deep = R"("{\"a\":)" + deep + std::string(60, ']') + R"(}")";
  EXPECT_TRUE(render(each + "{{ a|tojson }}" + end, said(deep)).is_ok());
}

TEST(Template, SameMessage) {
  const auto message = [](const std::string& arguments) {
    return *normalize_message(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" + arguments + "}}]}");
  };
  EXPECT_TRUE(same_message(message(R"({"x": 1, "y": [2]})"), message(R"("{\"y\": [2], \"x\": 1}")")));
  EXPECT_FALSE(same_message(message(R"({"x": 1})"), message(R"("{\"x\": 2}")")));
  EXPECT_FALSE(same_message(message(R"({"x": 18446744073709551616})"), message(R"({"x": 18446744073709551617})")));
  EXPECT_FALSE(same_message(message(R"("{")"), message(R"({"arguments": "{"})")));
  EXPECT_EQ(message(R"("{\"n\": 123456789012345678901}")"),
            R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"n\": 123456789012345678901}"}}]})");
  EXPECT_EQ(message("[123456789012345678901, -0]"),
            R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[123456789012345678901,0]}}]})");
}

TEST(Template, NormalizeMessage) {
  EXPECT_EQ(*normalize_message(" { \"role\" : \"user\", \"content\": \"h\\u00e9\\n\", \"role\":\"b\", \"x\": [1, 2.50, null, {}] } "),
            "{\"role\":\"b\",\"content\":\"h\xc3\xa9\\n\",\"x\":[1,2.5,null,{}]}");
  for (const char* bad : {"[]", "{}", "{\"role\":1}", "{\"role\":\"a\"", "", "\"role\""})
    EXPECT_EQ(normalize_message(bad).status().code(), Code::kInvalid) << bad;
}

}  // namespace
}  // namespace kvrt
