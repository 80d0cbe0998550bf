// The part of cublasLt.h that kvrt calls: its ABI since CUDA 11 (docs.nvidia.com/cuda/cublas, "Using the cuBLASLt API"), declared here so
// that a build needs neither NVIDIA's header nor its library. tests/cuda/cublaslt_abi_check.cc compares it with the header, if there is
// one.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace kvrt::cuda {

// Statuses: 0 is success. Handles and descriptors are pointers that the library makes.
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

// Numbers of cublasLt.h, cublas_api.h and library_types.h.
namespace lt {
inline constexpr int kCompute32F = 68, kF32 = 0, kF16 = 2, kE4m3 = 28;
inline constexpr int kDescTransA = 3, kDescEpilogue = 7, kDescBias = 8;
inline constexpr int kPreferWorkspace = 1, kPreferReduction = 3, kPreferAlignA = 5;  // then B, C and D
inline constexpr int32_t kTransposed = 1;
inline constexpr uint32_t kEpilogueBias = 4, kNoReduction = 0;
// The statuses of a product that the library refuses, before any work of it is queued.
inline constexpr int kInvalidValue = 7, kArchMismatch = 8, kNotSupported = 15;
}  // namespace lt

}  // namespace kvrt::cuda
