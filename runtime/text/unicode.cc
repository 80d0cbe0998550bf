#include "runtime/text/unicode.h"

#include <cstring>

#include "runtime/text/tokenizer.h"

namespace kvrt {

namespace {

constexpr char32_t kSymbolEnd = 0x144;  // 188 bytes spell themselves, the other 68 are U+0100 to U+0143

struct Alphabet {
  std::array<uint16_t, 256> symbol{};
  std::array<int16_t, kSymbolEnd> byte{};

  constexpr Alphabet() {
    for (auto& b : byte) b = -1;
    uint16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      symbol[static_cast<size_t>(b)] = printable ? static_cast<uint16_t>(b) : next++;
      byte[symbol[static_cast<size_t>(b)]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_continuation(unsigned char c) { return (c & 0xC0) == 0x80; }

// What a lead byte says: the length of its sequence and the range its second byte must be in.
struct Lead {
  uint32_t size;
  uint8_t low, high;
};
Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c == 0xE0) return {3, 0xA0, 0xBF};
  if (c == 0xED) return {3, 0x80, 0x9F};
  if (c < 0xF0) return {3, 0x80, 0xBF};
  if (c == 0xF0) return {4, 0x90, 0xBF};
  if (c < 0xF4) return {4, 0x80, 0xBF};
  if (c == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many of the bytes are a valid beginning of the sequence that `lead` opens (1 when the second is wrong already).
uint32_t valid_prefix(std::string_view bytes, Lead lead) {
  uint32_t n = 1;
  while (n < lead.size && n < bytes.size()) {
    auto c = static_cast<unsigned char>(bytes[n]);
    if (n == 1 ? (c < lead.low || c > lead.high) : !is_continuation(c)) break;
    ++n;
  }
  return n;
}

}  // namespace

CodePoint read_code_point(std::string_view bytes) {
  if (bytes.empty()) return {};
  auto first = static_cast<unsigned char>(bytes[0]);
  Lead lead = lead_of(first);
  if (lead.size == 1) return {first, 1};
  if (lead.size == 0 || valid_prefix(bytes, lead) < lead.size) return {};
  char32_t value = first & (0xFFu >> (lead.size + 1));
  for (uint32_t i = 1; i < lead.size; ++i) value = (value << 6) | (static_cast<unsigned char>(bytes[i]) & 0x3Fu);
  return {value, lead.size};
}

void append_code_point(char32_t v, std::string* out) {
  auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (v < 0x80) {
    put(v);
  } else if (v < 0x800) {
    put(0xC0 | (v >> 6));
    put(0x80 | (v & 0x3F));
  } else if (v < 0x10000) {
    put(0xE0 | (v >> 12));
    put(0x80 | ((v >> 6) & 0x3F));
    put(0x80 | (v & 0x3F));
  } else {
    put(0xF0 | (v >> 18));
    put(0x80 | ((v >> 12) & 0x3F));
    put(0x80 | ((v >> 6) & 0x3F));
    put(0x80 | (v & 0x3F));
  }
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word;
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    uint32_t size = read_code_point(text.substr(at)).size;
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

char32_t byte_to_symbol(uint8_t byte) { return kAlphabet.symbol[byte]; }

int symbol_to_byte(char32_t symbol) { return symbol < kSymbolEnd ? kAlphabet.byte[symbol] : -1; }

bool decode_symbols(std::string_view spelling, std::string* out) {
  while (!spelling.empty()) {
    CodePoint point = read_code_point(spelling);
    int byte = point.size == 0 ? -1 : symbol_to_byte(point.value);
    if (byte < 0) return false;
    out->push_back(static_cast<char>(byte));
    spelling.remove_prefix(point.size);
  }
  return true;
}

std::string_view Utf8Stream::push(std::string_view bytes) {
  out_.clear();
  held_.append(bytes);
  std::string_view rest = held_;
  while (!rest.empty()) {
    Lead lead = lead_of(static_cast<unsigned char>(rest[0]));
    uint32_t n = lead.size == 0 ? 1 : valid_prefix(rest, lead);
    if (lead.size != 0 && n < lead.size && n == rest.size()) break;  // may still be completed
    out_.append(n == lead.size ? rest.substr(0, n) : kReplacement);  // a broken beginning is one replacement, as in Unicode 3.9
    rest.remove_prefix(n);
  }
  held_.erase(0, held_.size() - rest.size());
  return out_;
}

std::string_view Utf8Stream::finish() {
  out_ = held_.empty() ? std::string_view() : kReplacement;  // what is held is one valid beginning
  held_.clear();
  return out_;
}

}  // namespace kvrt
