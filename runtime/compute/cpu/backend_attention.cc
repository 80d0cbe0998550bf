// KV store and paged attention of CpuBackend: how rows, spans and KV heads are dealt to threads.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/compute/kv_rows.h"

namespace kvrt {
namespace {

constexpr uint32_t kTileRowsMin = 48, kTileRows = 96;  // query rows (tokens x heads of a group) that share a read of K and V
constexpr uint32_t kKernelRows = 12;                   // rows of the kernels' widest tiles, or a multiple
constexpr uint32_t kTilesPerThread = 4;                // so that the last ones come out even
constexpr uint32_t kLatentHeads = 32;                  // two vectors of them
constexpr uint32_t kNoSlot = UINT32_MAX;
static_assert(kTurnTokens == kSpanTokens);
constexpr int64_t kNoWindow = INT64_MAX / 2;
alignas(64) constexpr float kNoValue[kHeadDimMax] = {};

// The first span of which a row at this position sees something.
uint32_t first_span(int64_t position, int64_t window) {
  return static_cast<uint32_t>(std::max<int64_t>(position - window + 1, 0) / kSpanTokens);
}

// Tokens of a tile: as many as share a read of K and V with profit, as few as give every thread several tiles. Whole kernel tiles.
uint32_t tile_tokens_of(const Step& step, uint32_t parts, uint32_t group, uint32_t threads) {
  const uint32_t unit = std::lcm(kKernelRows, group) / group, least = kTileRowsMin / group, most = std::max(1u, kTileRows / group);
  const auto tokens = static_cast<uint32_t>(uint64_t{step.n_rows()} * parts / (kTilesPerThread * threads) + 1);
  return std::min(most, (std::max(tokens, least) + unit - 1) / unit * unit);
}

// The heads of a tile: those of one KV head; of a latent, which all heads share, not so many that one thread gets them all.
uint32_t heads_of_tile(const KvGeometry& kv, uint32_t heads) {
  uint32_t group = heads / kv.kv_heads;
  if (!kv.latent) return group;
  const uint32_t all = group;
  group = std::min(group, kLatentHeads);
  while (all % group != 0) --group;
  return group;
}

// The layer's part of the unit that has the position.
uint8_t* layer_of(const KvGeometry& kv, uint8_t* pool, KvPlace place, const StepSeq& seq, int64_t position) {
  const auto index = static_cast<uint32_t>(position / kv.block_tokens);
  KVRT_CHECK(index < seq.n_blocks);
  return pool + static_cast<uint64_t>(seq.table(place.table)[index]) * kv.block_bytes() + place.layer * kv.layer_bytes();
}

// Copies the cells of one token to `out`, `stride` cells apart.
template <typename T>
void spread(const uint8_t* row, uint32_t n, uint32_t stride, uint8_t* out) {
  for (uint32_t i = 0; i < n; ++i) std::memcpy(out + uint64_t{i} * stride * sizeof(T), row + i * sizeof(T), sizeof(T));
}

constexpr uint32_t kScalesMax = (kHeadDimMax + kInt4Group - 1) / kInt4Group;

// A row as it is stored: its cells, and its scales.
void round_row(const CpuKernels& kernels, const KvRows& rows, float top, const float* x, uint8_t* cells, uint16_t* scales) {
  if (rows.format != KvFormat::kI4) return kernels.kv_row(rows.format, top, x, rows.dim, cells, scales);
  uint8_t codes[kHeadDimMax];
  kernels.kv_row(rows.format, top, x, rows.dim, codes, scales);
  pack_pairs(codes, rows.dim, cells);
}

// Stores a row's scales, of token `slot`; `at`: the KV head's first one.
void put_scales(const KvGeometry& kv, const KvRows& rows, const uint16_t* scales, uint32_t slot, uint8_t* at) {
  for (uint32_t i = 0; i < rows.scales(); ++i)
    std::memcpy(at + (uint64_t{i} * kv.block_tokens + slot) * kKvScaleBytes, scales + i, kKvScaleBytes);
}

// Stores a latent in its slot; `base`: the layer's part of the block. It is not transformed: it is V, too.
void store_latent(const CpuKernels& kernels, const KvGeometry& kv, uint8_t* base, uint32_t slot, const float* latent) {
  uint16_t scales[kScalesMax];
  round_row(kernels, kv.k, kInt8Top, latent, base + slot * kv.k.bytes(), scales);
  put_scales(kv, kv.k, scales, slot, base + kv.k_scales_at());
}

// Stores K and V of one token and KV head in their slot.
void store_head(const CpuKernels& kernels, const KvGeometry& kv, uint8_t* base, uint32_t head, uint32_t slot, const float* k,
                const float* v) {
  alignas(4) uint8_t rounded[kHeadDimMax * sizeof(float)];
  uint16_t scales[kScalesMax];
  float transformed[kHeadDimMax];
  const auto transform = [&](const KvRows& rows, const float* x) {
    std::copy_n(x, rows.dim, transformed);
    hadamard(hadamard_dim(rows.dim), rows.dim, transformed);
    return transformed;
  };
  const uint32_t cell = kv.k.cell_bytes();
  round_row(kernels, kv.k, kInt8Top, kv.transforms_keys() ? transform(kv.k, k) : k, rounded, scales);
  const auto spread_row = cell == 1 ? spread<uint8_t> : cell == 2 ? spread<uint16_t> : spread<float>;
  spread_row(rounded, kv.k.cells(), kv.block_tokens, base + head * kv.head_bytes(kv.k) + uint64_t{slot} * cell);
  put_scales(kv, kv.k, scales, slot, base + kv.k_scales_at() + head * kv.head_scale_bytes(kv.k));
  uint8_t* values = base + kv.v_at() + (uint64_t{head} * kv.block_tokens + slot) * kv.v.bytes();
  round_row(kernels, kv.v, int8_value_top(kv.v.dim), kv.transforms_values() ? transform(kv.v, v) : v, values, scales);
  put_scales(kv, kv.v, scales, slot, base + kv.v_scales_at() + head * kv.head_scale_bytes(kv.v));
}

// Whether vectors fit heads of these dimensions.
bool fit(const KvGeometry& kv) {
  const uint32_t lanes = kv.v_rows().format == KvFormat::kI4 ? kInt4Group / 2 : 8;
  return kv.v.dim % lanes == 0 && std::max(kv.k.dim, kv.v.dim) <= kHeadDimMax;
}

// Tells the tile the place of a KV head, the same in every block.
void locate(const KvGeometry& kv, const uint8_t* pool, uint32_t layer, uint32_t head, TileKv* tile) {
  const uint8_t* base = pool + layer * kv.layer_bytes();
  tile->k_format = kv.k.format;
  tile->v_format = kv.v.format;
  tile->k_dim = kv.k.dim;
  tile->v_dim = kv.v.dim;
  tile->latent = kv.latent;
  tile->k = base + head * kv.head_bytes(kv.k);
  tile->v = base + kv.v_at() + head * kv.head_bytes(kv.v_rows());
  tile->k_scales = kv.k.scale_bytes() > 0 ? base + kv.k_scales_at() + head * kv.head_scale_bytes(kv.k) : nullptr;
  tile->v_scales = kv.v.scale_bytes() > 0 ? base + kv.v_scales_at() + head * kv.head_scale_bytes(kv.v) : nullptr;
  tile->block_bytes = kv.block_bytes();
  tile->block_tokens = kv.block_tokens;
}

}  // namespace

void CpuBackend::kv_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const float* k,
                          const float* v, uint32_t stride) {
  KVRT_CHECK(std::max(kv.k.dim, kv.v.dim) <= kHeadDimMax);
  for (const StepSeq& seq : step.seqs) {
    const uint32_t from = std::max(first, seq.first_row), end = std::min(first + n, seq.first_row + seq.n_rows);
    if ((seq.stores >> place.group & 1) == 0 || from >= end) continue;
    for_rows(end - from, [&](uint32_t i) {
      const int64_t position = int64_t{seq.first_position} + from + i - seq.first_row;
      const uint32_t slot = static_cast<uint32_t>(position % kv.block_tokens);
      uint8_t* base = layer_of(kv, pool, place, seq, position);
      const uint64_t row = uint64_t{from + i - first} * stride;
      if (kv.latent) return store_latent(kernels_, kv, base, slot, k + row);
      for (uint32_t h = 0; h < kv.kv_heads; ++h) {
        store_head(kernels_, kv, base, h, slot, k + row + h * kv.k.dim, v + row + h * kv.v.dim);
      }
    });
  }
}

