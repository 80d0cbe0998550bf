// The tokenizer on small vocabularies made here; the real one is held against PyPI tokenizers in tests/golden.
#include "runtime/text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>

#include "runtime/base/limits.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/pretokenizer.h"

namespace kvrt {
namespace {

// All bytes, then the merges' results, then the others.
struct Vocab {
  explicit Vocab(std::vector<std::string> merges_, std::vector<std::pair<std::string, int64_t>> added = {}) : merges(std::move(merges_)) {
    for (int b = 0; b < 256; ++b) append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &tokens.emplace_back());
    for (const std::string& m : merges) {
      size_t space = m.find(' ', 1);
      tokens.push_back(m.substr(0, space) + m.substr(space + 1));
    }
    types.assign(tokens.size(), 1);
    for (auto& [text, type] : added) {
      tokens.push_back(text);
      types.push_back(type);
    }
  }
  VocabSource source() const {
    VocabSource s;
    s.model = "gpt2";
    s.pre = "gpt-2";
    s.tokens.assign(tokens.begin(), tokens.end());
    s.types = types;
    s.merges.assign(merges.begin(), merges.end());
    return s;
  }
  std::vector<std::string> tokens, merges;
  std::vector<int64_t> types;
};

std::unique_ptr<Tokenizer> make(const VocabSource& source) {
  auto made = Tokenizer::create(source);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return std::move(made).value();
}
std::unique_ptr<Tokenizer> make(const Vocab& vocab) { return make(vocab.source()); }

std::vector<std::string> pieces(const Tokenizer& t, std::string_view text, bool special = false) {
  std::vector<int32_t> ids;
  Status status = t.encode(text, special, &ids);
  EXPECT_TRUE(status.is_ok()) << status.message();
  std::vector<std::string> out;
  for (int32_t id : ids) out.emplace_back(t.piece(id, true));
  return out;
}

using Pieces = std::vector<std::string>;

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  auto t = make(Vocab({"b c", "a b", "a a", "aa a"}));
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"a", "bc"}));  // the lower rank first, though it is not the leftmost
  EXPECT_EQ(pieces(*t, "abab"), (Pieces{"ab", "ab"}));
  EXPECT_EQ(pieces(*t, "aaa"), (Pieces{"aaa"}));
  EXPECT_EQ(pieces(*t, "aaaaa"), (Pieces{"aa", "aaa"}));
  std::string run(1001, 'a');  // the long way must agree with the short one's rule
  auto long_run = pieces(*t, run);
  EXPECT_EQ(long_run.size(), 500u);
  EXPECT_EQ(long_run.front(), "aa");
  EXPECT_EQ(long_run.back(), "aaa");
}

TEST(Tokenizer, OneLongWordIsNotQuadratic) {
  auto t = make(Vocab({"a a", "aa aa", "aaaa aaaa"}));
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(pieces(*t, std::string(1 << 18, 'a')).size(), size_t{1} << 15);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));  // a tenth of a second; the square takes minutes
}

TEST(Tokenizer, SpecialTokens) {
  auto t = make(Vocab({}, {{"<|a|>", 3}, {"<|a|>b", 3}, {"<u>", 4}, {"<|im_end|>", 3}, {"</s>", 1}}));
  EXPECT_EQ(pieces(*t, "x<|a|>y", true), (Pieces{"x", "<|a|>", "y"}));
  EXPECT_EQ(pieces(*t, "<|a|>b<|a|>c", true), (Pieces{"<|a|>b", "<|a|>", "c"}));  // the longest
  EXPECT_EQ(pieces(*t, "<|a|>").size(), 5u);                                      // plain text
  EXPECT_EQ(pieces(*t, "1<u>2"), (Pieces{"1", "<u>", "2"}));                      // user-defined: always
  EXPECT_EQ(pieces(*t, "<|a|<u", true).size(), 6u);
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode("a<|im_end|></s>", true, &ids).is_ok());
  EXPECT_EQ(t->decode(ids, false), "a</s>");
  EXPECT_EQ(t->decode(ids, true), "a<|im_end|></s>");
  EXPECT_TRUE(t->is_end(ids[1]) && t->is_control(ids[1]));
  EXPECT_FALSE(t->is_end(260));  // </s>, but not a control token
}

