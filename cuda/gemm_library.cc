#include "cuda/gemm_library.h"

#include <dlfcn.h>

#include <utility>

#include "runtime/base/limits.h"

namespace kvrt::cuda {
namespace {

constexpr size_t kWorkspaceBytes = 32u << 20;  // what NVIDIA recommends for Hopper

// Numbers of cublasLt.h, cublas_api.h and library_types.h.
constexpr int kCompute32F = 68, kF32 = 0, kF16 = 2;
constexpr int kDescTransA = 3, kDescEpilogue = 7, kDescBias = 8;
constexpr int kPreferWorkspace = 1, kPreferReduction = 3, kPreferAlignA = 5;  // then B, C and D
constexpr int32_t kTransposed = 1;
constexpr uint32_t kEpilogueBias = 4, kNoReduction = 0;
constexpr uint32_t kAlignment = 16;  // of every matrix, in bytes

template <typename F>
bool find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

Result<CublasLt> load_cublaslt() {
#ifdef KVRT_CUDA_EMULATION
  return error(Code::kUnsupported, Detail::kNone, "cuBLASLt does not run on an emulated device");
#else
  void* library = nullptr;
  std::string why;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    if (why.empty()) why = dlerror();
  }
  if (!library) return Status::make(Code::kUnsupported, Detail::kNone, 0, why);
  CublasLt f{};
  const bool all =
      find(library, "cublasLtCreate", &f.create) && find(library, "cublasLtDestroy", &f.destroy) &&
      find(library, "cublasLtGetVersion", &f.version) && find(library, "cublasLtMatmulDescCreate", &f.desc_create) &&
      find(library, "cublasLtMatmulDescSetAttribute", &f.desc_set) && find(library, "cublasLtMatmulDescDestroy", &f.desc_destroy) &&
      find(library, "cublasLtMatrixLayoutCreate", &f.layout_create) && find(library, "cublasLtMatrixLayoutDestroy", &f.layout_destroy) &&
      find(library, "cublasLtMatmulPreferenceCreate", &f.preference_create) &&
      find(library, "cublasLtMatmulPreferenceSetAttribute", &f.preference_set) &&
      find(library, "cublasLtMatmulPreferenceDestroy", &f.preference_destroy) &&
      find(library, "cublasLtMatmulAlgoGetHeuristic", &f.heuristic) && find(library, "cublasLtMatmul", &f.matmul);
  if (!all) return error(Code::kUnsupported, Detail::kNone, "libcublasLt lacks a function: %s", dlerror());
  return f;
#endif
}

// Descriptors of one product, column-major as the library has it: D [rows, n] = Aᵀ · B with A = w [cols, rows], B = x [cols, n].
class GemmLibrary::Problem {
 public:
  Problem(const CublasLt& lt, uint32_t rows, uint32_t cols, uint32_t n, const float* bias) : lt_(lt) {
    ok_ = lt.desc_create(&desc_, kCompute32F, kF32) == 0 && lt.desc_set(desc_, kDescTransA, &kTransposed, sizeof kTransposed) == 0 &&
          lt.layout_create(&a_, kF16, cols, rows, cols) == 0 && lt.layout_create(&b_, kF16, cols, n, cols) == 0 &&
          lt.layout_create(&d_, kF32, rows, n, rows) == 0;
    if (!ok_ || !bias) return;
    ok_ = lt.desc_set(desc_, kDescEpilogue, &kEpilogueBias, sizeof kEpilogueBias) == 0 &&
          lt.desc_set(desc_, kDescBias, &bias, sizeof bias) == 0;
  }
  ~Problem() {
    if (desc_) lt_.desc_destroy(desc_);
    for (void* layout : {a_, b_, d_}) {
      if (layout) lt_.layout_destroy(layout);
    }
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  bool ok() const { return ok_; }

  bool choose(void* handle, bool nondeterministic, Plan* plan) const {
    void* preference = nullptr;
    bool set = lt_.preference_create(&preference) == 0 &&
               lt_.preference_set(preference, kPreferWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes) == 0 &&
               (nondeterministic || lt_.preference_set(preference, kPreferReduction, &kNoReduction, sizeof kNoReduction) == 0);
    for (int matrix = 0; set && matrix < 4; ++matrix) {
      set = lt_.preference_set(preference, kPreferAlignA + matrix, &kAlignment, sizeof kAlignment) == 0;
    }
    CublasLt::Heuristic best{};
    int found = 0;
    if (set) set = lt_.heuristic(handle, desc_, a_, b_, d_, d_, preference, 1, &best, &found) == 0;
    if (preference) lt_.preference_destroy(preference);
    if (!set || found == 0 || best.state != 0) return false;
    *plan = {true, best.algo, best.workspace_bytes};
    return true;
  }

  bool run(void* handle, const Plan& plan, const uint16_t* w, const uint16_t* x, bool accumulate, float* out, void* workspace,
           cudaStream_t stream) const {
    const float one = 1, beta = accumulate ? 1 : 0;
    return lt_.matmul(handle, desc_, &one, w, a_, x, b_, &beta, out, d_, out, d_, &plan.algo, workspace, plan.workspace_bytes, stream) == 0;
  }

 private:
  const CublasLt& lt_;
  void *desc_ = nullptr, *a_ = nullptr, *b_ = nullptr, *d_ = nullptr;
  bool ok_ = false;
};

Result<std::unique_ptr<GemmLibrary>> GemmLibrary::open(const CublasLt& functions, DeviceContext* context, bool nondeterministic) {
  std::unique_ptr<GemmLibrary> library(new GemmLibrary(functions, nondeterministic));
  const int status = functions.create(&library->handle_);
  if (status != 0) return error(Code::kUnsupported, Detail::kNone, "cublasLtCreate gave status %d", status);
  KVRT_ASSIGN(library->workspace_, context->alloc(kWorkspaceBytes));
  return library;
}

GemmLibrary::~GemmLibrary() {
  if (handle_) lt_.destroy(handle_);
}

std::string GemmLibrary::version() const { return std::to_string(lt_.version()); }

// Chosen for a whole step's rows, and then used for fewer too.
const GemmLibrary::Plan& GemmLibrary::plan(const Key& key, const float* bias) {
  const auto [it, is_new] = plans_.try_emplace(key);
  if (!is_new) return it->second;
  const Problem whole(lt_, key.rows, key.cols, key.n, bias);
  if (whole.ok()) whole.choose(handle_, nondeterministic_, &it->second);
  return it->second;
}

bool GemmLibrary::gemm(const uint16_t* w, uint32_t rows, uint32_t cols, const uint16_t* x, uint32_t n, const float* bias, bool accumulate,
                       float* out, cudaStream_t stream) {
  const Plan& chosen = plan({rows, cols, nondeterministic_ ? n : kStepRowsMax, bias != nullptr}, bias);
  if (!chosen.usable) return false;
  const Problem problem(lt_, rows, cols, n, bias);
  return problem.ok() && problem.run(handle_, chosen, w, x, accumulate, out, workspace_->data(), stream);
}

}  // namespace kvrt::cuda
