// The rules of lifetimes, session names and domains. Names and domains are values in rows, never paths.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace kvrt {

// INVALID unless name has 1 to kNameBytesMax bytes, domain up to as many, and both are UTF-8 without a zero byte.
Status check_names(std::string_view domain, std::string_view name);
// INVALID past kTtlSecondsMax.
Status check_ttl(uint64_t seconds);

}  // namespace kvrt
