// Tokens drawn from rows of logits: the largest of a row, or the one that its Draw asks for, the very token that the host's sampler takes
// from the same logits. The order of a row's tokens, their integer weights and the cuts are those of runtime/engine/sampling/sampler.cc.
#include "cuda/kernels/device.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/limits.h"

namespace kvrt::cuda {
namespace {

constexpr uint32_t kThreads = 512, kWarps = kThreads / kWarp;
constexpr uint32_t kBatch = 16;  // elements that a thread loads at a time, by four loads of four
constexpr float kLowest = -3.402823466e38f;

// ---- the elements of a row

// Elements [first, first + 4) of a row; those beyond its end are `kLowest`.
__device__ __forceinline__ float4 load_four(const float* row, uint32_t first, uint32_t n, bool aligned) {
  if (aligned && first + 4 <= n) return *reinterpret_cast<const float4*>(row + first);
  float4 v = make_float4(kLowest, kLowest, kLowest, kLowest);
  if (first < n) v.x = row[first];
  if (first + 1 < n) v.y = row[first + 1];
  if (first + 2 < n) v.z = row[first + 2];
  if (first + 3 < n) v.w = row[first + 3];
  return v;
}

// The place of element i of a thread's batch: runs of four that lie 4 * kThreads apart.
__device__ __forceinline__ uint32_t place_of(uint32_t first, uint32_t i) { return first + i / 4 * (4 * kThreads) + i % 4; }

struct Batch {
  float x[kBatch];
  __device__ __forceinline__ void load(const float* row, uint32_t first, uint32_t n, bool aligned) {
#pragma unroll
    for (uint32_t i = 0; i < kBatch; i += 4) {
      const float4 v = load_four(row, place_of(first, i), n, aligned);
      x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
    }
  }
};

// Calls fn(batch, first) for each batch of the thread. The next one is under way meanwhile: a block is alone with its row, so nothing else
// hides the time that a load takes.
template <typename Fn>
__device__ __forceinline__ void each_batch(const float* row, uint32_t n, Fn&& fn) {
  const bool aligned = reinterpret_cast<uintptr_t>(row) % sizeof(float4) == 0;
  Batch batch, next;
  batch.load(row, 4 * threadIdx.x, n, aligned);
  for (uint32_t first = 4 * threadIdx.x; first < n; first += kBatch * kThreads) {
    next.load(row, first + kBatch * kThreads, n, aligned);
    fn(batch, first);
    batch = next;
  }
}

// ---- the largest, and the softmax's denominator

// The largest of some elements (of equal ones the lowest index), the smallest, and the sum of exp(x - max): NaN where one is NaN or
// infinity.
struct Top {
  float max, min, sum;
  uint32_t index;

