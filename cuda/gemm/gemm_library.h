// GemmLibrary: cuBLASLt, found at run time. kvrt's own gemm is in its place where there is none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cuda/backend/device_context.h"
#include "cuda/gemm/cublaslt_abi.h"

namespace kvrt::cuda {

// The library's functions, loaded once and never unloaded. UNSUPPORTED: what is missing, and how to get it.
Result<CublasLt> load_cublaslt();

// One thread at a time.
class GemmLibrary {
 public:
  static constexpr size_t kWorkspaceBytes = 32u << 20;  // what NVIDIA recommends for Hopper
  // One algorithm for a weight's shape, whatever the rows, and none that adds up in parts: a row's result depends on no other.
  // nondeterministic: the library may choose for the rows, and split the sums.
  static Result<std::unique_ptr<GemmLibrary>> open(const CublasLt& functions, DeviceContext* context, bool nondeterministic);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // out [n, rows] = x [n, cols] · w [rows, cols]ᵀ (+ bias [rows]); x and w f16, sums and out f32. accumulate: out += that. False: it has
  // no way to do this, now or later, and nothing was queued. An error (DEVICE): nobody knows what is in out.
  Result<bool> gemm(const uint16_t* w, uint32_t rows, uint32_t cols, const uint16_t* x, uint32_t n, const float* bias, bool accumulate,
                    float* out, cudaStream_t stream);
  // The same of e4m3, as it is: without scales, a bias, or anything that is there before.
  Result<bool> gemm_e4m3(const uint8_t* w, uint32_t rows, uint32_t cols, const uint8_t* x, uint32_t n, float* out, cudaStream_t stream);
  // Whether it does that; rows and cols that are no multiple of 16: no.
  bool takes_e4m3(uint32_t rows, uint32_t cols, uint32_t n);
  std::string version() const;

 private:
  struct Plan {
    bool usable = false;
    CublasLt::Algo algo{};
    size_t workspace_bytes = 0;
  };
  struct Key {
    int type;
    uint32_t rows, cols, n;
    bool bias;
    auto operator<=>(const Key&) const = default;
  };
  class Problem;
  GemmLibrary(const CublasLt& functions, bool nondeterministic) : lt_(functions), nondeterministic_(nondeterministic) {}
  // x [n, cols] and w of a type, all of them as the library has them.
  struct Operands {
    int type;
    const void* w;
    uint32_t rows, cols;
    const void* x;
    uint32_t n;
    const float* bias;
  };
  Plan* plan(const Operands& operands);
  Result<bool> product(const Operands& operands, bool accumulate, float* out, cudaStream_t stream);

  CublasLt lt_;
  bool nondeterministic_;
  void* handle_ = nullptr;
  std::unique_ptr<Buffer> workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace kvrt::cuda
