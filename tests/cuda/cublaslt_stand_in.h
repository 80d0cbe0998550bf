// cuBLASLt's functions that cuda/gemm/cublaslt_abi.h declares, over the emulated device, as NVIDIA documents them: products of f16 or e4m3
// matrices that really are computed, in float, as a kernel of the stream. A mistake of a caller (an object that is not there, memory that
// is too small or not aligned as it was said to be, an algorithm of another product) ends the program with a message. Thread-safe.
#pragma once

#include <functional>

#include "cuda/gemm/cublaslt_abi.h"

namespace kvrt::test {

inline constexpr int kLtF8E4m3 = 28;
inline constexpr uint64_t kLtWorkspaceBytes = 1 << 20;  // the workspace that each of its algorithms asks for

struct LtProduct {  // D [m, n] = op(A) · op(B) over k
  int type = 0;     // of A and B
  bool trans_a = false, trans_b = false, bias = false;
  uint64_t m = 0, n = 0, k = 0;
};

struct LtBehaviour {
  int create_status = 0;
  int matmul_status = 0;                                  // of every product from now on
  bool fails_after_queueing = false;                      // and the product runs all the same
  std::function<bool(const LtProduct&)> has_algorithm{};  // empty: for all that are documented
};

struct LtSeen {
  int64_t live = 0;  // handles, descriptors, layouts and preferences
  uint64_t heuristics = 0, matmuls = 0;
  // The request of the last heuristic:
  LtProduct asked;
  uint64_t workspace_bytes = 0;
  uint32_t reductions = 0;  // the mask
};

void lt_reset(LtBehaviour behaviour = {});  // and LtSeen, but for `live`
LtSeen lt_seen();
const cuda::CublasLt& cublaslt_stand_in();

// The number of an e4m3, by its definition.
float lt_e4m3_to_float(uint8_t bits);

}  // namespace kvrt::test
