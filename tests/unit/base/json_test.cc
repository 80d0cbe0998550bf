#include "runtime/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace kvrt {
namespace {

using Json = nlohmann::ordered_json;
using Part = JsonReader::Part;

bool accepts(std::string_view text) {
  JsonReader reader(text);
  for (;;) {
    const Part part = reader.next();
    if (part == Part::kEnd || part == Part::kWrong) return part == Part::kEnd;
  }
}

std::string copied(std::string_view text) {
  JsonReader reader(text);
  std::string out;
  append_json_value(&reader, reader.next(), &out);
  EXPECT_EQ(reader.next(), Part::kEnd) << text;
  return out;
}

constexpr const char* kTexts[] = {"null",
                                  " true ",
                                  "false",
                                  "0",
                                  "-0",
                                  "12",
                                  "-12.5e+3",
                                  "1E-2",
                                  "0.0001",
                                  "\"\"",
                                  "[]",
                                  "{}",
                                  "[ ]",
                                  "{ }",
                                  "[1,2 , 3]",
                                  R"({"a":1,"b":[true,{"c":null}],"d":"x"})",
                                  R"("\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00")",
                                  "\"é😀\"",
                                  "[[[[[[]]]]]]",
                                  "9223372036854775807",
                                  "-9223372036854775808",
                                  "18446744073709551615",
                                  "1e15",
                                  "123456789012345.0",
                                  "1e16",
                                  R"({"":"","a b":"\u0000\u001f\u007f"})",
                                  "\xEF\xBB\xBF[1]"};
// Texts that are no JSON, one way each.
constexpr const char* kWrong[] = {"",
                                  " ",
                                  "nul",
                                  "nulll",
                                  "True",
                                  "01",
                                  "-",
                                  "+1",
                                  ".5",
                                  "1.",
                                  "1e",
                                  "1e+",
                                  "0x1",
                                  "--1",
                                  "[",
                                  "]",
                                  "[1",
                                  "[1,",
                                  "[1,]",
                                  "[,1]",
                                  "[1 2]",
                                  "{",
                                  "}",
                                  "{\"a\"",
                                  "{\"a\":",
                                  "{\"a\":1",
                                  "{\"a\":1,",
                                  "{\"a\":1,}",
                                  "{a:1}",
                                  "{1:1}",
                                  "{\"a\" 1}",
                                  "{\"a\":1 \"b\":2}",
                                  "[}",
                                  "{]",
                                  "\"",
                                  "\"a",
                                  "\"\\",
                                  "\"\\x\"",
                                  "\"\\u12\"",
                                  "\"\\u12g4\"",
                                  "\"\\ud800\"",
                                  "\"\\udc00\"",
                                  "\"\\ud800\\u0041\"",
                                  "\"\\ud800x\"",
                                  "\"\t\"",
                                  "\"\n\"",
                                  "\"\x80\"",
                                  "\"\xC0\x80\"",
                                  "\"\xED\xA0\x80\"",
                                  "\"\xF4\x90\x80\x80\"",
                                  "\"\xE2\x82\"",
                                  "1 2",
                                  "{} []",
                                  "'a'",
                                  "NaN",
                                  "Infinity",
                                  "/**/1",
                                  "\xEF\xBB",
                                  "\"\\u+123\"",
                                  "\"\\u-123\"",
                                  "\xC2\xA0"
                                  "1"};

TEST(Json, TextsOfEachKind) {
  for (const std::string_view text : kTexts) {
    ASSERT_TRUE(accepts(text)) << text;
    EXPECT_EQ(copied(text), Json::parse(text).dump()) << text;
  }
  for (const std::string_view text : kWrong) {
    EXPECT_FALSE(accepts(text)) << text;
    EXPECT_FALSE(Json::accept(text)) << text;
  }
  EXPECT_FALSE(accepts(std::string_view("[1]\0", 4)));
  EXPECT_FALSE(accepts(std::string_view("\"\0\"", 3)));
}

// The same texts are JSON as nlohmann says, and say the same.
TEST(Json, MutatedTexts) {
  std::mt19937 random(3);
  const std::string_view alphabet = "[]{},:\"\\0123456789.eE+-truefalsn \t\n\x80\xC3\xE2ud";
  size_t good = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string text = kTexts[random() % std::size(kTexts)];
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % (text.size() + 1);
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0 || at == text.size()) {
        text.insert(at, 1, c);
      } else if (random() % 2 == 0) {
        text.erase(at, 1);
      } else {
        text[at] = c;
      }
    }
    const Json want = Json::parse(text, nullptr, false);
    std::string out;
    JsonReader reader(text);
    append_json_value(&reader, reader.next(), &out);
    const bool ours = reader.next() == Part::kEnd;
    if (text.find_first_of("eE") != std::string::npos && ours && want.is_discarded()) continue;  // 1e999: JSON, and no double
    ASSERT_EQ(ours, !want.is_discarded()) << text;
    if (!ours) continue;
    ++good;
    ASSERT_EQ(Json::parse(out), want) << text << " became " << out;
  }
  EXPECT_GT(good, 5'000u);
}

