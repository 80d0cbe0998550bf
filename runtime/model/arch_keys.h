// ArchKeys: reads the metadata of a file below its architecture's prefix, and the rotation.
#pragma once

#include <string>

#include "runtime/model/model.h"

namespace kvrt {

// Borrows both. A wrong value is named with the file, the key, what was expected and what was found.
class ArchKeys {
 public:
  ArchKeys(const GgufFile& file, const Arch& arch) : file_(file), arch_(arch) {}

  std::string key(const char* name) const { return std::string(arch_.name) + "." + name; }
  // Or an array of this number for each block.
  Status read_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const;
  // An absent key leaves *out as it is; a present one must be right.
  Status read_optional_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const;
  // A value outside [min, max], NaN included, is damage.
  Status read_float(const char* name, double min, double max, float* out) const;
  Status read_optional_float(const char* name, double min, double max, float* out) const;
  Status read_scale(const char* name, float* out) const;  // optional; 0 is as good as absent
  Status unsupported(const std::string& name, const std::string& why) const;

 private:
  Status read_same(const char* name, std::span<const int64_t> numbers, uint64_t blocks, uint64_t min, uint64_t max, uint32_t* out) const;

 protected:
  const GgufFile& file_;
  const Arch& arch_;
};

// Which blocks of the file are mixers and which are MLPs, where each is one of them.
Status read_blocks(const ArchKeys& keys, ModelDims* dims);
// Which layers of dims have no attention, by their number of KV heads or by keys, and their shape.
Status read_recurrent(const ArchKeys& keys, std::span<const uint32_t> kv_heads, ModelDims* dims);

// Which layers of dims, whose heads are counted, have windows, their heads' dimensions, and which ones have no K and V.
Status read_windows(const ArchKeys& keys, ModelDims* dims);

// The rotations of dims, whose heads are known, and what the scaling of RoPE does to the scores.
Status read_rope(const ArchKeys& keys, ModelDims* dims);

}  // namespace kvrt
