// The forward pass over a made-up model with shapes of real ones: the number of times that threads wait, and that threads do not show.
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/model/model.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

constexpr uint32_t kLayers = 3, kWidth = 256, kFf = 680, kHeads = 6, kKvHeads = 2, kHeadDim = 64, kVocab = 500, kBlockTokens = 32;
constexpr uint32_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim, kContext = 2048;

class MadeUp {
 public:
  MadeUp(const char* arch, uint32_t threads) : backend_(open_backend("", threads)) {
    Random random(1);
    const auto matrix = [&](std::vector<std::pair<DType, uint32_t>> tensors, uint32_t cols) {
      std::vector<Tensor> made;
      for (const auto& [type, rows] : tensors) {
        const std::vector<float> values = random.floats(uint64_t{rows} * cols, 0.05f);
        Tensor tensor = random_tensor(DType::kF32, rows, cols, &random);
        std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
        made.push_back(type == DType::kF32 ? std::move(tensor) : quantized(values, rows, cols));
      }
      return make_weight(backend_.get(), made);
    };
    model_.arch = find_arch(arch);
    ModelDims& d = model_.dims;
    d.layers = kLayers, d.width = kWidth, d.ff = kFf, d.heads = kHeads, d.kv_heads = kKvHeads, d.head_dim = kHeadDim, d.vocab = kVocab;
    d.context = kContext, d.norm_eps = 1e-5f, d.attention_scale = 0.125f, d.tied_head = true;
    d.rope = {model_.arch->rope_style, kHeadDim, 10000.0f};
    for (uint32_t i = 0; i < kLayers; ++i) {
      Layer& layer = model_.layers.emplace_back();
      for (auto* norm : {&layer.attn_norm, &layer.ffn_norm, &layer.post_attn_norm, &layer.post_ffn_norm})
        norm->values = random.floats(kWidth);
      layer.q_norm.values = random.floats(kHeads * kHeadDim);
      layer.k_norm.values = random.floats(kKvHeads * kHeadDim);
      layer.qkv =
          matrix({{DType::kQ8_0, kHeads * kHeadDim}, {DType::kF32, kKvHeads * kHeadDim}, {DType::kQ8_0, kKvHeads * kHeadDim}}, kWidth);
      layer.out = matrix({{DType::kQ8_0, kWidth}}, kHeads * kHeadDim);
      layer.gate_up = matrix({{DType::kQ8_0, 2 * kFf}}, kWidth);
      layer.down = matrix({{DType::kF32, kWidth}}, kFf);
    }
    model_.output_norm.values = random.floats(kWidth);
    model_.embedding = matrix({{DType::kQ8_0, kVocab}}, kWidth);
    EXPECT_TRUE(place_vectors(&model_, backend_.get()).is_ok());
    kv_ = {kLayers, kKvHeads, kHeadDim, kBlockTokens};
    for (int32_t b = kContext / kBlockTokens - 1; b >= 0; --b) blocks_.push_back(b);
    pool_ = std::move(backend_->alloc(blocks_.size() * kv_.block_bytes(), false)).value();
    scratch_ = std::move(make_scratch(model_, backend_.get(), 512)).value();
  }

  // Logits of the last of `rows` tokens from position `depth` on.
  std::vector<float> step(uint32_t depth, uint32_t rows) {
    std::vector<int32_t> tokens, positions;
    for (uint32_t i = depth; i < depth + rows; ++i) {
      tokens.push_back(static_cast<int32_t>(i * 7919 % kVocab));
      positions.push_back(static_cast<int32_t>(i));
    }
    const StepSeq seq{0, rows, static_cast<int32_t>(depth), blocks_.data(), static_cast<uint32_t>(blocks_.size())};
    const uint32_t last = rows - 1;
    std::vector<float> logits(kVocab);
    forward(model_, backend_.get(), one_group(kv_), pool_->data(), {{&seq, 1}, tokens, positions, {&last, 1}}, scratch_.get(),
            logits.data());
    return logits;
  }
  uint32_t regions() const { return static_cast<const CpuBackend&>(*backend_).regions(); }

 private:
  // Q8_0 with the scale of each block's largest value.
  static Tensor quantized(const std::vector<float>& values, uint32_t rows, uint32_t cols) {
    Tensor tensor{DType::kQ8_0, rows, cols, {}};
    for (size_t b = 0; b < values.size(); b += 32) {
      float largest = 1e-9f;
      for (size_t i = b; i < b + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
      const uint16_t scale = f32_to_f16(largest / 127);
      tensor.bytes.push_back(static_cast<uint8_t>(scale));
      tensor.bytes.push_back(static_cast<uint8_t>(scale >> 8));
      for (size_t i = b; i < b + 32; ++i) tensor.bytes.push_back(static_cast<uint8_t>(std::lround(values[i] / largest * 127)));
    }
    return tensor;
  }

  std::unique_ptr<Backend> backend_;
  Model model_;
  KvGeometry kv_;
  std::vector<int32_t> blocks_;
  std::unique_ptr<Buffer> pool_;
  std::unique_ptr<ForwardScratch> scratch_;
};

// The regions beside a layer's: the rotations, the first rows, the head, and two more where the last layer has few rows left.
TEST(Forward, WaitsAtMostFiveTimesALayerAndTwiceWithManyRows) {
  for (const char* arch : {"llama", "gemma3"}) {
    MadeUp model(arch, 2);
    model.step(0, 512);
    model.step(512, 512);
    for (const auto& [rows, a_layer] : {std::pair{1u, 5u}, {8u, 5u}, {16u, 5u}, {32u, 5u}, {100u, 2u}, {512u, 2u}}) {
      uint32_t most = 0;
      for (int attempt = 0; attempt < 2000 && most < 2 * kLayers; ++attempt) {  // a caller on a busy machine deals nothing for a while
        const uint32_t before = model.regions();
        model.step(1024, rows);
        most = std::max(most, model.regions() - before);
      }
      EXPECT_LE(most, a_layer * kLayers + 5) << arch << " " << rows << " rows";
      EXPECT_GE(most, 2 * kLayers) << arch << " " << rows << " rows: is the work dealt at all?";
    }
  }
}

TEST(Forward, ThreadsAndChunksDoNotShow) {
  for (const char* arch : {"llama", "olmo2", "gemma3"}) {
    MadeUp one(arch, 1);
    one.step(0, 512);
    one.step(512, 88);
    const std::vector<float> want = one.step(600, 1);
    EXPECT_TRUE(std::all_of(want.begin(), want.end(), [](float f) { return std::isfinite(f); }));
    EXPECT_NE(*std::min_element(want.begin(), want.end()), *std::max_element(want.begin(), want.end()));
    for (const auto& [threads, chunk] : {std::pair{2u, 150u}, {3u, 75u}, {4u, 30u}, {2u, 600u / 8}}) {
      MadeUp model(arch, threads);
      for (uint32_t at = 0; at < 600; at += chunk) model.step(at, chunk);
      EXPECT_SAME_BITS(want, model.step(600, 1)) << arch << " threads " << threads << " chunk " << chunk;
    }
  }
}

}  // namespace
}  // namespace kvrt::test