  __device__ __forceinline__ void take(const Top& o) {
    const float both = fmaxf(max, o.max);
    sum = sum * exp_of(max - both) + o.sum * exp_of(o.max - both);
    min = fminf(min, o.min);
    if (o.max > max || (o.max == max && o.index < index)) index = o.index;
    max = both;
  }
  __device__ __forceinline__ bool finite() const { return sum == sum && min >= kLowest; }
};

__device__ __forceinline__ void take_batch(const Batch& batch, uint32_t first, uint32_t n, Top* top) {
  const float before = top->max;
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i) {
    if (batch.x[i] > top->max) top->max = batch.x[i], top->index = place_of(first, i);
  }
  float sum = top->sum * exp_of(before - top->max);
#pragma unroll
  for (uint32_t i = 0; i < kBatch; ++i) {
    if (place_of(first, i) < n) sum = sum + exp_of(batch.x[i] - top->max), top->min = fminf(top->min, batch.x[i]);
  }
  top->sum = sum;
}

__device__ __forceinline__ void merge_lanes(Top* top) {
  for (uint32_t lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    top->take({__shfl_down_sync(kFullWarp, top->max, lanes), __shfl_down_sync(kFullWarp, top->min, lanes),
               __shfl_down_sync(kFullWarp, top->sum, lanes), __shfl_down_sync(kFullWarp, top->index, lanes)});
  }
}

// Runs of four elements are dealt to threads, then lanes and warps merge in a fixed order. The first thread's result is the row's.
__device__ Top top_of_row(const float* row, uint32_t n) {
  __shared__ Top tops[kWarps];
  Top top{kLowest, -kLowest, 0, UINT32_MAX};
  each_batch(row, n, [&](const Batch& batch, uint32_t first) { take_batch(batch, first, n, &top); });
  merge_lanes(&top);
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  if (warp != 0) return top;
  top = lane < kWarps ? tops[lane] : Top{kLowest, -kLowest, 0, UINT32_MAX};
  merge_lanes(&top);
  return top;
}

// ---- drawing

// A token of the row as one number, the larger the better: the logit's bits in the logits' order, then the id, the lowest first.
constexpr uint32_t kIdBits = 22, kDigitBits = 11, kKeyBits = 5 * kDigitBits;
constexpr uint32_t kBins = 1u << kDigitBits, kThreadBins = kBins / kThreads;
constexpr uint64_t kIdMask = (1u << kIdBits) - 1;
static_assert(kKeyBits >= 32 + kIdBits && kVocabMax <= kIdMask + 1);

__device__ __forceinline__ uint64_t key_of(float logit, uint32_t id) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 is 0
  return uint64_t{bits >> 31 ? ~bits : bits | 0x80000000u} << kIdBits | (kIdMask - id);
}
__device__ __forceinline__ float logit_of(uint64_t key) {
  const auto bits = static_cast<uint32_t>(key >> kIdBits);
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}
__device__ __forceinline__ uint32_t id_of(uint64_t key) { return static_cast<uint32_t>(kIdMask - (key & kIdMask)); }

// sampler.cc's Weigher: 2^((logit - max) * scale) in units of 1 / `ones`, rounded to an integer.
struct Weigher {
  float max, scale, ones;
  __device__ __forceinline__ float scaled(float logit) const { return (logit - max) * scale; }
  __device__ __forceinline__ uint64_t of(float logit) const {
    const float x = scaled(logit);
    if (!(x >= -63.0f)) return 0;
    const float shifted = x + 12582912.0f, f = x - (shifted - 12582912.0f);
    float p = f * 1.53533620e-4f + 1.33988739e-3f;
    p = p * f + 9.61843692e-3f;
    p = p * f + 5.55033237e-2f;
    p = p * f + 2.40226477e-1f;
    p = p * f + 6.93147182e-1f;
    p = p * f + 1.0f;
    return __float2ull_rn(__uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23)) * ones);
  }
};

// The logits' order in steps of one width, the best in step 0: the first digit of a search. They spread a row over its bins as the bits of
// its floats do not, half of which stand for numbers below 1.
struct Steps {
  float max, per_logit;
  __device__ __forceinline__ Steps(const Top& top, float scale)
      : max(top.max), per_logit(static_cast<float>(kBins) / fminf(top.max - top.min, kWeightless / scale)) {}
  // A row of one value gives NaN, which fminf drops. In 2^23 the last bit is 1.
  __device__ __forceinline__ uint32_t of(float logit) const {
    return __float_as_uint(fminf((max - logit) * per_logit, static_cast<float>(kBins - 1)) + 8388608.0f) & (kBins - 1);
  }
  static constexpr float kWeightless = 40;  // below -40 a scaled logit hardly weighs anything
};

// Tokens far from the best seldom matter: the near ones are listed in shared memory, if they are few.
constexpr float kNear = 16;
constexpr uint32_t kNearMax = 2048, kFewMax = 1024;
constexpr double kAll = -INFINITY;  // a bound on scaled logits that bounds nothing

struct Shared {
  uint32_t low[kBins], high[kBins];  // of the sum of each bin
  unsigned long long near[kNearMax], few[kFewMax], totals[kWarps];
  unsigned long long before;
  uint32_t bin, listed;

  __device__ __forceinline__ uint64_t sum(uint32_t at) const { return uint64_t{high[at]} << 32 | low[at]; }
  // In two words: shared memory adds those itself, while a sum of 64 bits is a loop in which threads of one bin wait for each other. Of the
  // threads that add to a low word, the one that makes it overflow has the carry.
  __device__ __forceinline__ void add(uint32_t at, uint64_t amount) {
    const auto part = static_cast<uint32_t>(amount);
    const uint32_t carry = atomicAdd(&low[at], part) > ~part ? 1 : 0, rest = static_cast<uint32_t>(amount >> 32) + carry;
    if (rest != 0) atomicAdd(&high[at], rest);
  }
  __device__ __forceinline__ void clear() {
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < kBins; at += kThreads) low[at] = high[at] = 0;
    if (threadIdx.x == 0) listed = 0;
    __syncthreads();
  }
};

