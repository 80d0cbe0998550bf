// cuda/gemm/cublaslt_abi.h against NVIDIA's own header: compiled where that is found, and then there is nothing to run.
#include "cuda/gemm/cublaslt_abi.h"

#include <cublasLt.h>

#include <type_traits>

namespace kvrt::cuda {
namespace {

using namespace lt;

// ---- numbers

static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kF32 == CUDA_R_32F && kF16 == CUDA_R_16F && kE4m3 == CUDA_R_8F_E4M3);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA && kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kPreferWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPreferReduction == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kPreferAlignA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kPreferAlignA + 1 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kPreferAlignA + 2 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kPreferAlignA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kTransposed == CUBLAS_OP_T && sizeof kTransposed == sizeof(cublasOperation_t));
static_assert(kEpilogueBias == CUBLASLT_EPILOGUE_BIAS && sizeof kEpilogueBias == sizeof(cublasLtEpilogue_t));
static_assert(kNoReduction == CUBLASLT_REDUCTION_SCHEME_NONE && sizeof kNoReduction == sizeof(uint32_t));
static_assert(CUBLAS_STATUS_SUCCESS == 0 && kInvalidValue == CUBLAS_STATUS_INVALID_VALUE);
static_assert(kArchMismatch == CUBLAS_STATUS_ARCH_MISMATCH && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);

// ---- structs

using Found = cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(CublasLt::Algo) == sizeof(cublasLtMatmulAlgo_t) && alignof(CublasLt::Algo) == alignof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLt::Heuristic) == sizeof(Found) && alignof(CublasLt::Heuristic) == alignof(Found));
static_assert(offsetof(CublasLt::Heuristic, algo) == offsetof(Found, algo));
static_assert(offsetof(CublasLt::Heuristic, workspace_bytes) == offsetof(Found, workspaceSize));
static_assert(offsetof(CublasLt::Heuristic, state) == offsetof(Found, state));
static_assert(offsetof(CublasLt::Heuristic, waves) == offsetof(Found, wavesCount));

// ---- functions

// Types that are passed alike: pointers, or integers and enumerators of one size.
template <typename A, typename B>
constexpr bool same_in_abi() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) return std::is_pointer_v<A> && std::is_pointer_v<B>;
  return (std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>)&&sizeof(A) == sizeof(B);
}
template <typename R, typename... As, typename S, typename... Bs>
constexpr bool same_in_abi(R (*)(As...), S (*)(Bs...)) {
  if constexpr (sizeof...(As) != sizeof...(Bs)) {
    return false;
  } else {
    return same_in_abi<R, S>() && (same_in_abi<As, Bs>() && ...);
  }
}
#define KVRT_SAME(field, function) static_assert(same_in_abi(decltype(CublasLt::field){}, static_cast<decltype(&function)>(nullptr)))
KVRT_SAME(create, cublasLtCreate);
KVRT_SAME(destroy, cublasLtDestroy);
KVRT_SAME(version, cublasLtGetVersion);
KVRT_SAME(desc_create, cublasLtMatmulDescCreate);
KVRT_SAME(desc_set, cublasLtMatmulDescSetAttribute);
KVRT_SAME(desc_destroy, cublasLtMatmulDescDestroy);
KVRT_SAME(layout_create, cublasLtMatrixLayoutCreate);
KVRT_SAME(layout_destroy, cublasLtMatrixLayoutDestroy);
KVRT_SAME(preference_create, cublasLtMatmulPreferenceCreate);
KVRT_SAME(preference_set, cublasLtMatmulPreferenceSetAttribute);
KVRT_SAME(preference_destroy, cublasLtMatmulPreferenceDestroy);
KVRT_SAME(heuristic, cublasLtMatmulAlgoGetHeuristic);
KVRT_SAME(matmul, cublasLtMatmul);
#undef KVRT_SAME

}  // namespace
}  // namespace kvrt::cuda
