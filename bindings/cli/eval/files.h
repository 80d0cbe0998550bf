// Files of an evaluation: what names their contents, and writing them.
#pragma once

#include "bindings/cli/common.h"

namespace cli::eval {

std::string sha256(std::string_view text);  // 64 hex digits
// Of all files of a model, of which path is the first, one after the other, and their bytes. CANCELLED: Ctrl-C came.
kvrt_status sha256_of_model(const std::string& path, std::string* out, uint64_t* bytes);
kvrt_status write_file(const std::string& path, const std::string& text);

}  // namespace cli::eval
