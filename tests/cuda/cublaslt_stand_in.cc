#include "tests/cuda/cublaslt_stand_in.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/emulation/device_functions.h"
#include "tests/cuda/emulation/machine.h"

namespace kvrt::test {
namespace {

using cuda::CublasLt;
using namespace cuda::lt;

constexpr int kOk = 0;
constexpr int kDescTransB = 4, kDescScaleA = 17, kDescScaleB = 18;
constexpr int kPreferAlignD = kPreferAlignA + 3;
constexpr uint32_t kEpilogueNone = 1, kAllReductions = 7;
constexpr uint64_t kAlgoMark = 0x6b7672744c74;  // in the first word of an algorithm

struct Object {
  enum class Kind : uint8_t { kHandle, kDesc, kLayout, kPreference } kind;
  // kDesc
  int32_t trans_a = 0, trans_b = 0;
  uint32_t epilogue = kEpilogueNone;
  const float *bias = nullptr, *scale_a = nullptr, *scale_b = nullptr;
  // kLayout
  int type = 0;
  uint64_t rows = 0, cols = 0;
  int64_t stride = 0;
  // kPreference
  uint64_t workspace_bytes = 0;
  uint32_t reductions = kAllReductions, alignment[4] = {256, 256, 256, 256};
};

struct State {
  std::mutex mutex;
  LtBehaviour behaviour;
  LtSeen seen;
  std::map<const void*, Object> objects;
};
State& state() {
  static State* const s = new State;  // a backend may outlive main
  return *s;
}

void need(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "cuBLASLt's stand-in: %s\n", what);
  std::abort();
}

int make(void** out, Object object) {
  State& s = state();
  void* const key = std::malloc(1);
  s.objects.emplace(key, object);
  ++s.seen.live;
  *out = key;
  return kOk;
}
Object& object(const void* p, Object::Kind kind) {
  const auto at = state().objects.find(p);
  need(at != state().objects.end() && at->second.kind == kind, "an object that is not there");
  return at->second;
}
int destroy(void* p, Object::Kind kind) {
  const std::lock_guard lock(state().mutex);
  (void)object(p, kind);
  state().objects.erase(p);
  --state().seen.live;
  std::free(p);
  return kOk;
}

template <typename T>
int set(T* field, const void* value, size_t bytes) {
  need(bytes == sizeof(T), "an attribute of another size");
  std::memcpy(field, value, bytes);
  return kOk;
}

// ---- objects

int lt_create(void** handle) {
  const std::lock_guard lock(state().mutex);
  if (state().behaviour.create_status != 0) return state().behaviour.create_status;
  return make(handle, {.kind = Object::Kind::kHandle});
}
int lt_destroy(void* handle) { return destroy(handle, Object::Kind::kHandle); }
size_t lt_version() { return 130000; }

int desc_create(void** desc, int compute_type, int scale_type) {
  const std::lock_guard lock(state().mutex);
  need(compute_type == kCompute32F && scale_type == kF32, "a product that is not summed and scaled in f32");
  return make(desc, {.kind = Object::Kind::kDesc});
}
int desc_set(void* desc, int attribute, const void* value, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  Object& d = object(desc, Object::Kind::kDesc);
  switch (attribute) {
    case kDescTransA:
      return set(&d.trans_a, value, bytes);
    case kDescTransB:
      return set(&d.trans_b, value, bytes);
    case kDescEpilogue:
      return set(&d.epilogue, value, bytes);
    case kDescBias:
      return set(&d.bias, value, bytes);
    case kDescScaleA:
      return set(&d.scale_a, value, bytes);
    case kDescScaleB:
      return set(&d.scale_b, value, bytes);
  }
  need(false, "an attribute of a product that it does not know");
  return kInvalidValue;
}
int desc_destroy(void* desc) { return destroy(desc, Object::Kind::kDesc); }

int layout_create(void** layout, int type, uint64_t rows, uint64_t cols, int64_t stride) {
  const std::lock_guard lock(state().mutex);
  need(rows > 0 && cols > 0 && stride >= static_cast<int64_t>(rows), "a matrix without elements, or columns that overlap");
  return make(layout, {.kind = Object::Kind::kLayout, .type = type, .rows = rows, .cols = cols, .stride = stride});
}
int layout_destroy(void* layout) { return destroy(layout, Object::Kind::kLayout); }

int preference_create(void** preference) {
  const std::lock_guard lock(state().mutex);
  return make(preference, {.kind = Object::Kind::kPreference});
}
int preference_set(void* preference, int attribute, const void* value, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  Object& p = object(preference, Object::Kind::kPreference);
  if (attribute == kPreferWorkspace) return set(&p.workspace_bytes, value, bytes);
  if (attribute == kPreferReduction) return set(&p.reductions, value, bytes);
  need(attribute >= kPreferAlignA && attribute <= kPreferAlignD, "a preference that it does not know");
  return set(&p.alignment[attribute - kPreferAlignA], value, bytes);
}
int preference_destroy(void* preference) { return destroy(preference, Object::Kind::kPreference); }

// ---- products

struct Operands {
  const Object *desc, *a, *b, *c, *d;
};

uint64_t size_of(int type) { return type == kF32 ? 4 : type == kF16 ? 2 : 1; }

// Documented: op(A) is m x k, op(B) k x n, C and D m x n. Of the table of types: f16 or e4m3 in, f32 out.
LtProduct product_of(const Operands& o) {
  LtProduct p;
  p.type = o.a->type;
  p.trans_a = o.desc->trans_a != 0;
  p.trans_b = o.desc->trans_b != 0;
  p.bias = o.desc->epilogue == kEpilogueBias;
  need(p.bias || o.desc->epilogue == kEpilogueNone, "an epilogue that it does not know");
  p.m = p.trans_a ? o.a->cols : o.a->rows;
  p.k = p.trans_a ? o.a->rows : o.a->cols;
  p.n = p.trans_b ? o.b->rows : o.b->cols;
  need((p.trans_b ? o.b->cols : o.b->rows) == p.k, "op(A) and op(B) do not fit");
  for (const Object* out : {o.c, o.d}) need(out->rows == p.m && out->cols == p.n, "C or D does not fit");
  need(o.b->type == p.type && (p.type == kF16 || p.type == kLtF8E4m3), "types of A and B");
  need(o.c->type == kF32 && o.d->type == kF32, "types of C and D");
  need((!o.desc->scale_a && !o.desc->scale_b) || p.type == kLtF8E4m3, "a scale of f16");
  need(!p.bias || p.type == kF16, "e4m3 to f32 has a bias of bf16, which this does not know");
  return p;
}

// The documented limits of e4m3: A transposed, B not, every column a multiple of 16 bytes.
bool documented(const LtProduct& p, const Operands& o) {
  if (p.type != kLtF8E4m3) return true;
  const auto whole = [](const Object* x) { return x->rows * size_of(x->type) % 16 == 0 && x->stride * size_of(x->type) % 16 == 0; };
  return p.trans_a && !p.trans_b && whole(o.a) && whole(o.b) && whole(o.c) && whole(o.d);
}

uint64_t alignments(const Object& preference) {
  uint64_t all = 0;
  for (int i = 3; i >= 0; --i) all = all << 16 | preference.alignment[i];
  return all;
}

CublasLt::Algo algo_of(const LtProduct& p, uint64_t alignments) {
  return {{kAlgoMark, p.m, p.k, static_cast<uint64_t>(p.type), uint64_t{p.trans_a} << 1 | uint64_t{p.trans_b}, p.bias, alignments, 0}};
}

int heuristic(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int asked, CublasLt::Heuristic* results,
              int* found) {
  const std::lock_guard lock(state().mutex);
  State& s = state();
  (void)object(handle, Object::Kind::kHandle);
  using enum Object::Kind;
  const Operands o{&object(desc, kDesc), &object(a, kLayout), &object(b, kLayout), &object(c, kLayout), &object(d, kLayout)};
  const Object& p = object(preference, kPreference);
  need(asked > 0, "no results asked for");
  const LtProduct product = product_of(o);
  ++s.seen.heuristics;
  s.seen.asked = product;
  s.seen.workspace_bytes = p.workspace_bytes;
  s.seen.reductions = p.reductions;
  *found = 0;
  if (!documented(product, o) || p.workspace_bytes < kLtWorkspaceBytes) return kNotSupported;
  if (s.behaviour.has_algorithm && !s.behaviour.has_algorithm(product)) return kNotSupported;
  *found = 1;
  results[0] = {};
  results[0].algo = algo_of(product, alignments(p));
  results[0].workspace_bytes = kLtWorkspaceBytes;
  return kOk;
}

struct MatmulArgs {
  const uint8_t *a, *b;
  const float *c, *bias, *scale_a, *scale_b;
  float* d;
  LtProduct product;
  uint64_t stride_a, stride_b, stride_c, stride_d;
  float alpha, beta;
};

float element(const uint8_t* matrix, int type, uint64_t at) {
  if (type == kLtF8E4m3) return lt_e4m3_to_float(matrix[at]);
  uint16_t half = 0;
  std::memcpy(&half, matrix + 2 * at, sizeof half);
  return emulation::f16_to_float(half);
}

// A block has 16 columns of D, each element one chain over k, descending: not the order of kvrt's own kernel.
constexpr uint64_t kColumns = 16;
void matmul_kernel(const MatmulArgs args) {
  const LtProduct& p = args.product;
  const uint64_t first = blockIdx.x * kColumns, columns = std::min(kColumns, p.n - first);
  float scale = args.alpha;
  for (const float* one : {args.scale_a, args.scale_b}) scale *= one ? *one : 1;
  std::vector<float> b(p.k * columns);
  for (uint64_t k = 0; k < p.k; ++k) {
    for (uint64_t j = 0; j < columns; ++j) {
      const uint64_t column = first + j;
      b[k * columns + j] = element(args.b, p.type, p.trans_b ? k * args.stride_b + column : column * args.stride_b + k);
    }
  }
  for (uint64_t i = 0; i < p.m; ++i) {
    float sums[kColumns] = {};
    for (uint64_t k = p.k; k-- > 0;) {
      const float a = element(args.a, p.type, p.trans_a ? i * args.stride_a + k : k * args.stride_a + i);
      for (uint64_t j = 0; j < columns; ++j) sums[j] += a * b[k * columns + j];
    }
    for (uint64_t j = 0; j < columns; ++j) {
      float value = scale * sums[j];
      if (args.beta != 0) value += args.beta * args.c[(first + j) * args.stride_c + i];
      if (args.bias) value += args.bias[i];
      args.d[(first + j) * args.stride_d + i] = value;
    }
  }
}

// The whole matrix lies in one allocation of the device, where the algorithm was told it would.
void need_matrix(const void* p, const Object& layout, uint64_t alignment) {
  need(reinterpret_cast<uintptr_t>(p) % alignment == 0, "a matrix is not aligned as the heuristic was told");
  const uint64_t elements = static_cast<uint64_t>(layout.stride) * (layout.cols - 1) + layout.rows;
  need(emulation::machine().memory.holds(p, elements * size_of(layout.type)), "a matrix that does not lie in device memory");
}

int start(const MatmulArgs& args, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<uint32_t>((args.product.n + kColumns - 1) / kColumns));
  config.blockDim = dim3(1);
  config.stream = stream;
  constexpr int kExecutionFailed = 13;
  return cudaLaunchKernelEx(&config, matmul_kernel, args) == cudaSuccess ? kOk : kExecutionFailed;
}

