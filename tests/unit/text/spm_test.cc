// The SentencePiece families on small vocabularies made here; trained ones are held against sentencepiece in tests/golden.
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {
namespace {

using Pieces = std::vector<std::string>;
enum { kNormal = 1, kUnknown = 2, kControl = 3, kUser = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score;
  int type = kNormal;
};

struct Vocab {
  Vocab(std::string model_, std::vector<Piece> more, bool bytes)
      : model(std::move(model_)), pieces{{"<unk>", 0, kUnknown}, {"<s>", 0, kControl}, {"</s>", 0, kControl}} {
    for (int b = 0; bytes && b < 256; ++b) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", b);
      pieces.push_back({text, 0, kByte});
    }
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  VocabSource source() const {
    VocabSource s;
    s.model = model;
    for (const Piece& p : pieces) {
      s.tokens.push_back(p.text);
      s.scores.push_back(p.score);
      s.types.push_back(p.type);
    }
    s.unknown = 0;
    s.bos = 1;
    s.eos = 2;
    return s;
  }
  std::string model;
  std::vector<Piece> pieces;
};

std::unique_ptr<Tokenizer> make(const VocabSource& source) {
  auto made = Tokenizer::create(source);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return std::move(made).value();
}

Pieces pieces(const Tokenizer& t, std::string_view text, bool special = false, int32_t previous = -1) {
  std::vector<int32_t> ids;
  Status status = t.encode(text, special, &ids, previous);
  EXPECT_TRUE(status.is_ok()) << status.message();
  Pieces out;
  for (int32_t id : ids) out.emplace_back(t.piece(id, true));
  return out;
}

#define SP "\xE2\x96\x81"
const std::vector<Piece> kLetters = {{"a", -10}, {"b", -11},  {"c", -12},   {SP, -13},     {"ab", -1},
                                     {"bc", -2}, {"abc", -3}, {SP "a", -4}, {SP "abc", -5}};

TEST(Spm, MergesByScoreThenFromTheLeft) {
  Vocab vocab("llama", kLetters, true);
  VocabSource source = vocab.source();
  source.add_space_prefix = false;
  auto t = make(source);
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"abc"}));
  EXPECT_EQ(pieces(*t, "abbc"), (Pieces{"ab", "bc"}));
  EXPECT_EQ(pieces(*t, "a abc"), (Pieces{"a", " abc"}));
  source.scores[259 + 5] = -1;     // bc as good as ab: the leftmost
  source.tokens[259 + 6] = "zzz";  // no abc
  EXPECT_EQ(pieces(*make(source), "abc"), (Pieces{"ab", "c"}));
}

TEST(Spm, SpacePrefixStandsWhereATextBegins) {
  Vocab vocab("llama", kLetters, true);
  auto t = make(vocab.source());  // absent: this family puts it
  EXPECT_TRUE(t->add_bos());
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{" abc"}));
  EXPECT_EQ(pieces(*t, ""), Pieces{});
  EXPECT_EQ(pieces(*t, "<s>abc</s>abc", true), (Pieces{"<s>", " abc", "</s>", " abc"}));
  EXPECT_EQ(pieces(*t, "abc", false, 1), (Pieces{" abc"}));   // after <s>
  EXPECT_EQ(pieces(*t, "abc", false, 259), (Pieces{"abc"}));  // after text
  EXPECT_EQ(pieces(*t, " abc", false, 259), (Pieces{" abc"}));
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode("abc", false, &ids).is_ok());
  EXPECT_EQ(t->decode(ids, false), "abc");
  EXPECT_EQ(t->decode(ids, false, 259), " abc");
  ids.insert(ids.begin(), 1);
  EXPECT_EQ(t->decode(ids, false), "abc");
  EXPECT_EQ(t->piece_after(259, ids[1], false), " abc");
  for (std::string text : {" ", "  ", " abc", "a  b c", "<s>", "a\xff\xfe b", "\u00e9\u4e2d", "\n a"}) {
    ids.clear();
    ASSERT_TRUE(t->encode(text, false, &ids).is_ok());
    EXPECT_EQ(t->decode(ids, true), text);
  }
}

TEST(Spm, UserDefinedPiecesComeFirst) {
  Vocab vocab("llama", {{"a", -1}, {"b", -2}, {"ab", -1}, {"<u>", 0, kUser}, {"  ", 0, kUser}, {SP, -5}, {"b<", -1}}, true);
  auto t = make(vocab.source());
  EXPECT_EQ(pieces(*t, "ab<u>ab"), (Pieces{" ", "ab", "<u>", "ab"}));  // no space after it
  EXPECT_EQ(pieces(*t, " a"), (Pieces{"  ", "a"}));                    // the prefix and the space
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode(" a", false, &ids).is_ok());
  EXPECT_EQ(t->decode(ids, false), " a");
}