// All tokens of a row, or listed ones.
struct Keys {
  const float* row;
  const unsigned long long* list;  // null: all of the row
  uint32_t n;
  // Calls fn(logit, id).
  template <typename Fn>
  __device__ __forceinline__ void each(Fn&& fn) const {
    if (list != nullptr) {
      for (uint32_t i = threadIdx.x; i < n; i += kThreads) fn(logit_of(list[i]), id_of(list[i]));
      return;
    }
    each_batch(row, n, [&](const Batch& batch, uint32_t first) {
#pragma unroll
      for (uint32_t i = 0; i < kBatch; ++i) {
        if (place_of(first, i) < n) fn(batch.x[i], place_of(first, i));
      }
    });
  }
};

// The sum of every thread's x, given to every thread. They are integers: the sum is the same in any order.
__device__ uint64_t block_total(unsigned long long x, Shared* s) {
  for (uint32_t lanes = kWarp / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kFullWarp, x, static_cast<int>(lanes));
  __syncthreads();  // the threads have read the totals of before
  if (threadIdx.x % kWarp == 0) s->totals[threadIdx.x / kWarp] = x;
  __syncthreads();
  uint64_t sum = 0;
  for (uint32_t warp = 0; warp < kWarps; ++warp) sum += s->totals[warp];
  return sum;
}

// A prefix of the order, down to `last`. reached: the sum of its tokens' weights, or their number.
struct Prefix {
  uint64_t last, reached;
};

// Finds the bin, the best first, in which the running sum reaches `need`; it is `before` ahead of the first bin.
__device__ void find_bin(uint64_t need, uint64_t before, Shared* s) {
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, first = threadIdx.x * kThreadBins;
  unsigned long long own = 0;
  for (uint32_t bin = first; bin < first + kThreadBins; ++bin) own += s->sum(bin);
  unsigned long long running = own;
  for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
    const unsigned long long other = __shfl_up_sync(kFullWarp, running, lanes);
    if (lane >= lanes) running += other;
  }
  if (lane == kWarp - 1) s->totals[warp] = running;
  __syncthreads();
  before += running - own;
  for (uint32_t w = 0; w < warp; ++w) before += s->totals[w];
  if (before < need && before + own >= need) {  // true in one thread
    uint32_t bin = first;
    for (; before + s->sum(bin) < need; ++bin) before += s->sum(bin);
    s->bin = bin;
    s->before = before;
  }
  __syncthreads();
}

// The shortest prefix that reaches `need`, which is from 1 to the total of all keys: its step, then digit by digit, from the highest. Once
// the tokens that may be its last are few, they are listed, and the row is not read again.
template <bool by_weight>
__device__ Prefix shortest(Keys keys, const Weigher& weigher, const Steps& steps, uint64_t need, Shared* s) {
  const auto add = [&](uint32_t bin, float logit) {
    const uint64_t amount = by_weight ? weigher.of(logit) : 1;
    if (amount > 0) s->add(bin, amount);
  };
  s->clear();
  keys.each([&](float logit, uint32_t) { add(steps.of(logit), logit); });
  __syncthreads();
  find_bin(need, 0, s);
  const uint32_t step = s->bin;
  uint64_t last = 0, reached = s->before;
  for (int shift = kKeyBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    s->clear();
    keys.each([&](float logit, uint32_t id) {
      if (steps.of(logit) != step) return;
      const uint64_t key = key_of(logit, id);
      if (key >> (shift + kDigitBits) != last) return;
      add(kBins - 1 - (key >> shift & (kBins - 1)), logit);
      if (keys.list != nullptr) return;
      const uint32_t at = atomicAdd(&s->listed, 1u);
      if (at < kFewMax) s->few[at] = key;
    });
    __syncthreads();
    if (keys.list == nullptr && s->listed <= kFewMax) keys = {nullptr, s->few, s->listed};
    find_bin(need, reached, s);
    last = last << kDigitBits | (kBins - 1 - s->bin);
    reached = s->before;
  }
  return {last, reached + s->sum(s->bin)};
}

