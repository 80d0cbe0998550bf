// FORMAT: the file that names the layout of a store's directory, and the store. It is text, so that anybody can read it, with a checksum,
// so that damage is not taken for another layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/env.h"
#include "storage/values.h"

namespace kvrt {

inline constexpr uint32_t kStoreLayout = 1;  // the number in FORMAT

struct FormatFile {
  // kOld: by kvrt 0.1, which wrote the number alone. kStrange: no FORMAT, not even one with a flipped bit.
  enum class Kind { kMissing, kSound, kOld, kNewer, kDamaged, kStrange };
  Kind kind = Kind::kMissing;
  uint64_t layout = 0;        // kSound, kOld, kNewer
  std::optional<StoreId> id;  // kSound
};

inline constexpr size_t kFormatBytesMax = 512;

std::string format_text(const StoreId& id);
FormatFile parse_format(std::string_view text);

// INCOMPATIBLE if the layout is a later one.
Result<FormatFile> read_format(Env* env, const std::string& root);
// Makes FORMAT, or replaces a damaged one.
Status write_format(Env* env, const std::string& root, const StoreId& id);

}  // namespace kvrt
