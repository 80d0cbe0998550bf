// The reserve: a file of kReserveBytes. It is given up when a full disk leaves no room to remove a session or to read, and made again when
// there is room.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/env.h"

namespace kvrt {

inline constexpr uint64_t kReserveBytes = 256u << 10;
bool make_reserve(Env* env, const std::string& root);  // false: it could not be made, for want of room
void give_up_reserve(Env* env, const std::string& root);

}  // namespace kvrt
