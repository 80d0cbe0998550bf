// WordPiece ("bert"): text is cut at white space and punctuation, and each word into the longest pieces from its beginning on. As GGUF spells
// pieces, U+2581 begins those at a word's beginning.
#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "runtime/text/unicode/accents.h"
#include "runtime/text/unicode/case.h"

namespace kvrt {

namespace {

constexpr size_t kWordMax = 100;  // in characters: a longer word is unknown
constexpr std::string_view kWordBegin = "\xE2\x96\x81";

bool is_bert_space(char32_t c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Characters that are words by themselves, as the reference has them.
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class WordPiece final : public VocabTokenizer {
 public:
  Status init(const VocabSource& source);

 private:
  std::unique_ptr<Scratch> make_scratch(size_t) const override { return std::make_unique<Scratch>(); }
  Status encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const override;
  void add_word(std::string_view word, Scratch* scratch, std::vector<int32_t>* out) const;
  // Calls f(code point) for what `c` becomes.
  template <class F>
  void normalize(char32_t c, F f) const {
    char32_t bare[3] = {c}, lower[3];
    const uint32_t n = strips_accents_ ? strip_accents(c, bare) : 1;
    for (uint32_t i = 0; i < n; ++i) {
      lower[0] = bare[i];
      const uint32_t m = lowercases_ ? change_case(bare[i], Case::kLower, lower) : 1;
      for (uint32_t k = 0; k < m; ++k) f(lower[k]);
    }
  }

  TokenIndex words_, tails_;  // pieces that begin words, and that go on with them
  bool lowercases_ = true, strips_accents_ = true;
};

Status WordPiece::init(const VocabSource& source) {
  KVRT_TRY(check(source));
  std::fill(std::begin(byte_tokens_), std::end(byte_tokens_), -1);
  lowercases_ = source.lowercase.value_or(true);
  strips_accents_ = source.strip_accents.value_or(lowercases_);
  space_prefix_ = true;  // a text's first word has none
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    std::string_view spelling = source.tokens[i];
    const auto type = source.types.empty() ? kNormal : static_cast<TokenType>(source.types[i]);
    const auto id = static_cast<int32_t>(i);
    if (type == kByte) return error(Code::kUnsupported, Detail::kNone, "token %zu: a byte token (type 6) in a vocabulary of words", i);
    const bool plain = type == kNormal || type == kUnused, begins = plain && spelling.starts_with(kWordBegin);
    if (!plain && !spelling.empty()) {
      if (type == kUserDefined) cuts_.add(spelling, id);
      special_.add(spelling, id);
    }
    if (begins) spelling.remove_prefix(kWordBegin.size());
    KVRT_TRY(add_token(begins ? " " + std::string(spelling) : std::string(spelling), type));
  }
  words_.reserve(source.tokens.size());
  tails_.reserve(source.tokens.size());
  for (int32_t id = 0; id < static_cast<int32_t>(source.tokens.size()); ++id) {
    if (type_of(id) != kNormal) continue;
    const bool begins = source.tokens[static_cast<size_t>(id)].starts_with(kWordBegin);
    const std::string_view piece = bytes_of(id).substr(begins);
    if (!piece.empty()) (void)(begins ? words_ : tails_).insert(piece, id);
  }
  add_bos_default(true);
  KVRT_TRY(finish(source));
  unknown_ = static_cast<int32_t>(source.unknown);  // a control token, which ends nothing here
  return {};
}

void WordPiece::add_word(std::string_view word, Scratch* scratch, std::vector<int32_t>* out) const {
  if (word.empty()) return;
  const size_t before = out->size();
  auto begins_character = [&](size_t i) { return i == word.size() || (static_cast<uint8_t>(word[i]) & 0xC0) != 0x80; };
  size_t at = 0, characters = 0;
  for (size_t i = 0; i < word.size(); ++i) characters += begins_character(i);
  while (characters <= kWordMax && at < word.size()) {
    const TokenIndex& pieces = at == 0 ? words_ : tails_;
    size_t end = std::min(word.size(), at + pieces.longest());
    int32_t id = -1;
    while (end > at && (id = begins_character(end) ? pieces.find(word.substr(at, end - at)) : -1) < 0) --end;
    if (end == at) break;
    out->push_back(id);
    at = end;
  }
  if (at == word.size()) return;
  out->resize(before);
  if (unknown_ >= 0) {
    out->push_back(unknown_);
  } else {
    scratch->dropped += word.size();
  }
}

Status WordPiece::encode_run(std::string_view text, bool, Scratch* scratch, std::vector<int32_t>* out) const {
  std::string word;
  auto flush = [&] {
    add_word(word, scratch, out);
    word.clear();
  };
  while (!text.empty()) {
    const CodePoint point = read_code_point(text);
    text.remove_prefix(std::max(point.size, 1u));
    const char32_t c = point.value;
    if (point.size == 0 || is_bert_removed(c)) continue;  // bytes that are no UTF-8 are as U+FFFD, which goes
    const bool alone = is_ideograph(c);
    if (alone || is_bert_space(c)) flush();
    if (is_bert_space(c)) continue;
    normalize(c, [&](char32_t x) {
      const bool mark = is_bert_punctuation(x);
      if (mark) flush();
      append_code_point(x, &word);
      if (mark) flush();
    });
    if (alone) flush();
  }
  flush();
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_wordpiece(const VocabSource& source) {
  auto tokenizer = std::make_unique<WordPiece>();
  KVRT_TRY(tokenizer->init(source));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace kvrt
