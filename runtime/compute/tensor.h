// DType and TensorView: the type and the shape of a model file's bytes. The numbers are GGUF's ggml_type.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace kvrt {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};
inline constexpr uint32_t kDTypeEnd = 40;  // one more than the largest number

struct DTypeInfo {
  DType type;
  const char* name;
  uint32_t block_elems;  // elements per block
  uint32_t block_bytes;
};
const DTypeInfo* dtype_info(uint32_t ggml_type);  // null when kvrt has no such type; in quants.cc
std::span<const DTypeInfo> dtypes();              // all of them

// A matrix' rows in another order than the file's: that has runs of rows, each with the same pieces; here the first piece of every run
// comes first, then the second one of every run ..
struct RowDeal {
  struct Piece {
    uint64_t first = 0, rows = 0;  // in a run; all pieces together have its rows
  };
  uint64_t run = 0;  // rows; 0: the order is the file's
  std::array<Piece, 4> pieces{};
};

// Borrowed tensor in file order: ne[0] is the contiguous dimension. A weight matrix is ne[0] = cols (inputs), ne[1] = rows (outputs).
struct TensorView {
  DType type = DType::kF32;
  std::array<uint64_t, 4> ne{1, 1, 1, 1};
  std::span<const uint8_t> data;
  RowDeal deal{};
  uint64_t cols() const { return ne[0]; }
  uint64_t rows() const { return ne[1] * ne[2] * ne[3]; }
  // The file's number of row `i`.
  uint64_t row_in_file(uint64_t i) const {
    for (const auto& [first, rows_of_run] : deal.pieces) {
      if (rows_of_run == 0) break;
      const uint64_t all = rows() / deal.run * rows_of_run;
      if (i < all) return i / rows_of_run * deal.run + first + i % rows_of_run;
      i -= all;
    }
    return i;
  }
};

}  // namespace kvrt
