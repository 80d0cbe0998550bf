#include "runtime/engine/sources/cold_chunks.h"

#include <algorithm>

#include "runtime/base/fp_env.h"
#include "runtime/compute/kv_layout.h"
#include "runtime/compute/numerics.h"
#include "runtime/compute/rope.h"
#include "runtime/engine/session/kv_root.h"

namespace kvrt {

namespace {

constexpr KvFormat kColdFormats[] = {KvFormat::kI8, KvFormat::kI4};

KvChunk as_cold(KvChunk chunk, KvFormats cold) {
  if (chunk.states || chunk.layers.empty()) return chunk;
  chunk.geometry.k.format = cold.k;
  chunk.geometry.v.format = cold.v;
  chunk.geometry.bias_apart = cold.bias_apart;
  chunk.parts.clear();
  return chunk;
}

}  // namespace

Result<std::shared_ptr<const ColdChunks>> ColdChunks::make(const LoadedModel& model, const ModelKv& kv, KvFormats cold) {
  const auto latent = [](const KvGroup& group) { return group.unit.latent; };
  if (!is_wide(kv.formats.k) || !is_wide(kv.formats.v)) {
    return error(Code::kUnsupported, Detail::kNone,
                 "the model is open with KV in %s; chunks are rounded from f16, bf16 or f32: open it with one of these",
                 kv_formats_name({kv.formats.k, kv.formats.v}).c_str());
  }
  if (!is_cold(cold.k) || !is_cold(cold.v)) {
    return error(Code::kUnsupported, Detail::kNone, "chunks cannot be rounded to %s; int8 and int4 can be had",
                 kv_formats_name(cold).c_str());
  }
  if (std::ranges::any_of(kv.groups.groups, latent))
    return error(Code::kUnsupported, Detail::kNone, "the model's KV is latents, which are not rounded");
  return std::shared_ptr<const ColdChunks>(new ColdChunks(model, kv, cold));
}

ColdChunks::ColdChunks(const LoadedModel& model, const ModelKv& kv, KvFormats cold) : model_(model), kv_(kv), formats_(cold) {
  formats_.bias_apart = false;
  for (uint32_t i = 0; i < kv.groups.own; ++i) formats_.bias_apart |= !bias_of(i).empty();
  for (uint32_t number = 0; number <= kv.groups.groups.size(); ++number) {
    wide_.push_back(kv_chunk(kv.groups, number));
    chunks_.push_back(as_cold(wide_.back(), formats_));
  }
}

BlockKey ColdChunks::root(const Hash256& model, std::string_view numerics, std::string_view domain) const {
  ModelKv cold;
  cold.formats = formats_;
  cold.shape = kv_.shape;
  return mixed_root(kv_root(model, kv_, numerics, domain), kv_root(model, cold, numerics, domain));
}

// K's part of the bias of the layer's projection, [kv_heads][k.dim], where K is nothing but the rotated sum of both.
std::span<const float> ColdChunks::bias_of(uint32_t layer) const {
  const Model* weights = model_.weights();
  if (!weights || weights->dims.mixer(layer) != Mixer::kAttention) return {};
  const Layer& l = weights->layers[layer];
  const Heads heads = weights->dims.heads_of(layer);
  if (l.qkv_bias.values.empty() || !l.q_norm.values.empty() || !l.k_norm.values.empty() || heads.gate) return {};
  return std::span(l.qkv_bias.values).subspan(heads.q_width(), uint64_t{heads.kv} * heads.dim);
}

// That bias at each token's position.
std::vector<float> ColdChunks::turned(uint32_t layer, uint64_t position, uint32_t tokens) const {
  const std::span<const float> bias = bias_of(layer);
  std::vector<float> rows;
  rows.reserve(bias.size() * tokens);
  for (uint32_t t = 0; t < tokens; ++t) rows.insert(rows.end(), bias.begin(), bias.end());
  const RopeParams* rope = bias.empty() ? nullptr : model_.dims().rope_of(layer);
  if (!rope) return rows;
  const uint32_t dim = model_.dims().heads_of(layer).dim, pairs = rope->dims / 2;
  const bool halves = rope->style == RopeStyle::kHalves;
  std::vector<double> turns(pairs);
  rope_frequencies(*rope, turns.data());
  const double amplitude = rope_amplitude(*rope);
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t i = 0; i < pairs; ++i) {
      double sin, cos;
      rope_sincos(static_cast<double>(position + t) * turns[i], &sin, &cos);
      sin *= amplitude;
      cos *= amplitude;
      for (uint64_t head = t * bias.size(); head < (t + 1) * bias.size(); head += dim) {
        float* const a = rows.data() + head + (halves ? i : 2 * i);
        float* const b = halves ? a + pairs : a + 1;
        const double x = *a, y = *b;
        *a = static_cast<float>(x * cos - y * sin);
        *b = static_cast<float>(x * sin + y * cos);
      }
    }
  }
  return rows;
}

// Calls part(layer, where it begins in the pool's block, and in the rounded one) for each layer of the chunk.
template <typename Part>
void ColdChunks::for_layers(uint32_t number, uint64_t position, uint32_t tokens, Part part) const {
  const FpEnv fp_env;
  const KvGeometry &wide = wide_[number].geometry, &cold = chunks_[number].geometry;
  for (uint64_t i = 0; i < wide.layers; ++i) {
    const std::vector<float> alike = turned(chunks_[number].layers[i], position, tokens);
    part(ColdLayer{wide, cold, tokens, alike}, i * wide.layer_bytes(), i * cold.layer_bytes());
  }
}

void ColdChunks::encode(RoundRow round, uint32_t number, uint64_t position, uint32_t tokens, std::span<const uint8_t> block,
                        std::span<uint8_t> payload) const {
  for_layers(number, position, tokens, [&](const ColdLayer& layer, uint64_t from, uint64_t to) {
    round_layer(layer, round, block.data() + from, payload.data() + to);
  });
  to_payload(chunks_[number].geometry, payload, tokens);
}

void ColdChunks::decode(uint32_t number, uint64_t position, uint32_t tokens, std::span<uint8_t> payload, std::span<uint8_t> block) const {
  std::vector<uint8_t> scratch(payload_scratch_bytes(chunks_[number].geometry));
  from_payload(chunks_[number].geometry, payload, scratch);
  std::ranges::fill(block, 0);
  for_layers(number, position, tokens,
             [&](const ColdLayer& layer, uint64_t to, uint64_t from) { widen_layer(layer, payload.data() + from, block.data() + to); });
}

std::shared_ptr<const ColdChunks> find_cold(const LoadedModel& model, const ModelKv& kv, const Hash256& model_id, std::string_view domain,
                                            const BlockKey& root) {
  for (const KvFormat k : kColdFormats) {
    for (const KvFormat v : kColdFormats) {
      auto cold = ColdChunks::make(model, kv, {k, v});
      if (!cold.is_ok()) return nullptr;
      for (const std::string& numerics : known_numerics()) {
        if ((*cold)->root(model_id, numerics, domain) == root) return *cold;
      }
    }
  }
  return nullptr;
}

}  // namespace kvrt
