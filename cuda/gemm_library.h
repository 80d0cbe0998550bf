// GemmLibrary: cuBLASLt, found at run time. kvrt's own gemm is in its place where there is none.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cuda/device_context.h"

namespace kvrt::cuda {

// What is called of cublasLt.h (its ABI since CUDA 11; docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API"). Statuses: 0 is success;
// handles and descriptors are pointers that the library makes.
struct CublasLt {
  struct Algo {
    uint64_t data[8];
  };
  struct Heuristic {
    Algo algo;
    size_t workspace_bytes;
    int32_t state;
    float waves;
    int32_t reserved[4];
  };
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  size_t (*version)();
  int (*desc_create)(void** desc, int compute_type, int scale_type);
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes);
  int (*desc_destroy)(void* desc);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t cols, int64_t stride);
  int (*layout_destroy)(void* layout);
  int (*preference_create)(void** preference);
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes);
  int (*preference_destroy)(void* preference);
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int asked, Heuristic* results,
                   int* found);
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
                const void* c, void* c_layout, void* d, void* d_layout, const Algo* algo, void* workspace, size_t workspace_bytes,
                cudaStream_t stream);
};

// The library's functions, loaded once and never unloaded. UNSUPPORTED: what is missing.
Result<CublasLt> load_cublaslt();

// One thread at a time.
class GemmLibrary {
 public:
  // One algorithm for a weight's shape, whatever the rows, and none that adds up in parts: a row's result depends on no other.
  // nondeterministic: the library may choose for the rows, and split the sums.
  static Result<std::unique_ptr<GemmLibrary>> open(const CublasLt& functions, DeviceContext* context, bool nondeterministic);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // out [n, rows] = x [n, cols] · w [rows, cols]ᵀ (+ bias [rows]); x and w f16, sums and out f32. accumulate: out += that. False: it has
  // no way to do this, and nothing was queued.
  bool gemm(const uint16_t* w, uint32_t rows, uint32_t cols, const uint16_t* x, uint32_t n, const float* bias, bool accumulate, float* out,
            cudaStream_t stream);
  std::string version() const;

 private:
  struct Plan {
    bool usable = false;
    CublasLt::Algo algo{};
    size_t workspace_bytes = 0;
  };
  struct Key {
    uint32_t rows, cols, n;
    bool bias;
    auto operator<=>(const Key&) const = default;
  };
  class Problem;
  GemmLibrary(const CublasLt& functions, bool nondeterministic) : lt_(functions), nondeterministic_(nondeterministic) {}
  const Plan& plan(const Key& key, const float* bias);

  CublasLt lt_;
  bool nondeterministic_;
  void* handle_ = nullptr;
  std::unique_ptr<Buffer> workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace kvrt::cuda
