// Loading: find and check every tensor first, then hand them to the backend one weight at a time.
#include "runtime/model/model.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/compute/quant/quants.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {
namespace {

using Ull = unsigned long long;

using Tensors = std::vector<const GgufTensor*>;  // stacked by rows

// Tensors that an architecture lacks are empty.
struct LayerTensors {
  Tensors attn_norm, ffn_norm, post_attn_norm, post_ffn_norm, q_norm, k_norm;
  Tensors qkv, qkv_bias, out, out_bias, gate_up, gate_up_bias, down, down_bias, router, router_bias, sinks;
  Tensors experts_gate_up, experts_down;  // each holds the matrices of all experts
  Tensors choice_bias, shared_gate_up, shared_down;
  Tensors q_in, q, kv, key, value, latent_q_norm, latent_norm;  // of latent attention; key and value hold the matrices of all heads
};

// The tensors of every weight, once all were found and checked.
struct Plan {
  Tensors embedding, positions, output_norm, head;
  Tensors read;  // the factors of RoPE's frequencies, which read_dims read
  std::vector<LayerTensors> layers;
};

class Planner {
 public:
  Planner(const GgufFile& file, const Arch& arch, const ModelDims& dims) : file_(file), arch_(arch), d_(dims) {}

  Result<Plan> plan() {
    Plan plan;
    KVRT_TRY(take("token_embd.weight", d_.width, d_.vocab, &plan.embedding));
    if (arch_.positions) KVRT_TRY(take("position_embd.weight", d_.width, d_.context, &plan.positions));
    KVRT_TRY(take_norm("output_norm", &plan.output_norm));
    if (!d_.tied_head) KVRT_TRY(take("output.weight", d_.width, d_.vocab, &plan.head));
    for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (file_.find(name)) KVRT_TRY(take_vector(name, d_.rope.dims / 2, &plan.read));
    }
    for (uint32_t i = 0; i < d_.layers; ++i) KVRT_TRY(plan_layer(i, &plan.layers.emplace_back()));
    KVRT_TRY(refuse_other_tensors());
    return plan;
  }

 private:
  Status plan_layer(uint32_t index, LayerTensors* layer) {
    const std::string blk = "blk." + std::to_string(index) + ".";
    if (arch_.pre_norm) {
      KVRT_TRY(take_norm(blk + "attn_norm", &layer->attn_norm));
      if (!arch_.parallel) KVRT_TRY(take_norm(blk + arch_.ffn_norm, &layer->ffn_norm));
    }
    if (arch_.post_norm) {
      KVRT_TRY(take_norm(blk + "post_attention_norm", &layer->post_attn_norm));
      KVRT_TRY(take_norm(blk + "post_ffw_norm", &layer->post_ffn_norm));
    }
    KVRT_TRY(d_.latent.rank > 0 ? plan_latent(blk, layer) : plan_attention(blk, d_.heads_of(index), layer));
    if (!d_.has_experts(index)) return plan_mlp(blk, d_.experts > 0 ? d_.dense_ff : d_.ff, layer);
    return plan_experts(blk, layer);
  }

  Status plan_attention(const std::string& blk, Heads heads, LayerTensors* layer) {
    const uint64_t q_rows = heads.q_width(), kv_rows = uint64_t{heads.kv} * heads.dim;
    const bool bias = arch_.bias || arch_.qkv_bias || (arch_.qkv_bias_optional && file_.find(blk + "attn_q.bias"));
    const auto take_qkv = [&](const char* name, uint64_t rows) {
      return take_rows(blk + name, d_.width, rows, bias, &layer->qkv, &layer->qkv_bias);
    };
    if (arch_.fused_qkv) {
      KVRT_TRY(take_qkv("attn_qkv", q_rows + 2 * kv_rows));
    } else {
      KVRT_TRY(take_qkv("attn_q", q_rows));
      KVRT_TRY(take_qkv("attn_k", kv_rows));
      KVRT_TRY(take_qkv("attn_v", kv_rows));
    }
    if (arch_.qk_norm != QkNorm::kNone) {
      const bool row = arch_.qk_norm == QkNorm::kRow;
      KVRT_TRY(take_vector(blk + "attn_q_norm.weight", row ? q_rows : heads.dim, &layer->q_norm));
      KVRT_TRY(take_vector(blk + "attn_k_norm.weight", row ? kv_rows : heads.dim, &layer->k_norm));
    }
    if (arch_.sinks) KVRT_TRY(take_vector(blk + "attn_sinks.weight", heads.q, &layer->sinks));
    return take_rows(blk + "attn_output", q_rows, d_.width, arch_.bias, &layer->out, &layer->out_bias);
  }

