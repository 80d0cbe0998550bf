// bench_cuda: whole steps of made-up models through CudaBackend and forward(), by the host's clock, as the engine takes them: the step's
// arrays are copied, the graph is replayed, the logits or the largest of them come back. The bound is weights and KV over the copy rate, and no other time at all.
#include <algorithm>
#include <chrono>

#include "cuda/cuda_backend.h"
#include "runtime/base/limits.h"
#include "runtime/model/model.h"
#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {
namespace {

struct Shape {
  const char* name;
  uint32_t layers, width, heads, kv_heads, head_dim, ff, vocab;
  DType layer_type, head_type;
};
constexpr Shape kModels[] = {{"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kF16, DType::kF16},
                             {"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kQ8_0, DType::kQ8_0},
                             {"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kQ4_K, DType::kQ6_K},
                             {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, DType::kQ4_1, DType::kQ8_0}};
constexpr Shape kTried = {"tried", 2, 256, 4, 2, 64, 512, 320, DType::kQ8_0, DType::kQ8_0};
constexpr uint32_t kBlockTokens = 32;

// Its layers share a few sets of weights in turn: enough that none is in the cache when its turn comes.
class Synthetic {
 public:
  Synthetic(Device* device, const Shape& shape, uint32_t sequences, uint32_t tokens);

  // n rows of one sequence from `position` on, with the logits of the last.
  void prefill(uint32_t position, uint32_t n);
  // A row of each of the first `sequences`, at `position`.
  void decode(uint32_t position, uint32_t sequences, bool draws);
  // Gives the others what the first sequence has of positions [0, tokens).
  void share(uint32_t tokens);
  double weight_bytes() const { return weight_bytes_; }
  double body_flops() const { return body_flops_; }  // of a row, without attention
  const KvGeometry& kv() const { return kv_; }

 private:
  void make_layers(Device* device);
  void run(std::span<const StepSeq> seqs, std::span<const int32_t> positions, std::span<const uint32_t> logits_rows, bool draws);

  Shape shape_;
  std::vector<Weights> sets_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  KvGeometry kv_;
  uint32_t sequences_, per_sequence_;
  std::vector<int32_t> blocks_, tokens_;
  std::vector<Draw> draws_ = std::vector<Draw>(kLogitsRowsMax);  // the largest
  std::unique_ptr<Buffer> pool_, logits_;
  std::unique_ptr<ForwardScratch> scratch_;
  double weight_bytes_ = 0, body_flops_ = 0;
};

std::unique_ptr<Weight> weight(const cuda::DeviceWeight& view, uint64_t bytes) {
  return std::make_unique<cuda::CudaWeight>(view, bytes, nullptr);
}

void Synthetic::make_layers(Device* device) {
  const Shape& s = shape_;
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  uint64_t layer_bytes = 0;
  const std::pair<uint32_t, uint32_t> matrices[] = {{q + 2 * kv, s.width}, {s.width, q}, {2 * s.ff, s.width}, {s.width, s.ff}};
  for (const auto& [rows, cols] : matrices) {
    layer_bytes += Weights::bytes_of(s.layer_type, rows, cols);
    body_flops_ += 2.0 * rows * cols * s.layers;
  }
  const uint32_t copies = std::min(s.layers, device->turns_for(layer_bytes));
  for (const auto& [rows, cols] : matrices) sets_.emplace_back(s.layer_type, rows, cols, copies);
  sets_.emplace_back(s.head_type, s.vocab, s.width, 1);
  model_.layers.resize(s.layers);
  for (uint32_t i = 0; i < s.layers; ++i) {
    Layer& layer = model_.layers[i];
    const uint32_t copy = i % copies;
    layer.attn_norm.values = layer.ffn_norm.values = std::vector<float>(s.width, 1.0f);
    layer.qkv = weight(sets_[0].view(copy, {q, kv, kv}), sets_[0].bytes());
    layer.out = weight(sets_[1].view(copy), sets_[1].bytes());
    layer.gate_up = weight(sets_[2].view(copy, {s.ff, s.ff}), sets_[2].bytes());
    layer.down = weight(sets_[3].view(copy), sets_[3].bytes());
  }
  model_.embedding = weight(sets_[4].view(0), sets_[4].bytes());
  weight_bytes_ = static_cast<double>(layer_bytes) * s.layers + static_cast<double>(sets_[4].bytes());
}

Synthetic::Synthetic(Device* device, const Shape& shape, uint32_t sequences, uint32_t tokens) : shape_(shape), sequences_(sequences) {
  backend_ = must(cuda::CudaBackend::open({}, nullptr));
  make_layers(device);
  ModelDims& d = model_.dims;
  d.layers = shape.layers, d.width = shape.width, d.ff = shape.ff, d.heads = shape.heads, d.kv_heads = shape.kv_heads;
  d.head_dim = shape.head_dim, d.vocab = shape.vocab, d.context = tokens, d.rms_eps = 1e-5f, d.tied_head = true;
  d.rope = {RopeStyle::kInterleaved, shape.head_dim, 500000.0f};
  d.attention_scale = 0.088f;
  model_.arch = find_arch("llama");
  model_.output_norm.values = std::vector<float>(shape.width, 1.0f);
  must(place_vectors(&model_, backend_.get()));
  kv_ = {shape.layers, shape.kv_heads, shape.head_dim, kBlockTokens, KvFormat::kF16};
  per_sequence_ = static_cast<uint32_t>(kv_.blocks_for(tokens));
  const uint32_t blocks = sequences * per_sequence_;
  for (uint32_t i = 0; i < blocks; ++i) blocks_.push_back(static_cast<int32_t>(blocks - 1 - i));
  pool_ = must(backend_->alloc(blocks * kv_.block_bytes(), true));
  logits_ = must(backend_->alloc_host(uint64_t{sequences} * shape.vocab * sizeof(float)));
  scratch_ = must(make_scratch(model_, backend_.get(), kStepRowsMax));
  for (uint32_t i = 0; i < kStepRowsMax; ++i) tokens_.push_back(static_cast<int32_t>(uint64_t{i} * 7919 % shape.vocab));
}

void Synthetic::run(std::span<const StepSeq> seqs, std::span<const int32_t> positions, std::span<const uint32_t> logits_rows, bool draws) {
  const Step step{seqs, std::span(tokens_).first(positions.size()), positions, logits_rows,
                  std::span(draws_).first(draws ? logits_rows.size() : 0)};
  forward(model_, backend_.get(), kv_, pool_->data(), step, scratch_.get(), reinterpret_cast<float*>(logits_->data()),
          reinterpret_cast<DrawnToken*>(logits_->data()));
  must(backend_->sync());
  if (!draws) return;
  for (size_t i = 0; i < logits_rows.size(); ++i) {  // a model that computes with infinities is none
    if (!reinterpret_cast<DrawnToken*>(logits_->data())[i].finite) fail(std::string("not all logits of ") + shape_.name + " are finite");
  }
}

void Synthetic::prefill(uint32_t position, uint32_t n) {
  std::vector<int32_t> positions(n);
  for (uint32_t i = 0; i < n; ++i) positions[i] = static_cast<int32_t>(position + i);
  const StepSeq seq{0, n, static_cast<int32_t>(position), blocks_.data(), per_sequence_, true};
  const uint32_t last = n - 1;
  run({&seq, 1}, positions, {&last, 1}, /*draws=*/true);
}

void Synthetic::decode(uint32_t position, uint32_t sequences, bool draws) {
  const std::vector<int32_t> positions(sequences, static_cast<int32_t>(position));
  std::vector<StepSeq> seqs;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < sequences; ++i) {
    seqs.push_back({i, 1, static_cast<int32_t>(position), blocks_.data() + i * per_sequence_, per_sequence_, true});
    rows.push_back(i);
  }
  run(seqs, positions, rows, draws);
}

void Synthetic::share(uint32_t tokens) {
  const auto place = [&](uint64_t index) { return pool_->data() + static_cast<uint64_t>(blocks_[index]) * kv_.block_bytes(); };
  for (uint32_t i = 1; i < sequences_; ++i) {
    for (uint32_t block = 0; block < kv_.blocks_for(tokens); ++block) {
      const BlockPair pair{place(uint64_t{i} * per_sequence_ + block), place(block)};
      backend_->copy({&pair, 1}, kv_.block_bytes());
    }
  }
  must(backend_->sync());
}

void measure_prefill(Device* device, Synthetic* model, const Shape& shape, uint32_t tokens) {
  const uint32_t step = std::min(tokens, device->size(kStepRowsMax, 40u));
  const auto all = [&] {
    for (uint32_t at = 0; at < tokens; at += step) model->prefill(at, std::min(step, tokens - at));
  };
  all();
  const Timed timed = device->time_host(device->size(5u, 1u), all);
  const double attention = 4.0 * shape.layers * shape.heads * shape.head_dim * tokens * (tokens + 1.0) / 2;
  Line("step")
      .add("what", "prefill")
      .add("model", shape.name)
      .add("layers", type_name(shape.layer_type))
      .add("head", type_name(shape.head_type))
      .add("tokens", tokens)
      .add("step", step)
      .add("tok_s", tokens * 1e6 / timed.us)
      .add("tflop_s", (model->body_flops() * tokens + attention) / timed.us / 1e6)
      .add("spread", timed.spread);
}

void measure_decode(Device* device, Synthetic* model, const Shape& shape, uint32_t depth, uint32_t sequences, bool draws) {
  for (uint32_t i = 0; i < 4; ++i) model->decode(depth, sequences, draws);  // the first without a graph, the second captures it
  const Timed timed = device->time_host(device->size(101u, 3u), [&] { model->decode(depth, sequences, draws); });
  const KvGeometry& kv = model->kv();
  const double bytes = model->weight_bytes() + static_cast<double>(kv.token_bytes()) * depth * sequences;
  Line("step")
      .add("what", "decode")
      .add("model", shape.name)
      .add("layers", type_name(shape.layer_type))
      .add("head", type_name(shape.head_type))
      .add("depth", depth)
      .add("sequences", sequences)
      .add("back", draws ? "the drawn token" : "logits")
      .add("us", timed.us)
      .add("tok_s", sequences * 1e6 / timed.us)
      .add("gb_s", bytes / timed.us / 1e3)
      .add("of_bound", bytes / timed.us / 1e3 / device->copy_gb_s)
      .add("spread", timed.spread);
}

}  // namespace

void bench_step(Device* device) {
  for (const Shape& shape : device->smoke ? std::span(&kTried, 1) : std::span(kModels)) {
    const uint32_t prompt = device->size(2048u, 60u), most = device->size(16u, 2u);
    Synthetic model(device, shape, most, prompt + 1);
    measure_prefill(device, &model, shape, device->size(512u, 40u));
    measure_prefill(device, &model, shape, prompt);
    model.share(prompt);
    measure_decode(device, &model, shape, 0, 1, /*draws=*/false);
    for (const uint32_t depth : {0u, device->size(512u, 8u), prompt}) {
      for (const uint32_t sequences : {1u, 4u, 8u, 16u}) {
        if (sequences > most || (depth == 0 && sequences > 1)) continue;
        measure_decode(device, &model, shape, depth, sequences, /*draws=*/true);
      }
    }
  }
}

}  // namespace kvrt::bench
