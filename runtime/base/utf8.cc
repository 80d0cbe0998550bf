#include "runtime/base/utf8.h"

#include <cstring>

namespace kvrt {

namespace {

bool is_continuation(unsigned char c) { return (c & 0xC0) == 0x80; }

// The meaning of a lead byte: the length of its sequence, and the range that its second byte must be in.
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

// Counts the bytes that are a valid beginning of the sequence that `lead` opens (1 when the second is wrong already).
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

Utf8Prefix utf8_prefix(std::string_view bytes) {
  Lead lead = lead_of(static_cast<unsigned char>(bytes[0]));
  return {lead.size, lead.size == 0 ? 1 : valid_prefix(bytes, lead)};
}

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

}  // namespace kvrt