  Status plan_latent(const std::string& blk, LayerTensors* layer) {
    const LatentDims& l = d_.latent;
    if (l.q_rank > 0) {
      KVRT_TRY(take(blk + "attn_q_a.weight", d_.width, l.q_rank, &layer->q_in));
      KVRT_TRY(take_vector(blk + "attn_q_a_norm.weight", l.q_rank, &layer->latent_q_norm));
      KVRT_TRY(take(blk + "attn_q_b.weight", l.q_rank, uint64_t{d_.heads} * l.q(), &layer->q));
    } else {
      KVRT_TRY(take(blk + "attn_q.weight", d_.width, uint64_t{d_.heads} * l.q(), &layer->q));
    }
    KVRT_TRY(take(blk + "attn_kv_a_mqa.weight", d_.width, l.rank + l.rope, &layer->kv));
    KVRT_TRY(take_vector(blk + "attn_kv_a_norm.weight", l.rank, &layer->latent_norm));
    KVRT_TRY(take(blk + "attn_k_b.weight", l.nope, l.rank, &layer->key, d_.heads));
    KVRT_TRY(take(blk + "attn_v_b.weight", l.rank, l.v, &layer->value, d_.heads));
    return take(blk + "attn_output.weight", uint64_t{d_.heads} * l.v, d_.width, &layer->out);
  }

  Status plan_mlp(const std::string& blk, uint32_t ff, LayerTensors* layer) {
    const uint64_t up_rows = arch_.fused_up ? uint64_t{2} * ff : ff;
    const bool gate = arch_.gated && !arch_.fused_up;
    if (gate) KVRT_TRY(take_rows(blk + "ffn_gate", d_.width, ff, arch_.bias, &layer->gate_up, &layer->gate_up_bias));
    KVRT_TRY(take_rows(blk + "ffn_up", d_.width, up_rows, arch_.bias, &layer->gate_up, &layer->gate_up_bias));
    return take_rows(blk + "ffn_down", ff, d_.width, arch_.bias, &layer->down, &layer->down_bias);
  }

  Status plan_experts(const std::string& blk, LayerTensors* layer) {
    const auto take_experts = [&](const char* name, uint64_t cols, uint64_t rows, Tensors* weights, Tensors* biases) {
      return take_rows(blk + name, cols, rows, arch_.bias, weights, biases, d_.experts);
    };
    KVRT_TRY(take_rows(blk + "ffn_gate_inp", d_.width, d_.experts, arch_.bias, &layer->router, &layer->router_bias));
    KVRT_TRY(take_experts("ffn_gate_exps", d_.width, d_.ff, &layer->experts_gate_up, &layer->gate_up_bias));
    KVRT_TRY(take_experts("ffn_up_exps", d_.width, d_.ff, &layer->experts_gate_up, &layer->gate_up_bias));
    KVRT_TRY(take_experts("ffn_down_exps", d_.ff, d_.width, &layer->experts_down, &layer->down_bias));
    if (arch_.latent && file_.find(blk + "exp_probs_b.bias"))
      KVRT_TRY(take_vector(blk + "exp_probs_b.bias", d_.experts, &layer->choice_bias));
    if (d_.shared_ff == 0) return Status::ok();
    KVRT_TRY(take(blk + "ffn_gate_shexp.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    KVRT_TRY(take(blk + "ffn_up_shexp.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    return take(blk + "ffn_down_shexp.weight", d_.shared_ff, d_.width, &layer->shared_down);
  }

  // A matrix, or one for each expert, and its bias.
  Status take_rows(const std::string& name, uint64_t cols, uint64_t rows, bool bias, Tensors* weights, Tensors* biases,
                   uint64_t matrices = 1) {
    KVRT_TRY(take(name + ".weight", cols, rows, weights, matrices));
    return bias ? take_vector(name + ".bias", rows, biases, matrices) : Status::ok();
  }

  Status take_norm(const std::string& name, Tensors* out) {
    KVRT_TRY(take_vector(name + ".weight", d_.width, out));
    return arch_.norm == NormKind::kLayerBias ? take_vector(name + ".bias", d_.width, out) : Status::ok();
  }

  // `n` vectors, which are F32, F16 or BF16.
  Status take_vector(const std::string& name, uint64_t cols, Tensors* out, uint64_t n = 1) {
    KVRT_TRY(take(name, cols, n, out));
    const TensorView& view = out->back()->view;
    if (dtype_info(static_cast<uint32_t>(view.type))->block_elems == 1) return Status::ok();
    return unsupported_type(name, view, " for a vector");
  }

  Status unsupported_type(const std::string& name, const TensorView& view, const char* where) const {
    return error(Code::kUnsupported, Detail::kNone, "%s: tensor %s: type %s is not supported%s", file_.name().c_str(), name.c_str(),
                 find_ggml_type(static_cast<uint32_t>(view.type))->name, where);
  }

  Status take(const std::string& name, uint64_t cols, uint64_t rows, Tensors* out, uint64_t matrices = 1) {
    const GgufTensor* tensor = file_.find(name);
    if (!tensor) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is missing", file_.name().c_str(), name.c_str());
    const auto& ne = tensor->view.ne;
    if (ne[0] != cols || ne[1] != rows || ne[2] != matrices || ne[3] != 1) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s: expected shape [%llu, %llu, %llu], found [%llu, %llu, %llu, %llu]",
                   file_.name().c_str(), name.c_str(), Ull{cols}, Ull{rows}, Ull{matrices}, Ull{ne[0]}, Ull{ne[1]}, Ull{ne[2]}, Ull{ne[3]});
    }
    if (!dtype_info(static_cast<uint32_t>(tensor->view.type))) return unsupported_type(name, tensor->view, "");
    taken_.push_back(tensor);
    out->push_back(tensor);
    return Status::ok();
  }