// The memory of a tile's running result: maxima, sums, accumulators.
struct CpuBackend::AttentionPartial {
  AttentionPartial(float* at, uint32_t rows, uint32_t v_dim) : max(at), sum(at + rows), acc(at + 2 * rows), dim(v_dim) {}
  static uint64_t floats(uint32_t rows, uint32_t v_dim) { return uint64_t{rows} * (v_dim + 2); }
  float* row(uint32_t i) const { return acc + uint64_t{i} * dim; }
  void take(uint32_t i, const AttentionPartial& from) const {
    max[i] = from.max[i];
    sum[i] = from.sum[i];
    std::copy_n(from.row(i), dim, row(i));
  }
  // A sink is a last span of one weight, whose value is 0.
  void add_sink(const CpuKernels& kernels, uint32_t i, float sink) const {
    kernels.merge_span(dim, max + i, sum + i, row(i), sink, 1, kNoValue);
  }
  float *max, *sum, *acc;
  uint32_t dim;
};

// Deals a step's attention to threads. Many tiles: one share each, the longest first. Few tiles (a decode) over many spans: a
// share per span, so that one long sequence uses all threads.
void CpuBackend::plan_attention(const Step& step, uint32_t parts, uint32_t group, int64_t window, uint32_t tile_tokens) {
  shares_.clear();
  merges_.clear();
  uint32_t slots = 0, tokens = 0;
  for (const StepSeq& seq : step.seqs) {
    const uint32_t tiles = (seq.n_rows + tile_tokens - 1) / tile_tokens;
    for (uint32_t t = 0; t < tiles; ++t) {
      AttentionShare share{&seq, (tiles - 1 - t) * tile_tokens, 0, 0, 0, 0, 0, 0};
      share.tokens = std::min(tile_tokens, seq.n_rows - share.first);
      const int64_t first = int64_t{seq.first_position} + share.first, last = first + share.tokens - 1;
      const uint32_t begin = first_span(first, window), end = static_cast<uint32_t>(last / kSpanTokens) + 1;
      const bool split = end - begin > 1 && tiles == 1 && pool_.size() > 1;
      if (split) tokens = std::max(tokens, share.tokens);
      for (share.part = 0; share.part < parts; ++share.part) {
        share.span_begin = begin;
        share.span_end = end;
        share.slot = slots;
        share.merge = static_cast<uint32_t>(merges_.size());
        if (split) merges_.push_back({share, end - begin});
        for (uint32_t s = begin; split && s < end; ++s) {
          share.span_begin = s;
          share.span_end = s + 1;
          share.slot = slots++;
          shares_.push_back(share);
        }
        if (!split) {
          share.slot = kNoSlot;
          shares_.push_back(share);
        }
      }
    }
  }
  slots_ = slots;
  slot_rows_ = (tokens * group + kKernelRows - 1) / kKernelRows * kKernelRows;
}

