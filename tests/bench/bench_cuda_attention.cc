// bench_cuda: attention over a paged pool. Decode reads K and V once and is held against the copy rate; prefill multiplies.
#include <algorithm>
#include <numeric>

#include "runtime/compute/quant/quants.h"
#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {
namespace {

struct Heads {
  const char* name;
  uint32_t heads, kv_heads, head_dim;
  uint32_t stride() const { return (heads + 2 * kv_heads) * head_dim; }
};
constexpr Heads kHeads8b{"8b", 32, 8, 128}, kHeadsSmol{"smollm2", 9, 3, 64};
constexpr uint32_t kBlockTokens = 32;

const char* format_name(KvFormat format) {
  switch (format) {
    case KvFormat::kF16:
      return "f16";
    case KvFormat::kBF16:
      return "bf16";
    case KvFormat::kF32:
      return "f32";
    case KvFormat::kI8:
      return "i8";
    case KvFormat::kI4:
      return "int4";
    case KvFormat::kF8:
      return "fp8";
  }
  return "";
}

std::string formats_name(KvFormats formats) {
  const std::string k = format_name(formats.k);
  return formats.k == formats.v ? k : k + "/" + format_name(formats.v);
}

// Blocks of ordinary numbers: those of a layer, over and over. f16, int8, fp8 and int4.
std::vector<uint8_t> some_blocks(const KvGeometry& kv) {
  constexpr uint32_t kBlocks = 16;
  const std::vector<uint8_t> halves = random_halves(kv.layer_bytes() / 2, -2, 1), bytes = random_bytes(kv.layer_bytes(), 1);
  const auto begin = [&](const KvRows& rows) { return (rows.format == KvFormat::kF16 ? halves : bytes).begin(); };
  std::vector<uint8_t> layer(kv.layer_bytes()), out;
  const auto k_end = std::copy_n(begin(kv.k), kv.v_at(), layer.begin());
  std::copy_n(begin(kv.v), kv.k_scales_at() - kv.v_at(), k_end);
  const uint16_t scale = f32_to_f16(0.01f);
  for (uint64_t at = kv.k_scales_at(); at < layer.size(); at += 2) std::copy_n(reinterpret_cast<const uint8_t*>(&scale), 2, &layer[at]);
  for (uint64_t i = 0; i < uint64_t{kBlocks} * kv.layers; ++i) out.insert(out.end(), layer.begin(), layer.end());
  return out;
}

// Sequences of `tokens` positions, in blocks that lie scattered; each layer is another turn.
struct Pool {
  KvGeometry kv;
  uint32_t sequences, tokens;
  Memory memory, tables;
  uint32_t per_sequence;

