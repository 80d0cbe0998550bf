// FORMAT: which layout a store's directory has, and which store it is. Text, so that anybody can read it; with a checksum, so that damage is
// not taken for another layout.
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
  // kOld: of 0.1, which wrote the number alone. kStrange: nothing that a store's could have become by one flipped bit.
  enum class Kind { kMissing, kSound, kOld, kNewer, kDamaged, kStrange };
  Kind kind = Kind::kMissing;
  uint64_t layout = 0;        // kSound, kOld, kNewer
  std::optional<StoreId> id;  // kSound
};

inline constexpr size_t kFormatBytesMax = 512;

std::string format_text(const StoreId& id);
FormatFile parse_format(std::string_view text);

// INCOMPATIBLE: a later layout.
Result<FormatFile> read_format(Env* env, const std::string& root);
// Makes FORMAT, also in the place of one that is damaged.
Status write_format(Env* env, const std::string& root, const StoreId& id);

}  // namespace kvrt
