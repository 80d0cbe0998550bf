// GemmLibrary: cuBLASLt, found at run time. Where there is none kvrt's own gemm takes its place.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cuda/backend/device_context.h"
#include "cuda/gemm/cublaslt_abi.h"

namespace kvrt::cuda {

// The library's functions, loaded once and never unloaded. The message of UNSUPPORTED says what is missing, and how to get it.
Result<CublasLt> load_cublaslt();

// One thread at a time.
class GemmLibrary {
 public:
  static constexpr size_t kWorkspaceBytes = 32u << 20;  // NVIDIA recommends this for Hopper
  // A weight's shape has one algorithm, whatever the rows, and none that adds up in parts: a row's result depends on no other.
  // nondeterministic: the library may choose by the rows, and split the sums.
  static Result<std::unique_ptr<GemmLibrary>> open(const CublasLt& functions, DeviceContext* context, bool nondeterministic);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // out [n, rows] = x [n, cols] · w [rows, cols]ᵀ (+ bias [rows]); x and w f16, sums and out f32. accumulate: out += that. False: the
  // library cannot do this, now or later, and nothing was queued. An error (DEVICE): the content of out is undefined.
  Result<bool> gemm(const uint16_t* w, uint32_t rows, uint32_t cols, const uint16_t* x, uint32_t n, const float* bias, bool accumulate,
                    float* out, cudaStream_t stream);
  // The plain product of e4m3: without scales or a bias, and it does not accumulate.
  Result<bool> gemm_e4m3(const uint8_t* w, uint32_t rows, uint32_t cols, const uint8_t* x, uint32_t n, float* out, cudaStream_t stream);
  // Whether gemm_e4m3 can do this product. Never where rows or cols are no multiple of 16.
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
  // One product of x [n, cols] and w, as the library wants it.
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