// Of each thread a kernel's scratch and two results; behind those of all the slots.
struct CpuBackend::AttentionMemory {
  float* scratch(uint32_t worker) const { return all + per_worker * worker; }
  AttentionPartial result(uint32_t worker) const { return {scratch(worker) + scratch_floats, rows, v_dim}; }
  AttentionPartial next(uint32_t worker) const { return {result(worker).acc + uint64_t{rows} * v_dim, rows, v_dim}; }
  AttentionPartial slot(uint32_t i) const { return {slots + AttentionPartial::floats(slot_rows, v_dim) * i, slot_rows, v_dim}; }
  float *all, *slots;
  uint64_t per_worker, scratch_floats;
  uint32_t rows, slot_rows, v_dim;
};

// For the shares that are planned, in tiles of so many rows.
CpuBackend::AttentionMemory CpuBackend::attention_memory(uint32_t rows, uint32_t k_dim, uint32_t v_dim) {
  const uint64_t scratch_floats = attention_scratch(rows, k_dim), per_worker = scratch_floats + 2 * AttentionPartial::floats(rows, v_dim);
  const uint64_t floats = per_worker * pool_.size() + AttentionPartial::floats(slot_rows_, v_dim) * slots_;
  if (attention_scratch_.size() < floats) attention_scratch_.resize(floats);
  float* const all = attention_scratch_.data();
  return {all, all + per_worker * pool_.size(), per_worker, scratch_floats, rows, slot_rows_, v_dim};
}

