// BERT's WordPiece on a small vocabulary made here; trained ones are held against PyPI tokenizers in tests/golden.
#include <gtest/gtest.h>

#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/unicode/accents.h"

namespace kvrt {
namespace {

using Pieces = std::vector<std::string>;

#define W "\xE2\x96\x81"
VocabSource source() {
  VocabSource s;
  s.model = "bert";
  s.tokens = {"[PAD]", "[UNK]", "[CLS]",    "[SEP]",  W "un",  "aff", "able", W "\u00e9",
              W "e",   W "!",   W "\u4e2d", "\u4e2d", W "un!", "a",   W "a",  W "Un"};
  s.types.assign(s.tokens.size(), 1);
  std::fill(s.types.begin(), s.types.begin() + 4, 3);
  s.unknown = 1, s.bos = 2, s.eos = 3;
  return s;
}

std::unique_ptr<Tokenizer> make(const VocabSource& s) {
  auto made = Tokenizer::create(s);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return std::move(made).value();
}

Pieces pieces(const Tokenizer& t, std::string_view text, bool special = false) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(t.encode(text, special, &ids).is_ok());
  Pieces out;
  for (int32_t id : ids) out.emplace_back(t.piece(id, true));
  return out;
}

TEST(WordPiece, LongestPiecesOfWords) {
  auto t = make(source());
  EXPECT_EQ(pieces(*t, "unaffable UNAFF"), (Pieces{" un", "aff", "able", " un", "aff"}));
  EXPECT_EQ(pieces(*t, "un!able"), (Pieces{" un", " !", "[UNK]"}));  // punctuation is a word; no word begins with "able"
  EXPECT_EQ(pieces(*t, "\u00c9 e\u0301 \u00e9"), (Pieces{" e", " e", " e"}));
  EXPECT_EQ(pieces(*t, "un\u4e2dun"), (Pieces{" un", " \u4e2d", " un"}));
  EXPECT_EQ(pieces(*t,
                   "unaffx un\u200b\x01 \xff un\xff"
                   "aff\u00a0\t\n"),
            (Pieces{"[UNK]", " un", " un", "aff"}));
  EXPECT_EQ(pieces(*t, std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(pieces(*t, std::string(101, 'a')), (Pieces{"[UNK]"}));
  EXPECT_EQ(pieces(*t, " \n"), Pieces{});
  EXPECT_EQ(pieces(*t, "un [SEP]un", true), (Pieces{" un", "[SEP]", " un"}));
  EXPECT_EQ(pieces(*t, "[SEP]"), (Pieces{"[UNK]", "[UNK]", "[UNK]"}));
  EXPECT_TRUE(t->add_bos());
  std::vector<int32_t> ids;
  ASSERT_TRUE(t->encode("un unaffable", false, &ids).is_ok());
  EXPECT_EQ(t->decode(ids, false), "un unaffable");
}

TEST(WordPiece, CaseAndAccentsByTheFile) {
  VocabSource s = source();
  s.lowercase = false;
  auto t = make(s);
  EXPECT_EQ(pieces(*t, "Un un \u00e9"), (Pieces{" Un", " un", " \u00e9"}));
  const Hash256 id = t->text_id();
  s.strip_accents = true;
  t = make(s);
  EXPECT_EQ(pieces(*t, "Un \u00e9"), (Pieces{" Un", " e"}));
  EXPECT_NE(t->text_id(), id);
  s.unknown = -1;
  std::vector<int32_t> ids;
  uint64_t dropped = 0;
  ASSERT_TRUE(make(s)->encode("un xyz un", false, &ids, -1, &dropped).is_ok());
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(dropped, 3u);
  s.types[4] = 6;
  EXPECT_EQ(Tokenizer::create(s).status().code(), Code::kUnsupported);
}

TEST(Accents, Hangul) {
  char32_t out[3];
  EXPECT_EQ(strip_accents(0xAC00, out), 2u);
  EXPECT_EQ(out[1], char32_t{0x1161});
  EXPECT_EQ(strip_accents(0xD7A3, out), 3u);
  EXPECT_EQ(out[2], char32_t{0x11C2});
}

}  // namespace
}  // namespace kvrt
