// Files of an evaluation: what names their contents, and writing them.
#pragma once

#include "bindings/cli/common.h"

namespace cli::eval {

std::string sha256(std::string_view text);                                               // 64 hex digits
kvrt_status sha256_of_file(const std::string& path, std::string* out, uint64_t* bytes);  // CANCELLED: Ctrl-C came
kvrt_status write_file(const std::string& path, const std::string& text);

}  // namespace cli::eval