  // A tensor that nothing reads means arithmetic that is not done: refuse it rather than compute something else.
  Status refuse_other_tensors() {
    std::sort(taken_.begin(), taken_.end());
    for (const GgufTensor& tensor : file_.tensors()) {
      if (std::binary_search(taken_.begin(), taken_.end(), &tensor)) continue;
      return error(Code::kUnsupported, Detail::kNone, "%s: tensor %.200s is not known to architecture %s", file_.name().c_str(),
                   tensor.name.c_str(), arch_.name);
    }
    return Status::ok();
  }

  const GgufFile& file_;
  const Arch& arch_;
  const ModelDims& d_;
  std::vector<const GgufTensor*> taken_;
};

// Matrix `index` of each tensor.
std::vector<TensorView> views_of(const Tensors& tensors, uint64_t index) {
  std::vector<TensorView> views;
  for (const GgufTensor* tensor : tensors) {
    TensorView& view = views.emplace_back(tensor->view);
    const uint64_t bytes = view.data.size() / view.ne[2];
    view.data = view.data.subspan(index * bytes, bytes);
    view.ne[2] = 1;
  }
  return views;
}

// Hands latent attention's weights to `to`.
template <typename To>
Status for_latent(const LayerTensors& from, uint32_t heads, Layer* layer, To* to) {
  LatentWeights& w = layer->latent;
  if (!from.q_in.empty()) KVRT_TRY(to->matrix(from.q_in, 0, &w.q_in));
  KVRT_TRY(to->vectors(from.latent_q_norm, &layer->latent_q_norm));
  KVRT_TRY(to->matrix(from.q, 0, &w.q));
  KVRT_TRY(to->matrix(from.kv, 0, &w.kv));
  KVRT_TRY(to->vectors(from.latent_norm, &layer->latent_norm));
  w.key.resize(heads);  // places must stay where they are
  w.value.resize(heads);
  for (uint32_t h = 0; h < heads; ++h) KVRT_TRY(to->matrix(from.key, h, &w.key[h]));
  for (uint32_t h = 0; h < heads; ++h) KVRT_TRY(to->matrix(from.value, h, &w.value[h]));
  return Status::ok();
}

template <typename To>
Status for_experts(const LayerTensors& from, uint32_t experts, Layer* layer, To* to) {
  KVRT_TRY(to->matrix(from.router, 0, &layer->router));
  KVRT_TRY(to->vectors(from.router_bias, &layer->router_bias));
  KVRT_TRY(to->vectors(from.choice_bias, &layer->choice_bias));
  layer->experts.reserve(experts);  // as above
  for (uint32_t e = 0; e < experts; ++e) {
    Expert& expert = layer->experts.emplace_back();
    KVRT_TRY(to->matrix(from.experts_gate_up, e, &expert.gate_up));
    KVRT_TRY(to->matrix(from.experts_down, e, &expert.down));
  }
  if (from.shared_down.empty()) return Status::ok();
  KVRT_TRY(to->matrix(from.shared_gate_up, 0, &layer->shared.gate_up));
  return to->matrix(from.shared_down, 0, &layer->shared.down);
}

