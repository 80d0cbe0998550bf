#pragma once

#include <string>

namespace kvrt {

// The text of a file of /proc or /sys, at most 64 KiB; "" where it cannot be read.
std::string system_file(const std::string& path);

}  // namespace kvrt
