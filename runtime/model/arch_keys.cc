#include "runtime/model/arch_keys.h"

#include <algorithm>

#include "runtime/base/numbers.h"

namespace kvrt {

Status ArchKeys::read_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const {
  const auto numbers = file_.get_ints(key(name));
  const auto blocks = file_.get_uint(key("block_count"));
  if (numbers && blocks) return read_same(name, *numbers, *blocks, min, max, out);
  KVRT_ASSIGN(const uint64_t value, file_.require_uint(key(name), min, max));
  *out = static_cast<uint32_t>(value);
  return Status::ok();
}

// A number for each block, as some converters write it.
Status ArchKeys::read_same(const char* name, std::span<const int64_t> numbers, uint64_t blocks, uint64_t min, uint64_t max,
                           uint32_t* out) const {
  if (numbers.size() != blocks || numbers.empty()) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a number for each of %llu layers, found %zu",
                 file_.name().c_str(), key(name).c_str(), static_cast<unsigned long long>(blocks), numbers.size());
  }
  const int64_t first = numbers.front();
  const auto other = std::ranges::find_if(numbers, [&](int64_t n) { return n != first; });
  if (other != numbers.end()) {
    return unsupported(key(name),
                       "found " + std::to_string(first) + " and " + std::to_string(*other) + ", layers that differ are not supported");
  }
  if (first < 0 || static_cast<uint64_t>(first) < min || static_cast<uint64_t>(first) > max) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected %llu to %llu, found %lld", file_.name().c_str(),
                 key(name).c_str(), static_cast<unsigned long long>(min), static_cast<unsigned long long>(max),
                 static_cast<long long>(first));
  }
  *out = static_cast<uint32_t>(first);
  return Status::ok();
}

Status ArchKeys::read_optional_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const {
  return file_.has(key(name)) ? read_uint(name, min, max, out) : Status::ok();
}

Status ArchKeys::read_float(const char* name, double min, double max, float* out) const {
  const auto value = file_.get_float(key(name));
  if (!value) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a float, found %s", file_.name().c_str(),
                 key(name).c_str(), file_.found(key(name)).c_str());
  }
  if (!(*value >= min && *value <= max)) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected %s to %s, found %s", file_.name().c_str(),
                 key(name).c_str(), shown(min).c_str(), shown(max).c_str(), shown(*value).c_str());
  }
  *out = static_cast<float>(*value);
  return Status::ok();
}

Status ArchKeys::read_optional_float(const char* name, double min, double max, float* out) const {
  return file_.has(key(name)) ? read_float(name, min, max, out) : Status::ok();
}

Status ArchKeys::read_scale(const char* name, float* out) const {
  float scale = 0;
  KVRT_TRY(read_optional_float(name, 0, 1e6, &scale));
  if (scale > 0) *out = scale;
  return Status::ok();
}

Status ArchKeys::unsupported(const std::string& name, const std::string& why) const {
  return error(Code::kUnsupported, Detail::kNone, "%s: metadata key %s: %s", file_.name().c_str(), name.c_str(), why.c_str());
}

}  // namespace kvrt