const float* CpuBackend::transform_queries(uint32_t k_dim, uint32_t rows, uint32_t width, const float* q, uint32_t* stride, float* scale) {
  if (transformed_.size() < uint64_t{rows} * width) transformed_.resize(uint64_t{rows} * width);
  for_rows(rows, [&](uint32_t row) {
    float* to = transformed_.data() + uint64_t{row} * width;
    std::copy_n(q + uint64_t{row} * *stride, width, to);
    hadamard(hadamard_dim(k_dim), width, to);
  });
  *stride = width;
  *scale /= static_cast<float>(hadamard_dim(k_dim));  // exact: a power of two
  return transformed_.data();
}

// Both parts of the step's queries along the bias, and the tables of all spans that the step sees.
TileBias CpuBackend::turn_bias(const AttentionParams& params, const KvGeometry& kv, const Step& step, const float* q, uint32_t stride) {
  if (params.key_bias == nullptr) return {};
  const KeyBias& bias = *params.key_bias;
  int64_t last = 0;
  for (const StepSeq& seq : step.seqs) last = std::max(last, int64_t{seq.first_position} + seq.n_rows - 1);
  const BiasTable& table = bias_table(*bias.rope, static_cast<uint32_t>(last / kSpanTokens) + 1);
  const uint32_t half = bias.rope->dims / 2, group = params.heads / kv.kv_heads;
  const bool interleaved = bias.rope->style == RopeStyle::kInterleaved;
  const uint32_t apart = interleaved ? 1 : half, between = interleaved ? 2 : 1;
  TileBias out{bias.pairs, bias.values, nullptr, uint64_t{params.heads} * 2 * bias.pairs, table.turns.data(), table.offsets.data()};
  if (bias_rows_.size() < step.n_rows() * out.stride) bias_rows_.resize(step.n_rows() * out.stride);
  for_rows(step.n_rows(), [&](uint32_t row) {
    float* to = bias_rows_.data() + row * out.stride;
    for (uint32_t h = 0; h < params.heads; ++h) {
      const float *head = q + uint64_t{row} * stride + h * kv.k.dim, *b = bias.values + uint64_t{h / group} * 3 * bias.pairs;
      for (uint32_t i = 0; i < bias.pairs; ++i, to += 2, b += 3) {
        const float* first = head + static_cast<uint32_t>(b[0]) * between;
        to[0] = (first[0] * b[1] + first[apart] * b[2]) * params.scale;
        to[1] = (first[apart] * b[1] - first[0] * b[2]) * params.scale;
      }
    }
  });
  out.rows = bias_rows_.data();
  return out;
}

// The cosines and sines of the first positions of spans, and of the positions within one.
const CpuBackend::BiasTable& CpuBackend::bias_table(const RopeParams& rope, uint32_t spans) {
  if (bias_tables_[bias_last_].params != rope) bias_last_ ^= 1;
  BiasTable& table = bias_tables_[bias_last_];
  const uint32_t pairs = rope.dims / 2;
  if (table.params != rope) {
    BiasTable whole{rope, std::vector<double>(pairs), std::vector<float>(uint64_t{2} * pairs * kTurnTokens), {}};
    rope_frequencies(rope, whole.frequencies.data());
    rope_offsets(whole.frequencies, whole.offsets.data());
    table = std::move(whole);
  }
  const auto there = static_cast<uint32_t>(table.turns.size() / std::max(uint64_t{2} * pairs, uint64_t{1}));
  if (there < spans) {
    table.turns.resize(uint64_t{2} * pairs * spans);
    rope_turns(table.frequencies, there, spans, table.turns.data() + uint64_t{2} * pairs * there);
  }
  return table;
}

