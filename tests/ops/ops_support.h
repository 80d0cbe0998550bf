// Helpers of the op tests: seeded values with extremes, random tensors in file layout, backends by instruction set.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/compute/backend.h"
#include "runtime/compute/cpu/kernels.h"
#include "runtime/compute/quant/quants.h"
#include "tests/support/sanitized.h"

namespace kvrt::test {

// Null where the machine lacks the instruction set.
inline std::unique_ptr<Backend> open_backend(const std::string& isa, uint32_t threads = 1) {
  auto opened = open_cpu({threads, isa}, nullptr);
  if (!opened.is_ok()) return nullptr;
  return std::move(opened).value();
}

// Every kernel table that this machine can run.
inline const std::vector<std::string>& all_isas() {
  static const std::vector<std::string> isas = [] {
    std::vector<std::string> names;
    for (const KernelTableState& table : cpu_kernel_tables()) {
      if (table.supported) names.push_back(table.isa);
    }
    return names;
  }();
  return isas;
}

// Backends of the tables that must give scalar's bits.
inline std::vector<std::unique_ptr<Backend>> vector_backends(uint32_t threads) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const std::string& isa : all_isas()) {
    if (isa == "scalar") continue;
    backends.push_back(open_backend(isa, threads));
    EXPECT_NE(backends.back(), nullptr) << isa;
    if (backends.back() == nullptr) backends.pop_back();
  }
  return backends;
}

inline std::vector<const CpuKernels*> vector_tables() {
  std::vector<const CpuKernels*> tables;
  for (const CpuKernels* kernels : {avx2_kernels(), avx512_kernels()}) {
    if (std::ranges::find(all_isas(), kernels->isa) != all_isas().end()) tables.push_back(kernels);
  }
  return tables;
}

class Random {
 public:
  explicit Random(uint32_t seed) : runtime_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(runtime_() % n); }
  float normal() { return normal_(runtime_); }
  std::vector<float> floats(size_t n, float scale = 1.0f) {
    std::vector<float> v(n);
    for (float& f : v) f = normal() * scale;
    return v;
  }
  // Blocks of ordinary values, of zeros, of denormals, of one huge value, of equal magnitudes (quantized to ±127).
  std::vector<float> extremes(size_t n) {
    std::vector<float> v = floats(n);
    for (size_t b = 0; b < n; b += 32) {
      const uint32_t kind = below(6);
      for (size_t i = b; i < std::min(n, b + 32); ++i) {
        if (kind == 0) v[i] = 0.0f;
        if (kind == 1) v[i] = (below(2) ? 1.0f : -1.0f) * 1e-41f * static_cast<float>(below(900));
        if (kind == 2) v[i] = below(2) ? 3.0f : -3.0f;
        if (kind == 3 && i % 32 == 5) v[i] = 1e30f;
      }
    }
    return v;
  }

 private:
  std::mt19937 runtime_;
  std::normal_distribution<float> normal_;
};

struct Tensor {
  DType type;
  uint32_t rows, cols;
  std::vector<uint8_t> bytes;
  TensorView view() const { return {type, {cols, rows, 1, 1}, bytes}; }
  std::vector<float> dequantized() const {
    std::vector<float> out(uint64_t{rows} * cols);
    const uint64_t row_bytes = bytes.size() / rows;
    for (uint32_t r = 0; r < rows; ++r) dequantize_row(type, bytes.data() + r * row_bytes, cols, out.data() + uint64_t{r} * cols);
    return out;
  }
};

// The places of the f16 fields in a block; -1: there is none. A reading of the format's own, not kvrt's.
struct HalfFields {
  int scale, minimum;
};
inline HalfFields half_fields(DType type) {
  switch (type) {
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kQ6_K:
      return {208, -1};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kF32:
    case DType::kBF16:
    case DType::kMXFP4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

// Random quants with blocks of extremes: all bits set (the largest integers and scales), all bytes 0x80, 0 or 0x7f, denormal scales.
inline Tensor random_tensor(DType type, uint32_t rows, uint32_t cols, Random* random) {
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(type));
  Tensor t{type, rows, cols, std::vector<uint8_t>(uint64_t{rows} * cols / info.block_elems * info.block_bytes)};
  const HalfFields fields = half_fields(type);
  const auto put_f16 = [&t](uint64_t at, float f) {
    const uint16_t h = f32_to_f16(f);
    std::memcpy(t.bytes.data() + at, &h, sizeof h);
  };
  for (uint64_t at = 0; at < t.bytes.size(); at += info.block_bytes) {
    if (type == DType::kF32 || type == DType::kBF16) {
      const float f = random->normal() * 0.1f;
      std::memcpy(t.bytes.data() + at, reinterpret_cast<const uint8_t*>(&f) + 4 - info.block_bytes, info.block_bytes);
    } else if (type == DType::kF16) {
      put_f16(at, random->below(50) == 0 ? 6e-8f * static_cast<float>(random->below(100)) : random->normal() * 0.1f);
    } else {
      const uint32_t kind = random->below(12);
      constexpr uint8_t kExtremes[] = {0xff, 0x80, 0x00, 0x7f};
      for (uint32_t i = 0; i < info.block_bytes; ++i) {
        t.bytes[at + i] = kind < 4 ? kExtremes[kind] : static_cast<uint8_t>(random->below(256));
      }
      if (type == DType::kMXFP4) t.bytes[at] = static_cast<uint8_t>(kind == 5 ? random->below(3) : 110 + random->below(20));
      if (fields.scale >= 0) put_f16(at + static_cast<uint32_t>(fields.scale), kind == 5 ? 1e-7f : random->normal() * 0.02f);
      if (fields.minimum >= 0) put_f16(at + static_cast<uint32_t>(fields.minimum), random->normal() * 0.1f);
    }
  }
  return t;
}

inline std::vector<DType> all_types() {
  std::vector<DType> types;
  for (const DTypeInfo& info : dtypes()) types.push_back(info.type);
  return types;
}
inline const char* name_of(DType type) { return dtype_info(static_cast<uint32_t>(type))->name; }
// The widths that are whole blocks of the type.
inline std::vector<uint32_t> widths(DType type, std::initializer_list<uint32_t> small, std::initializer_list<uint32_t> superblocks) {
  return dtype_info(static_cast<uint32_t>(type))->block_elems == 256 ? superblocks : small;
}

inline std::unique_ptr<Weight> make_weight(Backend* backend, const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& t : tensors) views.push_back(t.view());
  auto weight = backend->make_weight(views);
  EXPECT_TRUE(weight.is_ok()) << weight.status().message();
  return weight.is_ok() ? std::move(weight).value() : nullptr;
}

// Index of the first element whose bits differ, or -1.
inline int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<int64_t>(i);
  }
  return -1;
}

#define EXPECT_SAME_BITS(a, b) EXPECT_EQ(::kvrt::test::first_difference((a), (b)), -1)

}  // namespace kvrt::test
