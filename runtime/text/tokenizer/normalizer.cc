#include "runtime/text/tokenizer/normalizer.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kForInvalid = "\xEF\xBF\xBD";    // U+FFFD
constexpr size_t kGrowthMax = 16;                           // a text's: Unicode's own replacements make it 11 times as long at most

// A unit of the trie, a double array of 32-bit words: bit 8 says that a key ends here, bits 10 to 30 where its children are (times 256
// with bit 9 set), the low byte and bit 31 which byte led here. A unit with bit 31 alone is a value: an offset into the strings.
bool has_value(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

}  // namespace

void unescape_spaces(std::string_view text, std::string* out) {
  size_t at = 0;
  for (size_t found; (found = text.find(kEscapedSpace, at)) != std::string_view::npos; at = found + kEscapedSpace.size()) {
    out->append(text.substr(at, found - at)).push_back(' ');
  }
  out->append(text.substr(at));
}

Status SpmNormalizer::init(std::string charsmap, bool remove_extra_whitespaces, bool keeps_bytes) {
  remove_extra_whitespaces_ = remove_extra_whitespaces;
  keeps_bytes_ = keeps_bytes;
  charsmap_ = std::move(charsmap);
  if (charsmap_.empty()) return {};
  uint32_t size = 0;
  if (charsmap_.size() > sizeof size) std::memcpy(&size, charsmap_.data(), sizeof size);
  if (size < 4 || size % 4 != 0 || size >= charsmap_.size() - sizeof size || charsmap_.back() != '\0') {
    return error(Code::kCorrupt, Detail::kFormat,
                 "tokenizer.ggml.precompiled_charsmap: expected a trie and zero-terminated strings, found %zu bytes with a trie of %u",
                 charsmap_.size(), size);
  }
  units_ = size / 4;
  const std::string_view strings = std::string_view(charsmap_).substr(4 + size);
  for (size_t at = 0, end; (end = strings.find('\0', at)) != std::string_view::npos; at = end + 1) {
    if (end - at <= kTokenBytesMax) continue;
    return error(Code::kLimit, Detail::kNone, "tokenizer.ggml.precompiled_charsmap: a text of %zu bytes, the limit is %zu", end - at,
                 kTokenBytesMax);
  }
  return {};
}

// 0 outside of the array: such a unit leads nowhere.
uint32_t SpmNormalizer::unit(size_t at) const {
  uint32_t unit = 0;
  if (at < units_) std::memcpy(&unit, charsmap_.data() + 4 + at * 4, sizeof unit);
  return unit;
}

// The longest beginning of the text that the map knows and its replacement, else one code point as it is.
SpmNormalizer::Prefix SpmNormalizer::next(std::string_view text, const SpecialTokens& kept) const {
  if (size_t size = kept.match(text)) return {text.substr(0, size), size};
  size_t longest = 0;
  uint32_t value = 0;
  size_t at = offset_of(unit(0));
  for (size_t i = 0; units_ && i < std::min(text.size(), kTokenBytesMax); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    uint32_t here = unit(at);
    if (label_of(here) != byte || byte == 0) break;
    at ^= offset_of(here);
    if (has_value(here)) longest = i + 1, value = value_of(unit(at));
  }
  std::string_view strings = std::string_view(charsmap_).substr(units_ ? 4 + units_ * 4 : 0);
  if (longest && value < strings.size()) {
    strings.remove_prefix(value);
    return {strings.substr(0, strings.find('\0')), longest};
  }
  const size_t size = read_code_point(text).size;
  if (size == 0) return {keeps_bytes_ ? text.substr(0, 1) : kForInvalid, 1};
  return {text.substr(0, size), size};
}

Result<std::string_view> SpmNormalizer::apply(std::string_view text, bool space_prefix, const SpecialTokens& kept,
                                              std::string* scratch) const {
  const size_t most = std::min(kGrowthMax * (text.size() + 1), 2 * kTextBytesMax);
  std::string* out = scratch;
  out->clear();
  if (units_ == 0 && !remove_extra_whitespaces_ && (keeps_bytes_ || find_invalid_utf8(text) == std::string_view::npos)) {
    if (!space_prefix && text.find(kEscapedSpace) == std::string_view::npos) return text;
    if (space_prefix && !text.empty()) out->push_back(' ');
    unescape_spaces(text, out);
    return std::string_view(*out);
  }
  // The order of SentencePiece: leading spaces go, then comes the prefix, then spaces after a space go, then trailing ones.
  if (remove_extra_whitespaces_) {
    while (!text.empty()) {
      Prefix p = next(text, kept);
      if (p.normalized != " ") break;
      text.remove_prefix(p.size);
    }
  }
  if (text.empty()) return std::string_view();
  if (space_prefix) out->push_back(' ');
  bool after_space = remove_extra_whitespaces_;
  while (!text.empty()) {
    Prefix p = next(text, kept);
    text.remove_prefix(p.size);
    while (after_space && p.normalized.starts_with(' ')) p.normalized.remove_prefix(1);
    if (p.normalized.empty()) continue;
    unescape_spaces(p.normalized, out);
    if (out->size() > most) {
      return error(Code::kLimit, Detail::kNone, "tokenizer.ggml.precompiled_charsmap: a text grows to more than %zu bytes", most);
    }
    after_space = remove_extra_whitespaces_ && p.normalized.ends_with(' ');
  }
  while (remove_extra_whitespaces_ && out->ends_with(' ')) out->pop_back();
  return std::string_view(*out);
}

}  // namespace kvrt