TEST(Spm, UnknownCharactersAreBytesOrOneUnknown) {
  Vocab with("llama", kLetters, true), without("llama", kLetters, false);
  EXPECT_EQ(pieces(*make(with.source()), "a\u00e9"), (Pieces{" a", "\xc3", "\xa9"}));
  auto t = make(without.source());
  EXPECT_EQ(pieces(*t, "a\u00e9\u4e2d\u00e9 a\u00e9"), (Pieces{" a", "<unk>", " a", "<unk>"}));
  EXPECT_EQ(pieces(*t, "a\xff\xfe"), (Pieces{" a", "<unk>"}));  // as U+FFFD
  VocabSource source = without.source();
  source.unknown = 1;  // a control token: text must not turn into it
  std::vector<int32_t> ids;
  uint64_t dropped = 0;
  ASSERT_TRUE(make(source)->encode("ab\u00e9c\u00e9", false, &ids, -1, &dropped).is_ok());
  EXPECT_EQ(make(source)->decode(ids, true), "abc");
  EXPECT_EQ(dropped, 4u);
}

// A merge may lead through a piece that is not to be used; where it stops there, the parts of that piece are left.
TEST(Spm, UnusedPiecesAreTakenApart) {
  Vocab vocab("llama", {{"a", -10}, {"b", -11}, {"c", -12}, {"ab", -1, kUnused}, {"abc", -3}}, true);
  VocabSource source = vocab.source();
  source.add_space_prefix = false;
  auto t = make(source);
  EXPECT_EQ(pieces(*t, "abab"), (Pieces{"a", "b", "a", "b"}));
  EXPECT_EQ(pieces(*t, "ababc"), (Pieces{"a", "b", "abc"}));
}

// Each piece of letters is unused and was merged from the one before: the longest is taken apart in 4,095 steps, on a small stack.
TEST(Spm, UnusedPiecesWithinEachOther) {
  std::vector<Piece> letters{{"a", -10'000}};
  for (int i = 2; i <= 4'096; ++i) letters.push_back({std::string(static_cast<size_t>(i), 'a'), static_cast<float>(i - 9'000), kUnused});
  Vocab vocab("llama", letters, true);
  VocabSource source = vocab.source();
  source.add_space_prefix = false;
  struct Job {
    std::unique_ptr<Tokenizer> t;
    std::string text = std::string(4'096, 'a');
    std::vector<int32_t> ids{};
    Status status{};
  } job{make(source)};
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
  const auto run = [](void* p) -> void* {
    auto* j = static_cast<Job*>(p);
    j->status = j->t->encode(j->text, false, &j->ids);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &job), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  ASSERT_TRUE(job.status.is_ok()) << job.status.message();
  EXPECT_EQ(job.ids, std::vector<int32_t>(4'096, 259));
}

TEST(Spm, OneLongWordIsNotQuadratic) {
  Vocab vocab("llama", {{"a", -10}, {"aa", -1}, {"aaaa", -2}, {SP, -9}, {SP SP, -3}}, true);
  VocabSource source = vocab.source();
  source.add_space_prefix = false;
  auto t = make(source);
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(pieces(*t, std::string(1 << 18, 'a')).size(), size_t{1} << 16);
  EXPECT_EQ(pieces(*t, std::string(1 << 18, ' ')).size(), size_t{1} << 17);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));  // a fifth of a second; the square takes minutes
}

TEST(Spm, BadVocabularies) {
  auto refuse = [](auto change, Code code, const char* part) {
    Vocab vocab("llama", kLetters, true);
    VocabSource source = vocab.source();
    change(&source);
    auto made = Tokenizer::create(source);
    EXPECT_EQ(made.status().code(), code) << part;
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  };
  refuse([](VocabSource* s) { s->scores.clear(); }, Code::kCorrupt, "0 scores");
  refuse([](VocabSource* s) { s->scores[4] = std::nanf(""); }, Code::kCorrupt, "token 4: its score");
  refuse([](VocabSource* s) { s->tokens[3] = "<0xG0>"; }, Code::kCorrupt, "token 3: expected a byte");
  refuse([](VocabSource* s) { s->tokens[259] = "b"; }, Code::kCorrupt, "token 260: \"b\" is token 259 already");
  refuse([](VocabSource* s) { s->charsmap = "xx"; }, Code::kCorrupt, "precompiled_charsmap");
  refuse([](VocabSource* s) { s->charsmap = std::string("\xff\xff\xff\x7f", 4) + "abcd"; }, Code::kCorrupt, "precompiled_charsmap");
  refuse([](VocabSource* s) { s->charsmap = std::string("\x04\0\0\0", 4) + "abcdefg"; }, Code::kCorrupt, "precompiled_charsmap");
}

// Any bytes in place of the trie: the text comes out somehow, and nothing is read outside of it.
TEST(Spm, HostileCharsmaps) {
  Vocab vocab("t5", kLetters, true);
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < 300; ++round) {
    std::string map("\x40\0\0\0", 4);
    for (int i = 0; i < 64 + 8; ++i) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      map += static_cast<char>(random >> (random % 3 ? 60 : 24));
    }
    map += '\0';
    VocabSource source = vocab.source();
    source.charsmap = map;
    source.remove_extra_whitespaces = round % 2;
    auto t = make(source);
    std::vector<int32_t> ids;
    std::string text = map + "abc \u4e2d";
    EXPECT_TRUE(t->encode(text, true, &ids).is_ok());
  }
}

