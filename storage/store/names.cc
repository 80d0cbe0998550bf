#include "storage/store/names.h"

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt {

namespace {
bool is_text(std::string_view s) { return find_invalid_utf8(s) == std::string_view::npos && s.find('\0') == std::string_view::npos; }
}  // namespace

Status check_names(std::string_view domain, std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax || domain.size() > kNameBytesMax) {
    return error(Code::kInvalid, Detail::kNone, "a name has 1 to %zu bytes and a domain up to %zu; these have %zu and %zu", kNameBytesMax,
                 kNameBytesMax, name.size(), domain.size());
  }
  if (!is_text(name) || !is_text(domain)) return error(Code::kInvalid, Detail::kNone, "a name or domain is not UTF-8, or has a zero byte");
  return {};
}

Status check_ttl(uint64_t seconds) {
  if (seconds <= kTtlSecondsMax) return {};
  return error(Code::kInvalid, Detail::kNone, "a session lives at most %llu seconds (0: for ever), %llu are asked for",
               static_cast<unsigned long long>(kTtlSecondsMax), static_cast<unsigned long long>(seconds));
}

}  // namespace kvrt
