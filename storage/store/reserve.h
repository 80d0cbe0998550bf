// The reserve: a file of kReserveBytes, and an empty one. They are given up when a full disk leaves no room to remove a session or to read, or
// no inodes for the catalog's log and its index. They are made again when there is room.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/env.h"

namespace kvrt {

inline constexpr uint64_t kReserveBytes = 256u << 10;
bool make_reserve(Env* env, const std::string& root);  // false: a part of it could not be made, for want of room
void give_up_reserve(Env* env, const std::string& root);

}  // namespace kvrt