void CpuBackend::attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params,
                           const float* q, uint32_t stride, float* out) {
  float scale = params.scale;
  const uint32_t k_dim = kv.k.dim, v_dim = kv.v.dim;
  const TileBias bias = turn_bias(params, kv, step, q, stride);
  if (kv.transforms_keys()) q = transform_queries(k_dim, step.n_rows(), params.heads * k_dim, q, &stride, &scale);
  const CpuKernels& kernels = fit(kv) ? kernels_ : *scalar_kernels();  // the same bits
  const uint32_t heads = params.heads, group = heads_of_tile(kv, heads), parts = heads / group;
  const uint32_t tile_tokens = tile_tokens_of(step, parts, group, pool_.size());
  const int64_t window = params.window > 0 ? params.window : kNoWindow;
  plan_attention(step, parts, group, window, tile_tokens);
  const AttentionMemory memory = attention_memory(tile_tokens * group, k_dim, v_dim);

  const auto finish = [&](const AttentionShare& share, const AttentionPartial& result) {
    for (uint32_t i = 0; i < share.tokens * group; ++i) {
      const uint64_t row = uint64_t{share.seq->first_row} + share.first + i / group, head = share.part * group + i % group;
      if (params.sinks) result.add_sink(kernels, i, params.sinks[head]);
      float* to = out + (row * heads + head) * v_dim;
      kernels.finish_row(v_dim, result.sum[i], result.row(i), to);
      if (kv.transforms_values()) transform_back(v_dim, to);
    }
  };
  // Rows that see nothing of the span keep their bits; a row's first span is taken as it is.
  const auto merge = [&](const AttentionShare& share, uint32_t span, const AttentionPartial& into, const AttentionPartial& next) {
    for (uint32_t i = 0; i < share.tokens * group; ++i) {
      const int64_t position = int64_t{share.seq->first_position} + share.first + i / group;
      const uint32_t first = first_span(position, window);
      if (first == span) into.take(i, next);
      if (first >= span || position < int64_t{span} * kSpanTokens) continue;
      kernels.merge_span(v_dim, into.max + i, into.sum + i, into.row(i), next.max[i], next.sum[i], next.row(i));
    }
  };
  const auto merge_slots = [&](const AttentionShare& whole) {
    const AttentionPartial result = memory.slot(whole.slot);
    for (uint32_t span = whole.span_begin + 1; span < whole.span_end; ++span) {
      merge(whole, span, result, memory.slot(whole.slot + span - whole.span_begin));
    }
    finish(whole, result);
  };
  pool_.parallel_for(static_cast<uint32_t>(shares_.size()), [&](uint32_t chunk, uint32_t worker) {
    const AttentionShare& share = shares_[chunk];
    const AttentionPartial result = share.slot == kNoSlot ? memory.result(worker) : memory.slot(share.slot), next = memory.next(worker);
    AttentionTile tile{};
    tile.q = q + uint64_t{share.seq->first_row + share.first} * stride + uint64_t{share.part} * group * k_dim;
    tile.q_stride = stride;
    tile.tokens = share.tokens;
    tile.group = group;
    tile.first_position = int64_t{share.seq->first_position} + share.first;
    tile.scale = scale, tile.softcap = params.softcap, tile.window = window;
    locate(kv, pool, place.layer, kv.latent ? 0 : share.part, &tile);
    tile.scratch = memory.scratch(worker);
    tile.bias = bias.of(share.seq->first_row + share.first, share.part, group);
    for (uint32_t span = share.span_begin; span < share.span_end; ++span) {
      const AttentionPartial& to = span == share.span_begin ? result : next;
      tile.span_first = int64_t{span} * kSpanTokens;
      tile.blocks = share.seq->table(place.table) + tile.span_first / kv.block_tokens;
      if (bias.pairs > 0) tile.bias.turns = bias.turns + uint64_t{span} * params.key_bias->rope->dims;
      tile.max = to.max;
      tile.sum = to.sum;
      tile.acc = to.acc;
      kernels.attend_span(tile);
      if (span != share.span_begin) merge(share, span, result, next);
    }
    if (share.slot == kNoSlot) return finish(share, result);
    AttentionMerge& waiting = merges_[share.merge];
    if (std::atomic_ref(waiting.left).fetch_sub(1, std::memory_order_acq_rel) == 1) merge_slots(waiting.share);
  });
}

}  // namespace kvrt
