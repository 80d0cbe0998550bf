#include "runtime/text/tokenizer/byte_alphabet.h"

#include "runtime/text/tokenizer/tokenizer.h"

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

}  // namespace

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
    auto [size, n] = utf8_prefix(rest);
    if (size != 0 && n < size && n == rest.size()) break;       // may still be completed
    out_.append(n == size ? rest.substr(0, n) : kReplacement);  // a broken beginning is one replacement, as in Unicode 3.9
    rest.remove_prefix(n);
  }
  held_.erase(0, held_.size() - rest.size());
  return out_;
}

std::string_view Utf8Stream::finish() {
  out_ = held_.empty() ? std::string_view() : kReplacement;  // the bytes held are one valid beginning
  held_.clear();
  return out_;
}

}  // namespace kvrt