// Hands every weight to `to`, with its place in the model, in the order of loading.
template <typename To>
Status for_each_weight(const Plan& plan, const ModelDims& dims, Model* model, To* to) {
  KVRT_TRY(to->matrix(plan.embedding, 0, &model->embedding));
  if (!plan.positions.empty()) KVRT_TRY(to->matrix(plan.positions, 0, &model->positions));
  if (!plan.head.empty()) KVRT_TRY(to->matrix(plan.head, 0, &model->head));
  KVRT_TRY(to->vectors(plan.output_norm, &model->output_norm));
  model->layers.reserve(plan.layers.size());  // as above
  for (const LayerTensors& from : plan.layers) {
    Layer& layer = model->layers.emplace_back();
    KVRT_TRY(to->vectors(from.attn_norm, &layer.attn_norm));
    if (!from.qkv.empty()) KVRT_TRY(to->matrix(from.qkv, 0, &layer.qkv));
    if (!from.kv.empty()) KVRT_TRY(for_latent(from, dims.heads, &layer, to));
    KVRT_TRY(to->vectors(from.qkv_bias, &layer.qkv_bias));
    KVRT_TRY(to->vectors(from.q_norm, &layer.q_norm));
    KVRT_TRY(to->vectors(from.k_norm, &layer.k_norm));
    KVRT_TRY(to->vectors(from.sinks, &layer.sinks));
    KVRT_TRY(to->matrix(from.out, 0, &layer.out));
    KVRT_TRY(to->vectors(from.out_bias, &layer.out_bias));
    KVRT_TRY(to->vectors(from.post_attn_norm, &layer.post_attn_norm));
    KVRT_TRY(to->vectors(from.ffn_norm, &layer.ffn_norm));
    if (from.router.empty()) {
      KVRT_TRY(to->matrix(from.gate_up, 0, &layer.gate_up));
      KVRT_TRY(to->matrix(from.down, 0, &layer.down));
    } else {
      KVRT_TRY(for_experts(from, dims.experts, &layer, to));
    }
    KVRT_TRY(to->vectors(from.gate_up_bias, &layer.gate_up_bias));
    KVRT_TRY(to->vectors(from.down_bias, &layer.down_bias));
    KVRT_TRY(to->vectors(from.post_ffn_norm, &layer.post_ffn_norm));
  }
  return Status::ok();
}

// Adds up the bytes that the weights will take.
class Counter {
 public:
  Counter(const GgufFile& file, const Backend& backend) : file_(file), backend_(backend) {}

