// The template interpreter held against Jinja2 (tests/golden/template_cases.py), and its limits.
#include "runtime/text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
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
  options.tools_json = tools;
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
      {"{% macro f() %}{% endmacro %}", "line 1, column 4: statement \"macro\""},
      {"x\n {% include 'a' %}", "line 2, column 5: statement \"include\""},
      {"{{ 'a'|wordwrap }}", "line 1, column 8: filter \"wordwrap\""},
      {"{{ 1 is sameas 1 }}", "column 9: test \"sameas\""},
      {"{{ 2 ** 3 }}", "operator **"},
      {"{{ '%s' % 1 }}", "formatting with %"},
      {"{{ 'a'.zfill(3) }}", "the method str.zfill"},
      {"{{ strftime_now('%Y') }}", "strftime_now"},
      {"{{ 'é'.upper() }}", "not ASCII"},
      {"{{ messages|map(attribute='role') }}", "printing a generator"},
  };
  for (auto [source, part] : cases) {
    auto result = render(source, "[]");
    EXPECT_EQ(result.status().code(), Code::kUnsupported) << source << ": " << result.status().message();
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  }
}

TEST(Template, HostileOnesEndSoon) {
  std::string parens = "{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", nots = "{{ ", ifs,
              minuses = "{{ " + std::string(9000, '-') + "1 }}";
  for (int i = 0; i < 5000; ++i) nots += "not ";
  for (int i = 0; i < 5000; ++i) ifs += "{% if 1 %}";
  const std::string cases[] = {
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "{{ 'x' * 1000000000000 }}",
      "{{ [1] * 1000000000000 }}",
      "{% for i in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(10000) %}{{ s.replace('a', 'bb')|length }}{% endfor %}",
      "{% set s = 'a' * 3000000 %}{% for i in range(90000) %}{% set t = s.split('a') %}{% endfor %}",
      "{% set s = 'a' * 1000000 %}{% for i in range(10000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
      parens,
      nots + "1 }}",
      ifs,
      minuses,
  };
  for (const std::string& source : cases) {
    auto begin = std::chrono::steady_clock::now();
    auto result = render(source, "[]");
    auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_EQ(result.status().code(), Code::kLimit) << source.substr(0, 90) << ": " << result.status().message();
    EXPECT_EQ(result.status().detail(), Detail::kTemplateLimit) << source.substr(0, 90);
    EXPECT_LT(ms, 5000) << source.substr(0, 90);  // far less when optimized; sanitizers and a busy machine are slow
  }
}

TEST(Template, Arguments) {
  EXPECT_EQ(*render("{{ tools[0].name }}", "[]", R"([{"name":"f"}])"), "f");
  for (const char* bad : {"{}", "[1]", "[", "", "[{]", "[{\"a\":\"\\ud800\"}]", "[{\"a\":\"\xff\"}]", "[] x", "null"}) {
    EXPECT_EQ(render("x", bad).status().code(), Code::kInvalid) << bad;
  }
  EXPECT_EQ(render("x", std::string(100, '[')).status().code(), Code::kLimit);
  EXPECT_EQ(render("\xff", "[]").status().code(), Code::kInvalid);
}

TEST(Template, NormalizeMessage) {
  EXPECT_EQ(*normalize_message(" { \"role\" : \"user\", \"content\": \"h\\u00e9\\n\", \"role\":\"b\", \"x\": [1, 2.50, null, {}] } "),
            "{\"role\":\"b\",\"content\":\"h\xc3\xa9\\n\",\"x\":[1,2.5,null,{}]}");
  for (const char* bad : {"[]", "{}", "{\"role\":1}", "{\"role\":\"a\"", "", "\"role\""})
    EXPECT_EQ(normalize_message(bad).status().code(), Code::kInvalid) << bad;
}

}  // namespace
}  // namespace kvrt