TEST(Json, Parts) {
  JsonReader reader(R"({"k":[1.50,"\u0041b"],"e":{}})");
  EXPECT_EQ(reader.next(), Part::kObject);
  EXPECT_EQ(reader.next(), Part::kKey);
  EXPECT_EQ(reader.text(), "k");
  EXPECT_EQ(reader.next(), Part::kArray);
  EXPECT_EQ(reader.depth(), 2u);
  EXPECT_EQ(reader.next(), Part::kNumber);
  EXPECT_EQ(reader.text(), "1.50");
  EXPECT_EQ(reader.next(), Part::kString);
  EXPECT_EQ(reader.text(), "Ab");
  EXPECT_EQ(reader.next(), Part::kArrayEnd);
  EXPECT_EQ(reader.next(), Part::kKey);
  EXPECT_EQ(reader.next(), Part::kObject);
  EXPECT_EQ(reader.next(), Part::kObjectEnd);
  EXPECT_EQ(reader.next(), Part::kObjectEnd);
  EXPECT_EQ(reader.depth(), 0u);
  EXPECT_EQ(reader.next(), Part::kEnd);
  EXPECT_EQ(reader.next(), Part::kEnd);
}

TEST(Json, IntegersOfAnyLengthKeepTheirDigits) {
  for (const std::string& text :
       {std::string("18446744073709551616"), std::string("-9223372036854775809"), std::string(400, '7'), "-1" + std::string(99, '0')})
    EXPECT_EQ(copied(text), text);
}

TEST(Json, WrongIsAtItsByteAndStays) {
  for (const auto& [text, at] : {std::pair<const char*, size_t>{"{\"a\":x}", 6}, {"[1,2", 5}, {"\"ab\xFF\"", 4}, {"", 1}}) {
    JsonReader reader(text);
    Part part;
    do part = reader.next();
    while (part != Part::kWrong && part != Part::kEnd);
    EXPECT_EQ(part, Part::kWrong);
    EXPECT_EQ(reader.at(), at) << text;
    EXPECT_EQ(reader.next(), Part::kWrong);
    EXPECT_EQ(reader.at(), at) << text;
  }
}

TEST(Json, WritesStrings) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text :
       {all, std::string("\xE2\x82 \xE2\x82"), std::string("\xF0\x9F\x98\x80\xF0\x9F\x98"), std::string("\xC2\"\xA9")}) {
    std::string out;
    append_json_string(text, &out);
    EXPECT_EQ(out, Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

TEST(Json, WritesNumbers) {
  const auto written = [](double number) {
    std::string out;
    append_json_real(number, &out);
    return out;
  };
  for (const double number : {0.0, -0.0, 1.0, 0.1, 1e-4, 1e-5, 9.99e-5, 1e14, 123456789012345.0, 999999999999999.0, 1e15, 1e16, 1e22,
                              1e-300, 1e300, 5e-324, double{0.1f}, double{1e-6f}, -2.5}) {
    EXPECT_EQ(written(number), Json(number).dump());
  }
  EXPECT_EQ(written(NAN), "null");
  EXPECT_EQ(written(INFINITY), "null");
  std::mt19937_64 random(5);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t bits = random();
    double number;
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    EXPECT_EQ(Json::parse(written(number)).get<double>(), number);
    EXPECT_LE(written(number).size(), Json(number).dump().size());  // the shortest
  }
}

TEST(Json, DeepTextsNeedNoStack) {
  const std::string deep(5'000'000, '[');
  JsonReader reader(deep);
  Part part;
  do part = reader.next();
  while (part == Part::kArray);
  EXPECT_EQ(part, Part::kWrong);
  EXPECT_EQ(reader.depth(), deep.size());
}

}  // namespace
}  // namespace kvrt