  Pool(const Device& device, const Heads& heads, KvFormats formats, uint32_t n, uint32_t count)
      : kv{1, heads.kv_heads, heads.head_dim, kBlockTokens, formats}, sequences(n), tokens(count) {
    per_sequence = static_cast<uint32_t>(kv.blocks_for(tokens));
    const uint32_t blocks = sequences * per_sequence;
    kv.layers = device.turns_for(blocks * kv.layer_bytes());
    memory = Memory(blocks * kv.block_bytes(), some_blocks(kv));
    uint32_t step = 7;
    while (std::gcd(step, blocks) != 1) ++step;
    std::vector<int32_t> table(blocks);
    for (uint32_t i = 0; i < blocks; ++i) table[i] = static_cast<int32_t>(uint64_t{i} * step % blocks);
    tables = Memory(table);
  }
};

void measure_decode(Device* device, const Heads& heads, KvFormats formats, uint32_t sequences, uint32_t tokens) {
  const Pool pool(*device, heads, formats, sequences, tokens);
  std::vector<uint32_t> at(sequences);
  for (uint32_t i = 0; i < sequences; ++i) at[i] = i * pool.per_sequence;
  const Memory positions(std::vector<int32_t>(sequences, static_cast<int32_t>(tokens - 1))), tables_at(at),
      stores(std::vector<uint32_t>(sequences, 1));
  const Memory q(random_floats(uint64_t{sequences} * heads.stride(), 2)),
      out(uint64_t{sequences} * heads.heads * heads.head_dim * sizeof(float));
  const uint32_t splits = std::bit_ceil((tokens - 1) / cuda::kSplitTokens + 1);  // as the backend has them
  const Memory partials(std::max<uint64_t>(16, cuda::decode_partials(pool.kv, heads.heads, sequences, splits) * sizeof(float)));
  const cuda::DeviceStep step{nullptr, positions.as<int32_t>(), tables_at.as<uint32_t>(), pool.tables.as<int32_t>(), stores.as<uint32_t>(),
                              nullptr};
  const Timed timed = device->time(pool.kv.layers, [&](uint32_t layer) {
    cuda::decode_attention(&device->stream, pool.kv, pool.memory.as<uint8_t>(), layer, step, sequences, splits, {heads.heads, 0.088f, 0, 0},
                           q.as<float>(), heads.stride(), partials.as<float>(), out.as<float>());
  });
  const double bytes = static_cast<double>(pool.kv.token_bytes() / pool.kv.layers) * tokens * sequences, rate = bytes / timed.us / 1e3;
  Line("attention")
      .add("what", "decode")
      .add("shape", heads.name)
      .add("kv", formats_name(formats))
      .add("sequences", sequences)
      .add("tokens", tokens)
      .add("us", timed.us)
      .add("gb_s", rate)
      .add("of_copy", rate / device->copy_gb_s)
      .add("spread", timed.spread);
}

// The last `rows` of `tokens` positions of one sequence.
void measure_prefill(Device* device, const Heads& heads, KvFormats formats, uint32_t rows, uint32_t tokens) {
  const Pool pool(*device, heads, formats, 1, tokens);
  if (!cuda::prefill_supported(pool.kv)) {
    Line("attention").add("what", "prefill").add("shape", heads.name).add("kv", formats_name(formats)).add("skipped", "row by row");
    return;
  }
  const uint32_t first = tokens - rows;
  std::vector<int32_t> position(rows);
  std::iota(position.begin(), position.end(), static_cast<int32_t>(first));
  std::vector<cuda::PrefillTile> tiles;  // the longest first, as the backend has them
  for (uint32_t at = 0; at < rows; at += cuda::kPrefillTileRows) {
    tiles.push_back({at, std::min(cuda::kPrefillTileRows, rows - at), static_cast<int32_t>(first + at)});
  }
  std::reverse(tiles.begin(), tiles.end());
  const Memory positions(position), tables_at(std::vector<uint32_t>(rows, 0)), stores(std::vector<uint32_t>(rows, 1)), tiles_there(tiles);
  const Memory q(random_floats(uint64_t{rows} * heads.stride(), 3)), out(uint64_t{rows} * heads.heads * heads.head_dim * sizeof(float));
  const cuda::DeviceStep step{nullptr, positions.as<int32_t>(), tables_at.as<uint32_t>(), pool.tables.as<int32_t>(), stores.as<uint32_t>(),
                              nullptr};
  const uint32_t layers = std::min(pool.kv.layers, 4u);
  const Timed timed = device->time(layers, [&](uint32_t layer) {
    cuda::prefill_attention(&device->stream, pool.kv, pool.memory.as<uint8_t>(), layer, step, tiles_there.as<cuda::PrefillTile>(),
                            static_cast<uint32_t>(tiles.size()), {heads.heads, 0.088f, 0, 0}, q.as<float>(), heads.stride(),
                            out.as<float>());
  });
  double seen = 0;  // keys that a row sees: those before it and its own
  for (uint32_t row = 0; row < rows; ++row) seen += first + row + 1.0;
  Line("attention")
      .add("what", "prefill")
      .add("shape", heads.name)
      .add("kv", formats_name(formats))
      .add("rows", rows)
      .add("tokens", tokens)
      .add("us", timed.us)
      .add("tflop_s", 4.0 * heads.heads * heads.head_dim * seen / timed.us / 1e6)
      .add("spread", timed.spread);
}

}  // namespace

void bench_attention(Device* device) {
  for (const KvFormats formats :
       {KvFormats(KvFormat::kF16), {KvFormat::kI8}, {KvFormat::kF8}, {KvFormat::kI4}, {KvFormat::kI8, KvFormat::kF16}}) {
    if (device->smoke) {
      measure_decode(device, {"tried", 4, 2, 64}, formats, 2, 70);
      measure_prefill(device, {"tried", 4, 2, 64}, formats, 40, 70);
      continue;
    }
    for (const uint32_t sequences : {1u, 8u, 16u}) {
      for (const uint32_t tokens : {4096u, 32768u}) measure_decode(device, kHeads8b, formats, sequences, tokens);
    }
    for (const uint32_t sequences : {32u, 64u}) measure_decode(device, kHeads8b, formats, sequences, 4096);
    for (const uint32_t tokens : {512u, 2048u, 8192u}) measure_decode(device, kHeadsSmol, formats, 1, tokens);
    measure_prefill(device, kHeads8b, formats, 512, 512);
    measure_prefill(device, kHeads8b, formats, 2048, 2048);
    measure_prefill(device, kHeads8b, formats, 512, 32768);
    for (const uint32_t tokens : {8192u, 32768u}) measure_prefill(device, kHeads8b, formats, 64, tokens);  // appended to a context
    measure_prefill(device, kHeadsSmol, formats, 512, 2048);
  }
}

}  // namespace kvrt::bench
