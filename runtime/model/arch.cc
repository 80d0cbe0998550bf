// Architectures as data. A new one is a row here and a golden test.
#include "runtime/model/model.h"

namespace kvrt {
namespace {

constexpr Arch kArchs[] = {
    {"llama", RopeStyle::kInterleaved, /*qkv_bias=*/false},
    {"qwen2", RopeStyle::kHalves, /*qkv_bias=*/true},
};

}  // namespace

const Arch* find_arch(std::string_view name) {
  for (const Arch& arch : kArchs) {
    if (name == arch.name) return &arch;
  }
  return nullptr;
}

}  // namespace kvrt