  Status matrix(const Tensors& tensors, uint64_t index, std::unique_ptr<Weight>*) {
    Result<uint64_t> bytes = backend_.weight_bytes(views_of(tensors, index));
    if (!bytes.is_ok()) return bytes.take_status().annotate(file_.name() + ": tensor " + tensors[0]->name);
    bytes_ += *bytes;
    return Status::ok();
  }
  Status vectors(const Tensors& tensors, Vector*) {
    for (const GgufTensor* tensor : tensors) bytes_ += tensor->view.cols() * tensor->view.rows() * sizeof(float);
    return Status::ok();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  const GgufFile& file_;
  const Backend& backend_;
  uint64_t bytes_ = 0;
};

// Moves planned tensors into the model, reports progress, gives the tensors' pages back once they are copied. Vectors at once, matrices
// all together in finish().
class Loader {
 public:
  Loader(const GgufFile& file, Backend* backend, const LoadProgress& progress) : file_(file), backend_(backend), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) total_ += tensor.view.data.size();
  }

  Status read(const Tensors& tensors) {
    for (const GgufTensor* tensor : tensors) KVRT_TRY(taken(tensor->view.data));
    return Status::ok();
  }

  Status matrix(const Tensors& tensors, uint64_t index, std::unique_ptr<Weight>* out) {
    const TensorStack& stack = stacks_.emplace_back(views_of(tensors, index));
    Result<uint64_t> bytes = backend_->weight_bytes(stack);
    if (!bytes.is_ok()) return bytes.take_status().annotate("tensor " + tensors[0]->name);
    resident_ += *bytes;
    places_.push_back(out);
    return Status::ok();
  }

  Status vectors(const Tensors& tensors, Vector* vector) {
    std::vector<float>& out = vector->values;
    for (uint64_t row = 0; !tensors.empty() && row < tensors[0]->view.rows(); ++row) {  // of experts: one's vectors, then the next one's
      for (const GgufTensor* tensor : tensors) {
        const TensorView& view = tensor->view;
        const uint64_t n = view.cols(), at = out.size();
        out.resize(at + n);
        dequantize_row(view.type, view.data.data() + row * (view.data.size() / view.rows()), n, out.data() + at);
      }
    }
    resident_ += out.size() * sizeof(float);
    return read(tensors);
  }

  Status finish(const WeightCache* cache) {
    const auto done = [this](std::span<const uint8_t> bytes) { return taken(bytes); };
    Result<std::vector<std::unique_ptr<Weight>>> weights = backend_->make_weights(stacks_, {done, cache});
    if (!weights.is_ok()) return weights.take_status();
    for (size_t i = 0; i < places_.size(); ++i) *places_[i] = std::move((*weights)[i]);
    return Status::ok();
  }
  uint64_t resident() const { return resident_; }

 private:
  Status taken(std::span<const uint8_t> bytes) {
    done_ += bytes.size();
    file_.drop_pages(bytes);
    if (!progress_ || progress_(done_, total_)) return Status::ok();
    return error(Code::kCancelled, Detail::kNone, "loading was cancelled");
  }

  const GgufFile& file_;
  Backend* backend_;
  const LoadProgress& progress_;
  std::vector<TensorStack> stacks_;
  std::vector<std::unique_ptr<Weight>*> places_;
  uint64_t total_ = 0, done_ = 0, resident_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> load_model(const GgufFile& file, Backend* backend, const LoadProgress& progress, const WeightCache* cache) {
  auto model = std::make_unique<Model>();
  KVRT_ASSIGN(model->dims, read_dims(file, &model->arch));
  KVRT_ASSIGN(const Plan plan, Planner(file, *model->arch, model->dims).plan());
  Loader loader(file, backend, progress);
  const auto load = [&]() -> Status {
    KVRT_TRY(loader.read(plan.read));
    KVRT_TRY(for_each_weight(plan, model->dims, model.get(), &loader));
    return loader.finish(cache);
  };
  Status loaded = load();
  if (!loaded.is_ok()) return std::move(loaded).annotate(file.name());
  model->weight_bytes = loader.resident();
  return model;
}

Status place_vectors(Model* model, Backend* backend) {
  std::vector<Vector*> all{&model->output_norm};
  for (Layer& l : model->layers) {
    for (Vector* v : {&l.attn_norm, &l.ffn_norm, &l.post_attn_norm, &l.post_ffn_norm, &l.qkv_bias, &l.q_norm, &l.k_norm, &l.out_bias,
                      &l.gate_up_bias, &l.down_bias, &l.router_bias, &l.sinks, &l.latent_q_norm, &l.latent_norm}) {
      all.push_back(v);
    }
  }
  constexpr uint64_t kAlign = 64 / sizeof(float);
  uint64_t floats = 0;
  for (const Vector* v : all) floats += (v->values.size() + kAlign - 1) / kAlign * kAlign;
  KVRT_ASSIGN(model->vectors, backend->alloc(floats * sizeof(float), /*populate=*/true));
  uint8_t* base = model->vectors->data();
  return backend->upload(base, floats * sizeof(float), [&](std::span<uint8_t> host) {
    uint64_t at = 0;
    for (Vector* v : all) {
      if (v->values.empty()) continue;
      std::memcpy(host.data() + at, v->values.data(), v->values.size() * sizeof(float));
      v->device = reinterpret_cast<const float*>(base + at);
      at += (v->values.size() + kAlign - 1) / kAlign * kAlign * sizeof(float);
    }
  });
}

Result<uint64_t> planned_weight_bytes(const GgufFile& file, const Backend& backend, const Arch& arch, const ModelDims& dims) {
  KVRT_ASSIGN(const Plan plan, Planner(file, arch, dims).plan());
  Model places;
  Counter counter(file, backend);
  KVRT_TRY(for_each_weight(plan, dims, &places, &counter));
  return counter.bytes();
}

}  // namespace kvrt
