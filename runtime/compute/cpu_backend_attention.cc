// KV store and paged attention of CpuBackend: how rows, spans and KV heads are dealt to threads.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cpu_backend.h"

namespace kvrt {
namespace {

constexpr uint32_t kTileTokens = 4;  // query tokens that share a read of K and V in a prefill

uint8_t* block_of(const KvGeometry& kv, uint8_t* pool, uint32_t layer, const StepSeq& seq, int64_t position) {
  const auto index = static_cast<uint32_t>(position / kv.block_tokens);
  KVRT_CHECK(index < seq.n_blocks);
  return pool + static_cast<uint64_t>(seq.blocks[index]) * kv.block_bytes() + layer * kv.layer_bytes();
}

}  // namespace

void CpuBackend::kv_store(const KvGeometry& kv, uint8_t* pool, uint32_t layer, const Step& step, const float* k, const float* v,
                          uint32_t stride) {
  KVRT_CHECK(kv.elem_bytes == 2 && kv.head_dim <= kHeadDimMax);
  for (const StepSeq& seq : step.seqs) {
    if (!seq.store_kv) continue;
    for_rows(seq.n_rows, 16, [&](uint32_t i) {
      const int64_t position = int64_t{seq.first_position} + i;
      const uint32_t slot = static_cast<uint32_t>(position % kv.block_tokens);
      uint8_t* base = block_of(kv, pool, layer, seq, position);
      const uint64_t row = uint64_t{seq.first_row + i} * stride;
      for (uint32_t h = 0; h < kv.kv_heads; ++h) {
        uint16_t rounded[kHeadDimMax];
        kernels_.f32_to_f16_row(k + row + h * kv.head_dim, kv.head_dim, rounded);
        auto* k_out = reinterpret_cast<uint16_t*>(base) + uint64_t{h} * kv.head_dim * kv.block_tokens + slot;
        for (uint32_t d = 0; d < kv.head_dim; ++d) k_out[uint64_t{d} * kv.block_tokens] = rounded[d];
        auto* v_out = reinterpret_cast<uint16_t*>(base + kv.half_bytes()) + (uint64_t{h} * kv.block_tokens + slot) * kv.head_dim;
        kernels_.f32_to_f16_row(v + row + h * kv.head_dim, kv.head_dim, v_out);
      }
    });
  }
}

void CpuBackend::attention(const KvGeometry& kv, const uint8_t* pool, uint32_t layer, const Step& step, uint32_t heads, float scale,
                           const float* q, uint32_t stride, float* out) {
  const uint32_t group = heads / kv.kv_heads, rows = kTileTokens * group;
  const uint64_t per_worker = uint64_t{rows} * (kSpanTokens + 2 * (kv.head_dim + 2));
  if (attention_scratch_.size() < per_worker * pool_.size()) attention_scratch_.resize(per_worker * pool_.size());
  for (const StepSeq& seq : step.seqs) {
    const uint32_t tiles = (seq.n_rows + kTileTokens - 1) / kTileTokens;
    pool_.parallel_for(tiles * kv.kv_heads, [&](uint32_t chunk, uint32_t worker) {
      const uint32_t head = chunk % kv.kv_heads, first = chunk / kv.kv_heads * kTileTokens;
      float* scratch = attention_scratch_.data() + per_worker * worker;
      float* acc[2] = {scratch + uint64_t{rows} * kSpanTokens, scratch + uint64_t{rows} * (kSpanTokens + kv.head_dim)};
      float* max[2] = {acc[1] + uint64_t{rows} * kv.head_dim, acc[1] + uint64_t{rows} * (kv.head_dim + 1)};
      float* sum[2] = {max[1] + rows, max[1] + 2 * rows};
      AttentionTile tile{};
      tile.q = q + uint64_t{seq.first_row + first} * stride + uint64_t{head} * group * kv.head_dim;
      tile.q_stride = stride;
      tile.tokens = std::min(kTileTokens, seq.n_rows - first);
      tile.group = group;
      tile.head_dim = kv.head_dim;
      tile.scale = scale;
      tile.first_position = int64_t{seq.first_position} + first;
      tile.k = pool + layer * kv.layer_bytes() + uint64_t{head} * kv.head_dim * kv.block_tokens * kv.elem_bytes;
      tile.v = tile.k + kv.half_bytes();
      tile.block_bytes = kv.block_bytes();
      tile.block_tokens = kv.block_tokens;
      tile.scratch = scratch;
      const int64_t end = tile.first_position + tile.tokens;
      for (int64_t span = 0; span < end; span += kSpanTokens) {
        const int which = span == 0 ? 0 : 1;
        tile.span_first = span;
        tile.blocks = seq.blocks + span / kv.block_tokens;
        tile.max = max[which];
        tile.sum = sum[which];
        tile.acc = acc[which];
        kernels_.attend_span(tile);
        for (uint32_t i = 0; which == 1 && i < tile.tokens * group; ++i) {
          if (tile.first_position + i / group < span) continue;  // this row sees nothing of the span
          kernels_.merge_span(kv.head_dim, max[0] + i, sum[0] + i, acc[0] + uint64_t{i} * kv.head_dim, max[1][i], sum[1][i],
                              acc[1] + uint64_t{i} * kv.head_dim);
        }
      }
      for (uint32_t i = 0; i < tile.tokens * group; ++i) {
        float* to = out + (uint64_t{seq.first_row + first + i / group} * heads + uint64_t{head} * group + i % group) * kv.head_dim;
        kernels_.finish_row(kv.head_dim, sum[0][i], acc[0] + uint64_t{i} * kv.head_dim, to);
      }
    });
  }
}

}  // namespace kvrt
