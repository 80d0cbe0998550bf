// bench_cuda: whole steps of made-up models through CudaBackend and forward(), by the host's clock, as the engine takes them: the step's
// arrays are copied, the graph is replayed, the logits or the largest of them come back. Prompts of a message and of a text, rows after a
// context, batches, and a model of experts. The bound is weights and KV over the copy rate, and no other time at all.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "cuda/backend/cuda_backend.h"
#include "runtime/base/limits.h"
#include "runtime/model/model.h"
#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {
namespace {

struct Shape {
  const char* name;
  uint32_t layers, width, heads, kv_heads, head_dim, ff, vocab;
  DType layer_type, head_type;
  uint32_t experts = 0, experts_used = 0;  // ff: of one
};
constexpr Shape kModels[] = {{"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kF16, DType::kF16},
                             {"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kQ8_0, DType::kQ8_0},
                             {"8b", 32, 4096, 32, 8, 128, 14336, 128256, DType::kQ4_K, DType::kQ6_K},
                             {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, DType::kQ4_1, DType::kQ8_0},
                             {"30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, DType::kQ4_K, DType::kQ6_K, 128, 8}};
constexpr Shape kTried[] = {{"tried", 2, 256, 4, 2, 64, 512, 320, DType::kQ8_0, DType::kQ8_0},
                            {"tried experts", 2, 256, 4, 2, 64, 64, 320, DType::kQ8_0, DType::kQ8_0, 8, 2}};
constexpr uint32_t kBlockTokens = 32;

// A made-up model. Its layers share a few sets of weights in turn: enough that none is in the cache when its turn comes.
class Synthetic {
 public:
  // Room for so many sequences of `tokens` each, or for one of `deep`.
  Synthetic(Device* device, const Shape& shape, uint32_t sequences, uint32_t tokens, uint32_t deep);

  // n rows of the first sequence from `position` on, with the logits of the last. Beyond `tokens` it has the blocks of the others.
  void prefill(uint32_t position, uint32_t n);
  // A row of each of the first `sequences`, at `position`.
  void decode(uint32_t position, uint32_t sequences, bool draws);
  // Gives the others the KV that the first sequence has of positions [0, tokens).
  void share(uint32_t tokens);
  // The bytes that a step of so many rows reads: of experts, those of the chosen ones, where rows choose at random.
  double weight_bytes(uint32_t rows) const {
    const double experts = shape_.experts, missed = experts > 0 ? std::pow(1 - shape_.experts_used / experts, rows) : 0;
    return weight_bytes_ + expert_bytes_ * experts * (1 - missed);
  }
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
  KvGroups groups_;
  uint32_t sequences_, per_sequence_;
  std::vector<int32_t> blocks_, tokens_;
  std::vector<Draw> draws_ = std::vector<Draw>(kLogitsRowsMax);  // the largest
  std::unique_ptr<Buffer> pool_, logits_;
  std::unique_ptr<ForwardScratch> scratch_;
  double weight_bytes_ = 0, expert_bytes_ = 0, body_flops_ = 0;  // without experts'; of one in every layer
};

std::unique_ptr<Weight> weight(const cuda::DeviceWeight& view, uint64_t bytes) {
  return std::make_unique<cuda::CudaWeight>(view, bytes, nullptr);
}

void Synthetic::make_layers(Device* device) {
  const Shape& s = shape_;
  const uint32_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim, mlps = std::max(s.experts, 1u);
  uint64_t layer_bytes = 0;
  struct Matrix {
    uint32_t rows, cols, count;
  };
  const Matrix matrices[] = {{q + 2 * kv, s.width, 1}, {s.width, q, 1}, {2 * s.ff, s.width, mlps}, {s.width, s.ff, mlps}};
  for (const auto& [rows, cols, count] : matrices) {
    const uint64_t bytes = Weights::bytes_of(s.layer_type, rows, cols);
    layer_bytes += bytes * count;
    (count > 1 ? expert_bytes_ : weight_bytes_) += static_cast<double>(bytes) * s.layers;
    body_flops_ += 2.0 * rows * cols * s.layers * (count > 1 ? s.experts_used : 1);
  }
  const uint32_t copies = std::min(s.layers, device->turns_for(layer_bytes));
  for (const auto& [rows, cols, count] : matrices) sets_.emplace_back(s.layer_type, rows, cols, copies * count);
  sets_.emplace_back(s.head_type, s.vocab, s.width, 1);
  sets_.emplace_back(DType::kF16, mlps, s.width, copies);  // routers
  model_.layers.resize(s.layers);
  for (uint32_t i = 0; i < s.layers; ++i) {
    Layer& layer = model_.layers[i];
    const uint32_t copy = i % copies;
    layer.attn_norm.values = layer.ffn_norm.values = std::vector<float>(s.width, 1.0f);
    layer.qkv = weight(sets_[0].view(copy, {q, kv, kv}), sets_[0].bytes());
    layer.out = weight(sets_[1].view(copy), sets_[1].bytes());
    const auto gate_up = [&](uint32_t at) { return weight(sets_[2].view(at, {s.ff, s.ff}), sets_[2].bytes()); };
    const auto down = [&](uint32_t at) { return weight(sets_[3].view(at), sets_[3].bytes()); };
    if (s.experts == 0) {
      layer.gate_up = gate_up(copy);
      layer.down = down(copy);
      continue;
    }
    layer.router = weight(sets_[5].view(copy), sets_[5].bytes());
    for (uint32_t e = 0; e < s.experts; ++e) layer.experts.push_back({gate_up(copy * s.experts + e), down(copy * s.experts + e)});
  }
  model_.embedding = weight(sets_[4].view(0), sets_[4].bytes());
  weight_bytes_ += static_cast<double>(sets_[4].bytes());
}

Synthetic::Synthetic(Device* device, const Shape& shape, uint32_t sequences, uint32_t tokens, uint32_t deep)
    : shape_(shape), sequences_(sequences) {
  backend_ = must(cuda::CudaBackend::open({}, nullptr));
  make_layers(device);
  ModelDims& d = model_.dims;
  d.layers = shape.layers, d.width = shape.width, d.ff = shape.ff, d.heads = shape.heads, d.kv_heads = shape.kv_heads;
  d.head_dim = shape.head_dim, d.vocab = shape.vocab, d.context = std::max(tokens, deep), d.norm_eps = 1e-5f, d.tied_head = true;
  d.experts = shape.experts, d.experts_used = shape.experts_used;
  d.rope = {RopeStyle::kInterleaved, shape.head_dim, 500000.0f};
  d.attention_scale = 0.088f;
  model_.arch = find_arch("llama");
  model_.output_norm.values = std::vector<float>(shape.width, 1.0f);
  must(place_vectors(&model_, backend_.get()));
  kv_ = {shape.layers, shape.kv_heads, shape.head_dim, kBlockTokens, KvFormat::kF16};
  groups_ = one_group(kv_);
  per_sequence_ = static_cast<uint32_t>(kv_.blocks_for(tokens));
  const uint32_t blocks = std::max(sequences * per_sequence_, static_cast<uint32_t>(kv_.blocks_for(deep)));
  for (uint32_t i = 0; i < blocks; ++i) blocks_.push_back(static_cast<int32_t>(blocks - 1 - i));
  pool_ = must(backend_->alloc(blocks * kv_.block_bytes(), true));
  logits_ = must(backend_->alloc_host(uint64_t{sequences} * shape.vocab * sizeof(float)));
  scratch_ = must(make_scratch(model_, backend_.get(), kStepRowsMax));
  for (uint32_t i = 0; i < kStepRowsMax; ++i) tokens_.push_back(static_cast<int32_t>(uint64_t{i} * 7919 % shape.vocab));
}

void Synthetic::run(std::span<const StepSeq> seqs, std::span<const int32_t> positions, std::span<const uint32_t> logits_rows, bool draws) {
  const Step step{seqs, std::span(tokens_).first(positions.size()), positions, logits_rows,
                  std::span(draws_).first(draws ? logits_rows.size() : 0)};
  forward(model_, backend_.get(), groups_, pool_->data(), step, scratch_.get(), reinterpret_cast<float*>(logits_->data()),
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
  const auto blocks = static_cast<uint32_t>(kv_.blocks_for(position + n));
  const StepSeq seq{0, n, static_cast<int32_t>(position), blocks_.data(), blocks};
  const uint32_t last = n - 1;
  run({&seq, 1}, positions, {&last, 1}, /*draws=*/true);
}

void Synthetic::decode(uint32_t position, uint32_t sequences, bool draws) {
  const std::vector<int32_t> positions(sequences, static_cast<int32_t>(position));
  std::vector<StepSeq> seqs;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < sequences; ++i) {
    seqs.push_back({i, 1, static_cast<int32_t>(position), blocks_.data() + i * per_sequence_, per_sequence_});
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

void describe(Line* line, const char* what, const Shape& shape) {
  line->add("what", what).add("model", shape.name).add("layers", type_name(shape.layer_type)).add("head", type_name(shape.head_type));
}
// The time of a step that reads the weights and so many tokens' KV, and its share of the bound.
void add_bound(Line* line, const Device& device, const Synthetic& model, uint32_t rows, uint64_t tokens, const Timed& timed) {
  const double bytes = model.weight_bytes(rows) + static_cast<double>(model.kv().token_bytes() * tokens);
  const double rate = bytes / timed.us / 1e3;
  line->add("us", timed.us).add("tok_s", rows * 1e6 / timed.us).add("gb_s", rate).add("of_bound", rate / device.copy_gb_s);
  line->add("spread", timed.spread);
}

void measure_prefill(Device* device, Synthetic* model, const Shape& shape, uint32_t tokens) {
  const uint32_t step = std::min(tokens, device->size(kStepRowsMax, 40u));
  const auto all = [&] {
    for (uint32_t at = 0; at < tokens; at += step) model->prefill(at, std::min(step, tokens - at));
  };
  all();
  const Timed timed = device->time_host(device->size(5u, 1u), all);
  const double attention = 4.0 * shape.layers * shape.heads * shape.head_dim * tokens * (tokens + 1.0) / 2;
  Line line("step");
  describe(&line, "prefill", shape);
  line.add("tokens", tokens).add("step", step).add("us", timed.us).add("tok_s", tokens * 1e6 / timed.us);
  line.add("tflop_s", (model->body_flops() * tokens + attention) / timed.us / 1e6).add("spread", timed.spread);
}

// Rows after `depth` tokens that are there: the next message of a long conversation.
void measure_append(Device* device, Synthetic* model, const Shape& shape, uint32_t depth, uint32_t rows) {
  for (uint32_t i = 0; i < 4; ++i) model->prefill(depth, rows);
  const Timed timed = device->time_host(device->size(21u, 1u), [&] { model->prefill(depth, rows); });
  Line line("step");
  describe(&line, "append", shape);
  line.add("depth", depth).add("rows", rows);
  add_bound(&line, *device, *model, rows, depth, timed);
}

void measure_decode(Device* device, Synthetic* model, const Shape& shape, uint32_t depth, uint32_t sequences, bool draws) {
  for (uint32_t i = 0; i < 4; ++i) model->decode(depth, sequences, draws);  // the first without a graph, the second captures it
  const Timed timed = device->time_host(device->size(101u, 3u), [&] { model->decode(depth, sequences, draws); });
  Line line("step");
  describe(&line, "decode", shape);
  line.add("depth", depth).add("sequences", sequences).add("back", draws ? "the drawn token" : "logits");
  add_bound(&line, *device, *model, sequences, uint64_t{depth} * sequences, timed);
}

// The most sequences of so many tokens for which a third of the device's memory has room; a power of two, 64 at most.
uint32_t most_sequences(const Device& device, const Shape& shape, uint32_t tokens) {
  const KvGeometry kv{shape.layers, shape.kv_heads, shape.head_dim, kBlockTokens, KvFormat::kF16};
  uint32_t most = device.size(64u, 4u);
  while (most > 1 && most * kv.blocks_for(tokens) * kv.block_bytes() > device.properties.totalGlobalMem / 3) most /= 2;
  return most;
}

void measure(Device* device, const Shape& shape) {
  const uint32_t prompt = device->size(2048u, 60u), most = most_sequences(*device, shape, prompt + 1);
  const std::vector<uint32_t> depths = device->smoke ? std::vector{70u, 100u} : std::vector{8192u, 32768u}, rows{1, 8, 16, 64};
  Synthetic model(device, shape, most, prompt + 1, depths.back() + rows.back());
  for (const uint32_t tokens : {17u, 32u, 64u, 128u, 512u}) {
    if (tokens < prompt) measure_prefill(device, &model, shape, tokens);
  }
  measure_prefill(device, &model, shape, prompt);
  model.share(prompt);
  measure_decode(device, &model, shape, 0, 1, /*draws=*/false);
  for (const uint32_t depth : {0u, device->size(512u, 8u), prompt}) {
    for (const uint32_t sequences : {1u, 4u, 8u, 16u, 32u, 64u}) {
      if (sequences > most || (depth == 0 && sequences > 1)) continue;
      measure_decode(device, &model, shape, depth, sequences, /*draws=*/true);
    }
  }
  for (const uint32_t depth : depths) {
    for (const uint32_t n : rows) measure_append(device, &model, shape, depth, n);
  }
}

}  // namespace

void bench_step(Device* device) {
  for (const Shape& shape : device->smoke ? std::span<const Shape>(kTried) : std::span<const Shape>(kModels)) measure(device, shape);
}

}  // namespace kvrt::bench
