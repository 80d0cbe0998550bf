#include "cuda/backend/gemm_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "runtime/base/limits.h"

#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/emulator.h"
#endif

namespace kvrt::cuda {

using namespace lt;

namespace {

constexpr uint32_t kAlignment = 16;  // bytes; every matrix and every bias has it

bool aligned(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(pointers, [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; });
}

template <typename F>
bool find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

constexpr char kWhereToGet[] =
    "NVIDIA's package libcublas-13-0 has it (apt, dnf), or pip's nvidia-cublas with its folder nvidia/cu13/lib in LD_LIBRARY_PATH";

Result<CublasLt> find_cublaslt() {
#ifdef KVRT_CUDA_EMULATION
  if (const CublasLt* table = emulation::cublaslt()) return *table;
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

}  // namespace

Result<CublasLt> load_cublaslt() {
  auto found = find_cublaslt();
  if (found.is_ok()) return found;
  return error(Code::kUnsupported, Detail::kNone, "%s; %s", found.status().message().c_str(), kWhereToGet);
}

// The descriptors of one product, column-major as the library wants it: D [rows, n] = Aᵀ · B with A = w [cols, rows], B = x [cols, n].
class GemmLibrary::Problem {
 public:
  Problem(const CublasLt& lt, int type, uint32_t rows, uint32_t cols, uint32_t n, const float* bias) : lt_(lt) {
    ok_ = lt.desc_create(&desc_, kCompute32F, kF32) == 0 && lt.desc_set(desc_, kDescTransA, &kTransposed, sizeof kTransposed) == 0 &&
          lt.layout_create(&a_, type, cols, rows, cols) == 0 && lt.layout_create(&b_, type, cols, n, cols) == 0 &&
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
               lt_.preference_set(preference, kPreferWorkspace, &GemmLibrary::kWorkspaceBytes, sizeof GemmLibrary::kWorkspaceBytes) == 0 &&
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

  int run(void* handle, const Plan& plan, const void* w, const void* x, bool accumulate, float* out, void* workspace,
          cudaStream_t stream) const {
    const float one = 1, beta = accumulate ? 1 : 0;
    return lt_.matmul(handle, desc_, &one, w, a_, x, b_, &beta, out, d_, out, d_, &plan.algo, workspace, plan.workspace_bytes, stream);
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

// The plan is chosen for a whole step's rows, and then used for fewer too.
GemmLibrary::Plan* GemmLibrary::plan(const Operands& o) {
  const Key key{o.type, o.rows, o.cols, nondeterministic_ ? o.n : kStepRowsMax, o.bias != nullptr};
  const auto [it, is_new] = plans_.try_emplace(key);
  if (!is_new) return &it->second;
  const Problem whole(lt_, o.type, o.rows, o.cols, key.n, o.bias);
  if (whole.ok()) whole.choose(handle_, nondeterministic_, &it->second);
  return &it->second;
}

Result<bool> GemmLibrary::product(const Operands& o, bool accumulate, float* out, cudaStream_t stream) {
  if (!aligned({o.w, o.x, o.bias, out})) return false;
  Plan* chosen = plan(o);
  if (!chosen->usable) return false;
  const Problem problem(lt_, o.type, o.rows, o.cols, o.n, o.bias);
  if (!problem.ok()) return false;
  const int status = problem.run(handle_, *chosen, o.w, o.x, accumulate, out, workspace_->data(), stream);
  if (status == 0) return true;
  if (status == kInvalidValue || status == kArchMismatch || status == kNotSupported) {
    chosen->usable = false;  // own kernels from now on: a weight's products must not change their kernel from step to step
    return false;
  }
  // A part of it may run: another kernel would add to the result of that.
  return Status::make(Code::kDevice, Detail::kNone, status,
                      "cublasLtMatmul gave status " + std::to_string(status) + " for " + std::to_string(o.rows) + " x " +
                          std::to_string(o.cols) + " and " + std::to_string(o.n) + " rows");
}

Result<bool> GemmLibrary::gemm(const uint16_t* w, uint32_t rows, uint32_t cols, const uint16_t* x, uint32_t n, const float* bias,
                               bool accumulate, float* out, cudaStream_t stream) {
  return product({kF16, w, rows, cols, x, n, bias}, accumulate, out, stream);
}

Result<bool> GemmLibrary::gemm_e4m3(const uint8_t* w, uint32_t rows, uint32_t cols, const uint8_t* x, uint32_t n, float* out,
                                    cudaStream_t stream) {
  if (!takes_e4m3(rows, cols, n)) return false;
  return product({kE4m3, w, rows, cols, x, n, nullptr}, /*accumulate=*/false, out, stream);
}

bool GemmLibrary::takes_e4m3(uint32_t rows, uint32_t cols, uint32_t n) {
  return rows % 16 == 0 && cols % 16 == 0 && plan({kE4m3, nullptr, rows, cols, nullptr, n, nullptr})->usable;
}

}  // namespace kvrt::cuda