int matmul(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
           const void* c, void* c_layout, void* d, void* d_layout, const CublasLt::Algo* algo, void* workspace, size_t workspace_bytes,
           cudaStream_t stream) {
  const std::lock_guard machine_lock(emulation::machine().mutex);  // before the other, as where a launch takes it
  const std::lock_guard lock(state().mutex);
  State& s = state();
  (void)object(handle, Object::Kind::kHandle);
  using enum Object::Kind;
  const Operands o{&object(desc, kDesc), &object(a_layout, kLayout), &object(b_layout, kLayout), &object(c_layout, kLayout),
                   &object(d_layout, kLayout)};
  const LtProduct p = product_of(o);
  ++s.seen.matmuls;
  need(algo && algo->data[0] == kAlgoMark, "no algorithm of a heuristic");
  const CublasLt::Algo own = algo_of(p, algo->data[6]);
  need(std::equal(std::begin(own.data), std::end(own.data), algo->data), "an algorithm of another product");
  need(workspace_bytes >= kLtWorkspaceBytes && reinterpret_cast<uintptr_t>(workspace) % 16 == 0 &&
           emulation::machine().memory.holds(workspace, workspace_bytes),
       "a workspace that the algorithm cannot use");
  const auto alignment = [&](int matrix) { return algo->data[6] >> 16 * matrix & 0xffff; };
  need_matrix(a, *o.a, alignment(0));
  need_matrix(b, *o.b, alignment(1));
  need_matrix(d, *o.d, alignment(3));
  float one = 0, other = 0;  // host memory: the default pointer mode
  std::memcpy(&one, alpha, sizeof one);
  std::memcpy(&other, beta, sizeof other);
  if (other != 0) need_matrix(c, *o.c, alignment(2));
  need(!p.bias || emulation::machine().memory.holds(o.desc->bias, p.m * sizeof(float)), "a bias that does not lie in device memory");
  if (s.behaviour.matmul_status != 0 && !s.behaviour.fails_after_queueing) return s.behaviour.matmul_status;
  const auto stride = [](const Object* layout) { return static_cast<uint64_t>(layout->stride); };
  const int status =
      start({static_cast<const uint8_t*>(a), static_cast<const uint8_t*>(b), static_cast<const float*>(c), p.bias ? o.desc->bias : nullptr,
             o.desc->scale_a, o.desc->scale_b, static_cast<float*>(d), p, stride(o.a), stride(o.b), stride(o.c), stride(o.d), one, other},
            stream);
  return s.behaviour.matmul_status != 0 ? s.behaviour.matmul_status : status;
}

}  // namespace

float lt_e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return std::nanf("");
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9) : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

void lt_reset(LtBehaviour behaviour) {
  const std::lock_guard lock(state().mutex);
  state().behaviour = std::move(behaviour);
  state().seen = {.live = state().seen.live, .asked = {}};
}

LtSeen lt_seen() {
  const std::lock_guard lock(state().mutex);
  return state().seen;
}

const CublasLt& cublaslt_stand_in() {
  static const CublasLt table{lt_create,      lt_destroy,        lt_version,     desc_create,        desc_set,  desc_destroy, layout_create,
                              layout_destroy, preference_create, preference_set, preference_destroy, heuristic, matmul};
  return table;
}

}  // namespace kvrt::test