// The weight of the keys from `last` on whose scaled logit is at least `lowest`.
__device__ uint64_t weight_of(Keys keys, const Weigher& weigher, uint64_t last, double lowest, Shared* s) {
  uint64_t sum = 0;
  keys.each([&](float logit, uint32_t id) {
    if (key_of(logit, id) >= last && !(static_cast<double>(weigher.scaled(logit)) < lowest)) sum += weigher.of(logit);
  });
  return block_total(sum, s);
}

__device__ uint32_t drawn_token(const float* row, uint32_t n, const Top& top, const Draw& draw, Shared* s) {
  const Weigher weigher{top.max, draw.scale, draw.ones};
  const Steps steps(top, draw.scale);
  const Keys all{row, nullptr, n};
  uint64_t total = 0, near_count = 0;
  all.each([&](float logit, uint32_t) {
    total += weigher.of(logit);
    near_count += weigher.scaled(logit) >= -kNear;
  });
  total = block_total(total, s);
  near_count = block_total(near_count, s);
  Keys near{nullptr, s->near, 0};
  uint64_t near_weight = 0;
  if (near_count <= kNearMax) {
    near.n = static_cast<uint32_t>(near_count);
    if (threadIdx.x == 0) s->listed = 0;
    __syncthreads();
    all.each([&](float logit, uint32_t id) {
      if (weigher.scaled(logit) >= -kNear) s->near[atomicAdd(&s->listed, 1u)] = key_of(logit, id);
    });
    __syncthreads();
    near_weight = weight_of(near, weigher, 0, kAll, s);
  }
  const auto by_weight = [&](double need) {
    const uint64_t least = min(max(static_cast<uint64_t>(need), uint64_t{1}), total);
    return shortest<true>(near_weight >= least ? near : all, weigher, steps, least, s);
  };
  uint64_t last = 0;
  if (draw.top_k > 0) {
    const Keys keys = near.n >= draw.top_k ? near : all;
    last = shortest<false>(keys, weigher, steps, draw.top_k, s).last;
    total = weight_of(keys, weigher, last, kAll, s);
  }
  if (draw.top_p > 0) {
    const Prefix kept = by_weight(ceil(static_cast<double>(draw.top_p) * static_cast<double>(total)));
    last = kept.last, total = kept.reached;
  }
  if (draw.lowest > kAll) {
    total = weight_of(draw.lowest >= -kNear && near_count <= kNearMax ? near : all, weigher, last, draw.lowest, s);
  }
  const auto below = static_cast<uint64_t>(draw.chance * static_cast<double>(total));
  return id_of(by_weight(static_cast<double>(below + 1)).last);
}

// logits [rows][vocab], draws [rows] or null: the largest. A block per row.
// Bytes: 4 per element, read once for the largest; then, out of the cache, twice where few tokens are near the best, or else once and twice
// for each cut.
__global__ void __launch_bounds__(kThreads, 2) draw_row(const float* logits, uint32_t vocab, const Draw* draws, DrawnToken* out) {
  __shared__ Shared shared;
  __shared__ Top top;
  grid_wait();
  const float* row = logits + uint64_t{blockIdx.x} * vocab;
  const Top found = top_of_row(row, vocab);
  if (threadIdx.x == 0) top = found;
  __syncthreads();
  const bool finite = top.finite();
  uint32_t token = top.index;
  if (finite && draws && draws[blockIdx.x].scale > 0) token = drawn_token(row, vocab, top, draws[blockIdx.x], &shared);
  grid_launch_next();
  if (threadIdx.x != 0) return;
  out[blockIdx.x] =
      finite ? DrawnToken{static_cast<int32_t>(token), row[token] - top.max - static_cast<float>(plain_log(top.sum)), 1} : DrawnToken{};
}

}  // namespace

void draw_rows(Stream* stream, const float* logits, uint32_t rows, uint32_t vocab, const Draw* draws, DrawnToken* out) {
  launch(draw_row, dim3(rows), dim3(kThreads), 0, stream, logits, vocab, draws, out);
}

}  // namespace kvrt::cuda
