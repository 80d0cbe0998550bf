#include "runtime/text/tokenizer/spm_vocabulary.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

// "<0x0A>" to 10; -1: not such a spelling.
int byte_spelled(std::string_view s) {
  if (s.size() != 6 || !s.starts_with("<0x") || s[5] != '>') return -1;
  int value = 0;
  for (char c : s.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

Status SpmTokenizer::add_piece(const VocabSource& source, size_t i) {
  std::string_view spelling = source.tokens[i];
  auto type = source.types.empty() ? kNormal : static_cast<TokenType>(source.types[i]);
  auto id = static_cast<int32_t>(i);
  if (i < scores_.size() && !std::isfinite(scores_[i]))
    return error(Code::kCorrupt, Detail::kFormat, "token %zu: its score is not finite", i);
  std::string bytes;
  switch (type) {
    case kByte: {
      int byte = byte_spelled(spelling);
      if (byte < 0) {
        return error(Code::kCorrupt, Detail::kFormat, "token %zu: expected a byte such as <0x0A>, found \"%.*s\"", i,
                     static_cast<int>(std::min<size_t>(spelling.size(), 64)), spelling.data());
      }
      if (byte_tokens_[byte] < 0) byte_tokens_[byte] = id;
      bytes.assign(1, static_cast<char>(byte));
      break;
    }
    case kControl:
    case kUnknown:
      if (!spelling.empty()) special_.add(spelling, id);
      if (type == kUnknown && unknown_ < 0 && source.unknown < 0) unknown_ = id;
      bytes = spelling;
      break;
    default:
      unescape_spaces(spelling, &bytes);
      if (type == kUserDefined && !bytes.empty()) user_.add(bytes, id);
  }
  return add_token(bytes, type);
}

Status SpmTokenizer::init_pieces(const VocabSource& source, Defaults defaults) {
  KVRT_TRY(check(source));
  size_t count = source.tokens.size();
  if (defaults.scores && source.scores.size() != count) {
    return error(Code::kCorrupt, Detail::kFormat, "vocabulary: %zu tokens but %zu scores (tokenizer.ggml.scores)", count,
                 source.scores.size());
  }
  if (defaults.scores) scores_ = source.scores;
  std::fill(std::begin(byte_tokens_), std::end(byte_tokens_), -1);
  TokenIndex spellings;
  spellings.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    std::string_view spelling = source.tokens[i];
    if (!spelling.empty() && !spellings.insert(spelling, static_cast<int32_t>(i))) {
      return error(Code::kCorrupt, Detail::kFormat, "token %zu: \"%.*s\" is token %d already", i,
                   static_cast<int>(std::min<size_t>(spelling.size(), 64)), spelling.data(), spellings.find(spelling));
    }
    KVRT_TRY(add_piece(source, i));
  }
  index_.reserve(count);
  indexed_.resize(count);
  for (int32_t id = 0; id < static_cast<int32_t>(count); ++id) {
    // A normal piece with a space of its own is never found: SentencePiece spells all spaces U+2581.
    bool plain =
        (type_of(id) == kNormal || type_of(id) == kUnused) && source.tokens[static_cast<size_t>(id)].find(' ') == std::string_view::npos;
    if ((plain || type_of(id) == kUserDefined) && !bytes_of(id).empty())
      indexed_[static_cast<size_t>(id)] = index_.insert(bytes_of(id), id);
  }
  byte_fallback_ = std::find(std::begin(byte_tokens_), std::end(byte_tokens_), -1) == std::end(byte_tokens_);
  space_prefix_ = source.add_space_prefix.value_or(defaults.space_prefix);
  KVRT_TRY(normalizer_.init(source.charsmap, source.remove_extra_whitespaces.value_or(false), byte_fallback_));
  add_bos_default(defaults.add_bos);
  return finish(source);
}

uint64_t SpmTokenizer::add_unknown(std::string_view text, size_t before, std::vector<int32_t>* out) const {
  if (byte_fallback_) {
    for (char c : text) out->push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    return 0;
  }
  if (unknown_ < 0) return text.size();
  if (out->size() == before || out->back() != unknown_) out->push_back(unknown_);
  return 0;
}

}  // namespace kvrt