// Letters a that a charsmap makes long.
TEST(Spm, CharsmapsThatMakeATextLong) {
  const auto map_of = [](size_t size) {
    std::vector<uint32_t> trie(256);
    trie[0] = 1 << 10;                          // children at 1 ^ byte
    trie[1 ^ 'a'] = 'a' | 1 << 8 | 0x10 << 10;  // a key ends; its value is 0x10 further
    trie[1 ^ 'a' ^ 0x10] = 1u << 31;            // the text at 0
    const auto trie_size = static_cast<uint32_t>(trie.size() * sizeof trie[0]);
    std::string out(sizeof trie_size, '\0');
    std::memcpy(out.data(), &trie_size, sizeof trie_size);
    out.append(reinterpret_cast<const char*>(trie.data()), trie_size);
    return out + std::string(size, 'b') + '\0';
  };
  for (const char* model : {"llama", "t5"}) {
    Vocab vocab(model, kLetters, false);
    VocabSource source = vocab.source();
    source.add_space_prefix = false;
    source.charsmap = map_of(3);
    EXPECT_EQ(pieces(*make(source), "aa"), (Pieces{"b", "b", "b", "b", "b", "b"}));
    source.charsmap = map_of(kTokenBytesMax);
    std::vector<int32_t> ids;
    EXPECT_EQ(make(source)->encode(std::string(1'000, 'a'), false, &ids).code(), Code::kLimit);
    EXPECT_TRUE(ids.empty());
    source.charsmap = map_of(kTokenBytesMax + 1);
    EXPECT_EQ(Tokenizer::create(source).status().code(), Code::kLimit);
  }
}

TEST(Unigram, TakesTheBestSum) {
  Vocab vocab("t5", {{"a", -2}, {"b", -2}, {"ab", -3}, {"abc", -9}, {"c", -3}, {SP, -1}}, false);
  VocabSource source = vocab.source();
  source.add_space_prefix = false;
  auto t = make(source);
  EXPECT_FALSE(t->add_bos());
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"ab", "c"}));  // -6, and not -9 or -7
  EXPECT_EQ(pieces(*t, "ab xyc"), (Pieces{"ab", " ", "<unk>", "c"}));
  source.remove_extra_whitespaces = true;
  EXPECT_EQ(pieces(*make(source), "  ab   c "), (Pieces{"ab", " ", "c"}));
  source.scores[3 + 3] = -5;
  EXPECT_EQ(pieces(*make(source), "abc"), (Pieces{"abc"}));
}

// Gemma 4's: the order of a list, not of scores; a merge that the list lacks does not happen, though its union is a piece.
TEST(Gemma4, MergesByItsList) {
  Vocab vocab(
      "gemma4",
      {{"a", 0}, {"b", 0}, {"c", 0}, {SP, 0}, {"ab", 0}, {"bc", 0}, {"abc", 0}, {SP "a", 0}, {"\n", 0}, {"\n\n", 0}, {"<u>", 0, kUser}},
      true);
  VocabSource source = vocab.source();
  source.scores.clear();
  source.merges = {"b c", "a b", SP " a", "\n \n"};
  auto t = make(source);
  EXPECT_EQ(pieces(*t, "abc"), (Pieces{"a", "bc"}));
  EXPECT_EQ(pieces(*t, "abab"), (Pieces{"ab", "ab"}));
  EXPECT_EQ(pieces(*t, "a a  a"), (Pieces{"a", " a", " ", " a"}));  // no space at the text's beginning
  EXPECT_EQ(pieces(*t, "\n\n\na<u>a\u00e9"), (Pieces{"\n\n", "\n", "a", "<u>", "a", "\xc3", "\xa9"}));
  source.add_bos = false;  // as early files say
  EXPECT_TRUE(make(source)->add_bos());
  source.merges.push_back("a zz");
  EXPECT_EQ(Tokenizer::create(source).status().code(), Code::kCorrupt);
}

TEST(Spm, TextIdNamesWhatDecidesTokens) {
  Vocab vocab("llama", kLetters, true);
  auto id = [&](auto change) {
    VocabSource source = vocab.source();
    change(&source);
    return make(source)->text_id();
  };
  Hash256 same = id([](VocabSource*) {});
  EXPECT_EQ(id([](VocabSource*) {}), same);
  EXPECT_NE(id([](VocabSource* s) { s->model = "t5"; }), same);
  EXPECT_NE(id([](VocabSource* s) { s->scores[260] = -7; }), same);
  EXPECT_NE(id([](VocabSource* s) { s->add_space_prefix = true; }), same);
  EXPECT_NE(id([](VocabSource* s) { s->remove_extra_whitespaces = true; }), same);
  EXPECT_NE(id([](VocabSource* s) { s->eom = 2; }), same);
  EXPECT_NE(id([](VocabSource* s) { s->charsmap = std::string("\x04\0\0\0abcdx\0", 10); }), same);
}

}  // namespace
}  // namespace kvrt
