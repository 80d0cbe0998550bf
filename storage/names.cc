#include "storage/names.h"

#include "runtime/base/limits.h"

namespace kvrt {

namespace {
bool is_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    auto byte = [&](size_t k) { return k < s.size() ? static_cast<uint32_t>(static_cast<unsigned char>(s[k])) : 0u; };
    uint32_t c = byte(i);
    size_t n = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;
    if (n == 0) return false;
    uint32_t code = n == 1 ? c : c & (0x7fu >> n);
    for (size_t k = 1; k < n; k++) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code == 0 || code < kLeast[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += n;
  }
  return true;
}

}  // namespace

Status check_names(std::string_view domain, std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || domain.size() > kNameBytesMax) {
    return error(Code::kInvalid, Detail::kNone, "a name has 1 to %zu bytes and a domain up to %zu; these have %zu and %zu", kNameBytesMax,
                 kNameBytesMax, name.size(), domain.size());
  }
  if (!is_utf8(name) || !is_utf8(domain)) return error(Code::kInvalid, Detail::kNone, "a name or domain is not UTF-8, or has a zero byte");
  return {};
}

}  // namespace kvrt