TEST(Tokenizer, MarkersAreControlTokensWhateverTheirType) {
  auto t = make(Vocab({"< |"}, {{"<|im_end|>", 1}, {"<|im_start|>", 1}, {"<end_of_turn>", 4}, {"<|im_end|>x", 1}, {"<|eot_id|>", 5}}));
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode("<|im_start|>a<|im_end|><end_of_turn>", true, &ids).is_ok());
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_TRUE(t->is_control(ids[0]) && !t->is_end(ids[0]));
  EXPECT_TRUE(t->is_control(ids[2]) && t->is_end(ids[2]));
  EXPECT_TRUE(!t->is_control(ids[3]) && t->is_end(ids[3]));
  EXPECT_EQ(t->decode(ids, false), "a<end_of_turn>");
  EXPECT_EQ(pieces(*t, "<|im_end|>").front(), "<|");
  EXPECT_NE(t->warning().find(", <|im_end|>, and 1 other: typed as text (tokenizer.ggml.token_type 1), taken for control tokens"),
            std::string::npos)
      << t->warning();
  // Those that are typed right, or are HTML's, are nothing to tell.
  EXPECT_EQ(make(Vocab({}, {{"<|im_end|>", 3}, {"</s>", 1}}))->warning(), "");
}

// tests/golden/tokenizer_equivalence.py holds it against PyPI tokenizers.
TEST(Tokenizer, ComposesWhereTheModelsOwnDoes) {
  const Vocab vocab({"\u00c3 \u00a9"}, {{"<|im_end|>", 3}});  // U+00E9
  VocabSource source = vocab.source();
  source.pre = "qwen2";
  auto t = make(source);
  EXPECT_EQ(pieces(*t, "e\u0301"), (Pieces{"\u00e9"}));
  EXPECT_EQ(t->normalized("e\u0301<|im_end|>\u0301 \xff"
                          "e\u0301\u0316"),
            "\u00e9<|im_end|>\u0301 \xff"
            "\u00e9\u0316");
  EXPECT_EQ(t->normalized("q\u0301\u0316\u1100\u1161\u11a8"), "q\u0316\u0301\uac01");
  EXPECT_EQ(t->normalized("\u212b\u0344\u0958"), "\u00c5\u0308\u0301\u0915\u093c");
  EXPECT_EQ(make(Vocab({}))->normalized("e\u0301"), "e\u0301");
  // Marks without an end, in the worst order: their square would take minutes.
  std::string marks = "e", sorted = "e";
  for (int i = 0; i < 200'000; ++i) marks += i % 2 ? "\u0316" : "\u0300";
  for (const char* mark : {"\u0316", "\u0300"})
    for (int i = 0; i < 100'000; ++i) sorted += mark;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(t->normalized(marks) == t->normalized(sorted));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Each byte that is no valid UTF-8 is its byte's token, unmerged; the text around it is encoded as if it stood alone.
TEST(Tokenizer, InvalidUtf8IsBytes) {
  auto t = make(Vocab({"a b", "\u00c3 \u00a9", "\u00e2 \u0124", "\u0124 \u00ac"}, {{"<u>", 4}}));  // "ab", U+00E9, E2 82, 82 AC
  auto bytes = [](std::initializer_list<int> list) {
    Pieces out;
    for (int b : list) out.emplace_back(1, static_cast<char>(b));
    return out;
  };
  EXPECT_EQ(pieces(*t,
                   "ab\xff"
                   "ab"),
            (Pieces{"ab", "\xff", "ab"}));
  EXPECT_EQ(pieces(*t, "\xc3\xa9\xc3"), (Pieces{"\xc3\xa9", "\xc3"}));
  EXPECT_EQ(pieces(*t, "\xe2\x82"), bytes({0xe2, 0x82}));
  EXPECT_EQ(pieces(*t, "\xe2\x82\xac"), (Pieces{"\xe2\x82", "\xac"}));  // valid: merged
  EXPECT_EQ(pieces(*t, "\xed\xa0\x80"), bytes({0xed, 0xa0, 0x80}));     // a surrogate
  EXPECT_EQ(pieces(*t, "\xf4\x90\x80\x80"), bytes({0xf4, 0x90, 0x80, 0x80}));
  EXPECT_EQ(pieces(*t, "\xc0\x80<u>\x80"), (Pieces{"\xc0", "\x80", "<u>", "\x80"}));
  std::string all;
  for (int b = 255; b >= 0; --b) all += static_cast<char>(b);
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode(all + all, false, &ids).is_ok());
  EXPECT_EQ(t->decode(ids, false), all + all);
}

TEST(Tokenizer, TextLimit) {
  std::vector<int32_t> ids = {7};
  EXPECT_EQ(make(Vocab({}))->encode(std::string(kTextBytesMax + 1, 'a'), true, &ids).code(), Code::kLimit);
  EXPECT_EQ(ids, std::vector<int32_t>{7});
}

// What stands beside such a byte is merged as if it were not there, but it cuts words as any other byte does.
TEST(Tokenizer, BytesWithoutATokenAreLeftOut) {
  Vocab vocab({"a b", "- -"}, {{"<unk>", 2}, {"<eot>", 3}});
  vocab.tokens['!'] = "gone";
  vocab.tokens[0xff] = "gone too";
  VocabSource source = vocab.source();
  source.unknown = 259;  // a control token: text must not turn into it
  auto t = make(source);
  auto check = [&](std::string_view text, const Pieces& expected, uint64_t lost) {
    std::vector<int32_t> ids;
    uint64_t dropped = 99;
    EXPECT_TRUE(t->encode(text, false, &ids, -1, &dropped).is_ok());
    EXPECT_EQ(pieces(*t, text), expected) << text;
    EXPECT_EQ(dropped, lost) << text;
  };
  check("ab", {"ab"}, 0);
  check("ab!", {"ab"}, 1);
  check("a!b", {"a", "b"}, 1);
  check("-!-", {"--"}, 1);
  check("-!- -!- !!!", {"--", " ", "--", " "}, 5);
  check("ab\xff\xff", {"ab"}, 2);
  check("!", {}, 1);
  check("", {}, 0);
  EXPECT_FALSE(t->spells('!') || t->spells(0xff));
  EXPECT_TRUE(t->spells('a'));
  source.unknown = 258;
  t = make(source);
  check("ab!", {"ab", "<unk>"}, 0);
  check("ab\xff", {"ab"}, 1);  // it stands for text, not for bytes that are none
}

TEST(Tokenizer, BadVocabularies) {
  auto refuse = [](auto change, Code code, const char* part) {
    Vocab vocab({"a b", "ab c"}, {{"<x>", 3}});
    VocabSource source = vocab.source();
    change(&source);
    auto made = Tokenizer::create(source);
    EXPECT_EQ(made.status().code(), code) << part;
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  };
  for (const char* model : {"rwkv", "plamo2", "none", "no_vocab", ""})
    refuse([model](VocabSource* s) { s->model = model; }, Code::kUnsupported, ("\"" + std::string(model) + "\"").c_str());
  refuse([](VocabSource* s) { s->pre = "qwen2-typo"; }, Code::kUnsupported, "\"qwen2-typo\"");
  std::string long_token(kTokenBytesMax + 1, 'x');
  refuse([&](VocabSource* s) { s->tokens[5] = long_token; }, Code::kLimit, "token 5");
  refuse([](VocabSource* s) { s->fim_pad = 259; }, Code::kCorrupt, "fim_pad token id 259");
  refuse([](VocabSource* s) { s->add_space_prefix = true; }, Code::kUnsupported, "add_space_prefix");
  refuse([](VocabSource* s) { s->tokens.clear(); }, Code::kCorrupt, "empty");
  refuse([](VocabSource* s) { s->types.pop_back(); }, Code::kCorrupt, "token types");
  refuse([](VocabSource* s) { s->types[3] = 9; }, Code::kCorrupt, "token 3: type 9");
  refuse([](VocabSource* s) { s->types[3] = 6; }, Code::kUnsupported, "token 3");
  refuse([](VocabSource* s) { s->tokens[5] = s->tokens[4]; }, Code::kCorrupt, "token 5");
  refuse([](VocabSource* s) { s->tokens[5] = "\xff"; }, Code::kCorrupt, "token 5");
  refuse([](VocabSource* s) { s->eos = 259; }, Code::kCorrupt, "eos token id 259");
  refuse([](VocabSource* s) { s->bos = -2; }, Code::kCorrupt, "bos token id -2");
  for (std::string_view merge : {"ab", "ab ", "", " ", "a"}) {
    refuse([merge](VocabSource* s) { s->merges[1] = merge; }, Code::kCorrupt, "merge 1");
  }
  refuse([](VocabSource* s) { s->merges[1] = "a zz"; }, Code::kCorrupt, "merge 1: its right part");
  refuse([](VocabSource* s) { s->merges[1] = "a d"; }, Code::kCorrupt, "merge 1: its result");
  refuse([](VocabSource* s) { s->merges[1] = "a b"; }, Code::kCorrupt, "merge 1: the same pair");
}

TEST(Tokenizer, TextIdNamesWhatDecidesTokens) {
  Vocab vocab({"a b", "ab c"}, {{"<x>", 3}});
  VocabSource source = vocab.source();
  Hash256 id = (*Tokenizer::create(source))->text_id();
  EXPECT_EQ((*Tokenizer::create(source))->text_id(), id);
  source.pre = "smollm";
  EXPECT_NE((*Tokenizer::create(source))->text_id(), id);
  source = vocab.source();
  source.eos = 4;
  EXPECT_NE((*Tokenizer::create(source))->text_id(), id);
  source = vocab.source();
  source.types.back() = 4;
  EXPECT_NE((*Tokenizer::create(source))->text_id(), id);
  source = vocab.source();
  std::swap(source.merges[0], source.merges[1]);
  EXPECT_NE((*Tokenizer::create(source))->text_id(), id);
}

TEST(Tokenizer, EndsOfATurn) {
  Vocab vocab(
      {}, {{"<|im_end|>", 4}, {"<|eot_id|>", 3}, {"<|end|>", 3}, {"<|return|>", 3}, {"<eos>", 3}, {"<x>", 3}, {"<y>", 3}, {"<|call|>", 3}});
  auto ends = [](const VocabSource& source) {
    auto t = std::move(Tokenizer::create(source)).value();
    std::vector<int> out;
    for (int32_t id = 0; id < static_cast<int32_t>(t->vocab_size()); ++id) {
      if (t->is_end(id)) out.push_back(id - 256);
    }
    return out;
  };
  VocabSource source = vocab.source();
  EXPECT_EQ(ends(source),
            (std::vector<int>{0, 1, 3, 4, 7}));  // with <|call|> and <|return|>, <|end|> ends a message of a turn that goes on
  source.tokens.back() = "<z>";
  EXPECT_EQ(ends(source), (std::vector<int>{0, 1, 2, 3, 4}));
  source.eom = 261;
  source.fim_sep = 262;
  EXPECT_EQ(ends(source), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

// Flags that the name of a pre-tokenizer implies: a piece that is a token stays whole, and BOS is added, unless the file says otherwise.
TEST(Tokenizer, PretokenizerNamesImplyFlags) {
  Vocab vocab({"b c"}, {{"abc", 1}, {"<s>", 3}});
  VocabSource source = vocab.source();
  source.bos = 258;
  auto plain = make(source);
  EXPECT_EQ(pieces(*plain, "abc"), (Pieces{"a", "bc"}));
  EXPECT_FALSE(plain->add_bos());
  EXPECT_EQ(plain->warning(), "");
  source.pre = "llama-bpe";
  auto llama = make(source);
  EXPECT_EQ(pieces(*llama, "abc"), (Pieces{"abc"}));
  EXPECT_EQ(pieces(*llama, "abcd"), (Pieces{"a", "bc", "d"}));
  EXPECT_TRUE(llama->add_bos());
  source.add_bos = false;
  EXPECT_FALSE(make(source)->add_bos());
  source.pre = "";
  EXPECT_NE(make(source)->warning().find("tokenizer.ggml.pre"), std::string::npos);
}

TEST(Pretokenizer, Pieces) {
  auto split = [](const char* name, std::string_view text) {
    auto made = Pretokenizer::create(name);
    std::vector<std::string_view> scratch, out;
    EXPECT_TRUE((*made)->split(text, &scratch, &out).is_ok());
    return std::vector<std::string>(out.begin(), out.end());
  };
  EXPECT_EQ(split("gpt-2", "I'll take  42 of\n\nthem!? "), (Pieces{"I", "'ll", " take", " ", " 42", " of", "\n", "\n", "them", "!?", " "}));
  EXPECT_EQ(split("smollm", "a  42b"), (Pieces{"a", "  ", "4", "2", "b"}));  // no lookahead past a digit
  EXPECT_EQ(split("gpt-2", "\u180ex\u0085y"), (Pieces{"\u180e", "x", "\u0085", "y"}));
  EXPECT_EQ(split("gpt-2", ""), Pieces{});
  EXPECT_EQ(split("superbpe", "a12345b"), (Pieces{"a", "12", "345", "b"}));
  EXPECT_EQ(split("tekken", "HTTPServer's"), (Pieces{"HTTPServer", "'s"}));
  EXPECT_EQ(split("gpt-4o", "fooBar's"), (Pieces{"foo", "Bar's"}));
  EXPECT_EQ(split("exaone-moe", "It's one two  three, 42!?\n\n x/y\r\n"),
            (Pieces{"It", "'s", " one two", " ", " three", ",", " ", "4", "2", "!?\n", "\n", " x", "/y", "\r\n"}));
  EXPECT_EQ(split("exaone-moe", "\u0e01\u0e31 \u0e01 ab\u0301 c -d  "), (Pieces{"\u0e01\u0e31 \u0e01 ab\u0301 c", " -", "d", "  "}));
}

// Patterns that look ahead over a run, or search a run's end from each of its places, must not take its square.
TEST(Pretokenizer, LongRunsAreNotQuadratic) {
  auto begin = std::chrono::steady_clock::now();
  const char* const names[] = {"gpt-2",        "smollm",         "llama-bpe",   "tekken", "gpt-4o", "kimi-k2",
                               "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "bloom",  "superbpe",
                               "chameleon",    "bailingmoe",     "exaone-moe",  "default"};
  for (const char* name : names) {
    auto made = Pretokenizer::create(name);
    for (const char* unit : {"a", " ", "A", "7", "\u0e01", "\n", "!", "\u6c49", " \u0e01", "a b"}) {
      std::string text;
      while (text.size() < 100'000) text += unit;
      text += "\u0e01";
      std::vector<std::string_view> scratch, out;
      Status status = (*made)->split(text, &scratch, &out);
      EXPECT_TRUE(status.is_ok()) << name << " " << unit << ": " << status.message();
      size_t total = 0;
      for (std::string_view piece : out) total += piece.size();
      EXPECT_EQ(total, text.size()) << name << " " << unit;
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));  // quadratic would be an hour
}

TEST(Utf8Stream, HoldsBackUnfinishedCodePoints) {
  Utf8Stream s;
  EXPECT_EQ(s.push("a\xf0\x9f"), "a");
  EXPECT_EQ(s.push("\x98"), "");
  EXPECT_EQ(s.push("\x80z"), "\xf0\x9f\x98\x80z");
  EXPECT_EQ(s.push("\xe2\x82"), "");
  EXPECT_EQ(s.push("x"), "\xef\xbf\xbdx");  // one replacement for a broken beginning
  EXPECT_EQ(s.push("\xff\x80"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(s.push("\xed"), "");
  EXPECT_EQ(s.push("\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate can never complete
  EXPECT_EQ(s.finish(), "");
  EXPECT_EQ(s.push("\xf0\x9f"), "");
  EXPECT_EQ(s.finish(), "\xef\xbf\xbd");
  EXPECT_EQ(s.finish(), "");
}

}  // namespace
}  // namespace kvrt
