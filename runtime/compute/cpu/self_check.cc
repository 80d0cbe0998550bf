#include "runtime/compute/cpu/self_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "runtime/base/fp_env.h"
#include "runtime/base/limits.h"
#include "runtime/compute/kv_rows.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt {
namespace {

// A fixed sequence of values with a few extremes; the same on every machine.
class Values {
 public:
  uint32_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  float unit() { return static_cast<float>(static_cast<int32_t>(bits() % 20001) - 10000) * 1e-4f; }  // [-1, 1]
  std::vector<float> floats(size_t n, float scale) {
    std::vector<float> v(n);
    for (float& f : v) f = unit() * scale;
    v[n / 2] = 0;
    v[n / 3] = 1e-40f;
    v[n / 4] = 40 * scale;
    return v;
  }

 private:
  uint64_t state_ = 20261121;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr uint32_t kRows = 27, kPanels = 2, kCols = 256, kBlocks = kCols / kQuantBlock, kColumns = 19;

struct Activations {
  std::vector<int8_t> q = std::vector<int8_t>(kColumns * kCols);
  std::vector<float> d = std::vector<float>(kColumns * kBlocks), s = d;
  std::vector<int16_t> sums = std::vector<int16_t>(2 * kColumns * kBlocks);
  QuantRows rows() { return {q.data(), d.data(), s.data(), sums.data()}; }
};

Activations quantize(const CpuKernels& kernels, const std::vector<float>& x, uint32_t columns) {
  Activations a;
  for (uint32_t c = 0; c < columns; ++c) {
    kernels.quantize_row(x.data() + c * kCols, kCols, quant_row(kernels, a.rows(), columns, kCols, c));
  }
  return a;
}

std::vector<uint8_t> panels_of(DType type, Values* values, uint64_t* panel_bytes) {
  const QuantFormat* format = quant_format(type);
  const uint32_t elem_bytes = dtype_info(static_cast<uint32_t>(type))->block_bytes;
  *panel_bytes = format ? kCols / format->unit_elems() * format->unit_bytes() : uint64_t{kCols} * kPanelRows * elem_bytes;
  std::vector<uint8_t> panels(kPanels * *panel_bytes);
  for (uint8_t& byte : panels) byte = static_cast<uint8_t>(values->bits());
  // Any bytes are weights; but those that are read as a float must be a number.
  if (type == DType::kF32 || type == DType::kBF16) {
    for (uint64_t i = 0; i < panels.size(); i += elem_bytes) {
      const float f = values->unit();
      std::memcpy(panels.data() + i, reinterpret_cast<const uint8_t*>(&f) + 4 - elem_bytes, elem_bytes);
    }
    return panels;
  }
  const uint64_t stride = format ? format->unit_bytes() : 2, halves = format ? format->sub_at() : 2;
  for (uint64_t unit = 0; unit < panels.size(); unit += stride) {
    for (uint64_t i = 0; i < halves && (!format || format->scale_bytes == 2); i += 2) {
      const uint16_t h = f32_to_f16(values->unit());
      std::memcpy(panels.data() + unit + i, &h, 2);
    }
    for (uint64_t i = 0; i < halves && format && format->scale_bytes == 1; ++i) panels[unit + i] %= 160;  // 2^-128 to 2^31
  }
  return panels;
}

bool check_matmul(const CpuKernels& kernels, DType type, Values* values) {
  uint64_t panel_bytes;
  const std::vector<uint8_t> panels = panels_of(type, values, &panel_bytes);
  const std::vector<float> x = values->floats(kColumns * kCols, 2.0f), bias = values->floats(kRows, 1.0f);
  const auto run = [&](const CpuKernels& k, uint32_t columns) {
    std::vector<float> out(columns * kRows, 0.5f);
    Activations a = quantize(k, x, columns);
    MatmulArgs args{panels.data(), panel_bytes, kRows, kCols, x.data(), a.rows(), bias.data(), true, out.data(), kRows};
    matmul_of(k, type)(args, 0, kPanels, 0, columns);
    return out;
  };
  std::vector<float> want = run(*scalar_kernels(), kColumns);
  for (const uint32_t columns : {kColumns, 18u, 17u, 8u, 7u, 6u, 5u, 4u, 3u, 2u, 1u}) {  // every tile, of a few columns and of many
    want.resize(columns * kRows);
    if (!same(want, run(kernels, columns))) return false;
  }
  return true;
}

bool check_quantize(const CpuKernels& kernels, Values* values) {
  const std::vector<float> x = values->floats(kColumns * kCols, 3.0f);
  CpuKernels scalar = *scalar_kernels();
  scalar.column_group = kernels.column_group;
  const Activations want = quantize(scalar, x, kColumns), got = quantize(kernels, x, kColumns);
  return want.q == got.q && same(want.d, got.d) && same(want.s, got.s) && want.sums == got.sums;
}

bool check_rows(const CpuKernels& kernels, Values* values) {
  constexpr uint32_t kWidth = 83;
  const CpuKernels& scalar = *scalar_kernels();
  const std::vector<float> x = values->floats(kWidth, 4.0f), y = values->floats(kWidth, 1.0f);
  std::vector<float> want(kWidth), got(kWidth);
  scalar.rmsnorm_row(x.data(), y.data(), 1e-5f, kWidth, want.data());
  kernels.rmsnorm_row(x.data(), y.data(), 1e-5f, kWidth, got.data());
  if (!same(want, got)) return false;
  for (const float* bias : {static_cast<const float*>(nullptr), x.data()}) {
    scalar.layernorm_row(x.data(), y.data(), bias, 1e-5f, kWidth, want.data());
    kernels.layernorm_row(x.data(), y.data(), bias, 1e-5f, kWidth, got.data());
    if (!same(want, got)) return false;
  }
  scalar.silu_mul_row(x.data(), y.data(), kWidth, want.data());
  kernels.silu_mul_row(x.data(), y.data(), kWidth, got.data());
  if (!same(want, got)) return false;
  scalar.gelu_mul_row(x.data(), y.data(), kWidth, want.data());
  kernels.gelu_mul_row(x.data(), y.data(), kWidth, got.data());
  if (!same(want, got)) return false;
  scalar.clamped_swiglu_row(x.data(), y.data(), kWidth, want.data());
  kernels.clamped_swiglu_row(x.data(), y.data(), kWidth, got.data());
  if (!same(want, got)) return false;
  scalar.gelu_row(kWidth, want.data());
  kernels.gelu_row(kWidth, got.data());
  if (!same(want, got)) return false;
  scalar.softcap_row(2.5f, kWidth, want.data());
  kernels.softcap_row(2.5f, kWidth, got.data());
  if (!same(want, got)) return false;
  scalar.add_scaled_row(0.3f, x.data(), kWidth, want.data());
  kernels.add_scaled_row(0.3f, x.data(), kWidth, got.data());
  if (!same(want, got)) return false;
  for (const bool interleaved : {false, true}) {
    want = x;
    got = x;
    scalar.rope_head(y.data(), x.data(), 41, interleaved, want.data());
    kernels.rope_head(y.data(), x.data(), 41, interleaved, got.data());
    if (!same(want, got)) return false;
  }
  for (const KvFormat format : kKvFormats) {
    for (const float top : {kInt8Top, kInt8SmallTop}) {
      std::vector<float> want_row(kWidth), got_row(kWidth);
      std::array<uint16_t, kWidth / kInt4Group + 1> want_scales{}, got_scales{};
      scalar.kv_row(format, top, x.data(), kWidth, reinterpret_cast<uint8_t*>(want_row.data()), want_scales.data());
      kernels.kv_row(format, top, x.data(), kWidth, reinterpret_cast<uint8_t*>(got_row.data()), got_scales.data());
      if (!same(want_row, got_row) || want_scales != got_scales) return false;
    }
  }
  return true;
}

// Few rows and many, dimensions that are a multiple of 8 and of 16.
template <uint32_t kTokens, uint32_t kDim, uint32_t kValueDim = kDim>
bool check_attention(const CpuKernels& kernels, KvFormat k_format, KvFormat v_format, Values* values, bool latent = false) {
  constexpr uint32_t kGroup = 3, kBlockTokens = 16, kKeys = 45, kTileRows = kTokens * kGroup;
  KvGeometry geometry{1, 1, {kDim, k_format}, {kValueDim, v_format}, kBlockTokens};
  geometry.latent = latent;
  std::vector<uint8_t> kv(3 * geometry.block_bytes());
  for (uint64_t at = 0; at < kv.size(); at += geometry.block_bytes()) {
    const auto fill = [&](const KvRows& rows, uint64_t from, uint64_t end) {
      for (uint64_t i = from; i < end; i += rows.bytes()) {
        std::array<uint16_t, kHeadDimMax / kInt4Group> scales;
        std::vector<float> row(rows.dim);
        auto* elements = reinterpret_cast<uint8_t*>(row.data());
        scalar_kernels()->kv_row(rows.format, kInt8Top, values->floats(rows.dim, 1.0f).data(), rows.dim, elements, scales.data());
        std::vector<uint8_t> cells(elements, elements + std::min<uint64_t>(rows.bytes(), row.size() * sizeof(float)));
        if (rows.format == KvFormat::kI4) pack_pairs(elements, rows.dim, cells.data());
        std::memcpy(kv.data() + i, cells.data(), cells.size());
      }
    };
    fill(geometry.k, at, at + (latent ? geometry.k_scales_at() : geometry.v_at()));
    if (!latent) fill(geometry.v, at + geometry.v_at(), at + geometry.k_scales_at());
    for (uint64_t i = at + geometry.k_scales_at(); i < at + geometry.block_bytes(); i += kKvScaleBytes) {
      const uint16_t scale = f32_to_f16(values->unit() * 0.01f);
      std::memcpy(kv.data() + i, &scale, sizeof scale);
    }
  }
  const int32_t blocks[] = {2, 0, 1};
  const std::vector<float> q = values->floats(kTileRows * kDim, 3.0f);
  constexpr uint32_t kPairs = 3, kRopePairs = kDim / 2;
  const bool apart = kv_scaled(k_format) && !latent;  // K is stored without a part of its bias
  const std::vector<float> bias = {0, 0, 0, 2, 0, 0, kRopePairs - 1, 0, 0}, parts = values->floats(kTileRows * 2 * kPairs, 1.0f),
                           turns = values->floats(2 * kRopePairs, 1.0f), offsets = values->floats(2 * kRopePairs * kSpanTokens, 1.0f);
  const auto attend = [&](const CpuKernels& k, int64_t window, float softcap) {
    std::vector<float> scratch(attention_scratch(kTileRows, kDim)), max(kTileRows), sum(kTileRows), acc(kTileRows * kValueDim),
        out(kValueDim);
    AttentionTile tile{};
    tile.q = q.data();
    tile.q_stride = kGroup * kDim;
    tile.tokens = kTokens;
    tile.group = kGroup;
    tile.k_dim = kDim;
    tile.v_dim = kValueDim;
    tile.scale = 0.25f;
    tile.softcap = softcap;
    tile.window = window;
    tile.first_position = kKeys - kTokens;
    tile.k_format = k_format;
    tile.v_format = v_format;
    tile.latent = latent;
    if (apart) tile.bias = {kPairs, bias.data(), parts.data(), kGroup * 2 * kPairs, turns.data(), offsets.data()};
    tile.k = kv.data();
    tile.v = kv.data() + geometry.v_at();
    tile.k_scales = kv_scaled(k_format) ? kv.data() + geometry.k_scales_at() : nullptr;
    tile.v_scales = kv_scaled(v_format) ? kv.data() + geometry.v_scales_at() : nullptr;
    tile.block_bytes = geometry.block_bytes();
    tile.block_tokens = kBlockTokens;
    tile.blocks = blocks;
    tile.scratch = scratch.data();
    tile.max = max.data();
    tile.sum = sum.data();
    tile.acc = acc.data();
    k.attend_span(tile);
    k.merge_span(kValueDim, &max[0], &sum[0], &acc[0], max[1], sum[1], &acc[kValueDim]);
    k.finish_row(kValueDim, sum[0], &acc[0], &out[0]);
    out.insert(out.end(), max.begin(), max.end());
    out.insert(out.end(), sum.begin(), sum.end());
    out.insert(out.end(), acc.begin(), acc.end());
    return out;
  };
  return same(attend(*scalar_kernels(), kKeys, 0), attend(kernels, kKeys, 0)) &&
         same(attend(*scalar_kernels(), 19, 5), attend(kernels, 19, 5));
}

// Gates and rows of recurrent layers.
bool check_gates(const CpuKernels& kernels, Values* values) {
  constexpr uint32_t kWidth = 45;
  const std::vector<float> x = values->floats(kWidth, 3.0f), bias = values->floats(kWidth, 1.0f), a = values->floats(kWidth, -1.0f);
  const auto run = [&](const CpuKernels& k) {
    std::vector<float> out(5 * kWidth);
    float* at = out.data();
    k.decay_row(x.data(), bias.data(), a.data(), kWidth, at, at + kWidth);
    k.sigmoid_row(x.data(), kWidth, at + 2 * kWidth);
    k.unit_row(x.data(), 1e-6f, 3.0f, kWidth, at + 3 * kWidth);
    std::copy(x.begin(), x.end(), at + 4 * kWidth);
    k.silu_row(kWidth, at + 4 * kWidth);
    return out;
  };
  return same(run(*scalar_kernels()), run(kernels));
}

// Columns that fill wide strips, one vector, and a part of one.
bool check_recurrences(const CpuKernels& kernels, Values* values) {
  constexpr uint32_t kTokens = 10, kDim = 120, kState = 9;
  const std::vector<float> x = values->floats(kTokens * kDim, 1.0f), b = values->floats(kTokens * kDim, 0.3f);
  const std::vector<float> decay = values->floats(kTokens, 0.02f), state = values->floats(kState * kDim, 1.0f);
  const auto run = [&](const CpuKernels& k, uint32_t rows) {
    std::vector<float> out = x, scanned(x.size()), learned(x.size()), kept(3 * kState * kDim);
    float *conv_state = kept.data(), *scan_state = conv_state + kState * kDim, *delta_state = scan_state + kState * kDim;
    for (const uint32_t taps : {3u, 4u, 5u}) {
      k.conv_rows(
          {out.data(), kDim, rows, kDim, taps, b.data(), taps == 4 ? nullptr : state.data(), kDim, state.data(), kDim, conv_state, kDim});
    }
    k.scan_head({x.data(), b.data(), b.data() + kState, kDim, decay.data(), decay.data(), 1, 0.7f, rows, kDim, kState, state.data(),
                 scan_state, scanned.data(), kDim});
    k.delta_head({b.data(), b.data() + kState, kDim, x.data(), kDim, decay.data(), decay.data(), 1, rows, kState, kDim, state.data(),
                  delta_state, learned.data(), kDim});
    for (const auto* part : {&scanned, &learned, &kept}) out.insert(out.end(), part->begin(), part->end());
    return out;
  };
  return same(run(*scalar_kernels(), kTokens), run(kernels, kTokens)) && same(run(*scalar_kernels(), 1), run(kernels, 1));
}

}  // namespace

bool check_kernels(const CpuKernels& kernels, std::string* mismatch) {
  const FpEnv fp_env;
  Values values;
  const char* failed = nullptr;
  if (!check_quantize(kernels, &values)) failed = "quantize";
  for (const DTypeInfo& info : dtypes()) {
    if (!check_matmul(kernels, info.type, &values)) failed = info.name;
  }
  if (!check_rows(kernels, &values)) failed = "norm, activation, rotation or rounding";
  for (size_t i = 0; i < std::size(kKvFormats); ++i) {
    const KvFormat format = kKvFormats[i], other = kKvFormats[(i + 1) % std::size(kKvFormats)];
    // int4's values come 16 at a time.
    const bool least = format == KvFormat::kI4 ? check_attention<1, 80>(kernels, format, format, &values)
                                               : check_attention<1, 24>(kernels, format, format, &values);
    const bool few = least && check_attention<2, 48>(kernels, format, format, &values);
    const bool many = check_attention<5, 48>(kernels, format, format, &values);
    if (!few || !many || !check_attention<3, 20, 48>(kernels, format, other, &values)) failed = "attention";
    if (!check_attention<7, 44, 32>(kernels, format, format, &values, /*latent=*/true)) failed = "attention over latents";
  }
  if (!check_gates(kernels, &values) || !check_recurrences(kernels, &values)) failed = "a recurrent layer";
  if (failed != nullptr) *mismatch = failed;
  return failed == nullptr;
}

}  // namespace kvrt
