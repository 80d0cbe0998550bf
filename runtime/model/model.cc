// Loading: once every tensor was found and checked, they go to the backend one weight at a time.
#include "runtime/model/model.h"

#include <cmath>
#include <cstring>

#include "runtime/base/fp_env.h"
#include "runtime/base/numbers.h"
#include "runtime/compute/quant/quants.h"
#include "runtime/model/plan.h"

namespace kvrt {
namespace {

// Matrix `index` of each tensor.
std::vector<TensorView> views_of(const Tensors& tensors, uint64_t index) {
  std::vector<TensorView> views;
  for (const auto& [tensor, deal] : tensors) {
    TensorView& view = views.emplace_back(tensor->view);
    const uint64_t bytes = view.data.size() / view.ne[2];
    view.data = view.data.subspan(index * bytes, bytes);
    view.ne[2] = 1;
    view.deal = deal;
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

// [channels][taps] becomes [taps][channels].
void transpose(uint32_t taps, std::vector<float>* values) {
  const std::vector<float> was = *values;
  const size_t channels = was.size() / taps;
  for (size_t i = 0; i < was.size(); ++i) (*values)[i % taps * channels + i / taps] = was[i];
}

// Hands recurrent layers' vectors to `to`.
template <typename To>
Status for_recurrent(const LayerTensors& from, uint32_t taps, Layer* layer, To* to) {
  KVRT_TRY(to->vectors(from.conv, &layer->conv));
  transpose(taps, &layer->conv.values);
  KVRT_TRY(to->vectors(from.conv_bias, &layer->conv_bias));
  KVRT_TRY(to->vectors(from.dt_bias, &layer->dt_bias));
  KVRT_TRY(to->vectors(from.a, &layer->a));
  KVRT_TRY(to->vectors(from.skip, &layer->skip));
  return to->vectors(from.state_norm, &layer->state_norm);
}

// Of values that make wrong numbers instead of none.
Status check_values(const Layer& layer, uint32_t index) {
  const auto wrong = [index](const char* tensor, const char* expected, float found) {
    return error(Code::kCorrupt, Detail::kFormat, "tensor blk.%u.%s: expected %s, found %s", index, tensor, expected, shown(found).c_str());
  };
  for (const float a : layer.a.values) {
    if (!(a <= 0)) return wrong("ssm_a", "no number above 0: states decay", a);
  }
  for (const float bias : layer.choice_bias.values) {
    if (!std::isfinite(bias)) return wrong("exp_probs_b.bias", "finite numbers", bias);
  }
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
  KVRT_TRY(to->vectors(from.router_norm, &layer->router_norm));
  KVRT_TRY(to->vectors(from.expert_scale, &layer->expert_scale));
  KVRT_TRY(to->vectors(from.experts_norm, &layer->experts_norm));
  KVRT_TRY(to->vectors(from.post_experts_norm, &layer->post_experts_norm));
  KVRT_TRY(to->vectors(from.post_mlp_norm, &layer->post_mlp_norm));
  if (from.shared_down.empty()) return Status::ok();
  if (!from.shared_gate.empty()) KVRT_TRY(to->matrix(from.shared_gate, 0, &layer->shared_gate));
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
  if (!plan.layer_inputs.empty()) KVRT_TRY(to->matrix(plan.layer_inputs, 0, &model->layer_inputs));
  KVRT_TRY(to->vectors(plan.layer_inputs_norm, &model->layer_inputs_norm));
  model->layers.reserve(plan.layers.size());  // as above
  for (const LayerTensors& from : plan.layers) {
    Layer& layer = model->layers.emplace_back();
    KVRT_TRY(to->vectors(from.attn_norm, &layer.attn_norm));
    if (!from.qkv.empty()) KVRT_TRY(to->matrix(from.qkv, 0, &layer.qkv));
    if (!from.kv.empty()) KVRT_TRY(for_latent(from, dims.heads, &layer, to));
    if (!from.conv.empty()) KVRT_TRY(for_recurrent(from, dims.recurrent.taps, &layer, to));
    KVRT_TRY(to->vectors(from.qkv_bias, &layer.qkv_bias));
    KVRT_TRY(to->vectors(from.q_norm, &layer.q_norm));
    KVRT_TRY(to->vectors(from.k_norm, &layer.k_norm));
    KVRT_TRY(to->vectors(from.sinks, &layer.sinks));
    KVRT_TRY(to->matrix(from.out, 0, &layer.out));
    KVRT_TRY(to->vectors(from.out_bias, &layer.out_bias));
    KVRT_TRY(to->vectors(from.post_attn_norm, &layer.post_attn_norm));
    KVRT_TRY(to->vectors(from.ffn_norm, &layer.ffn_norm));
    if (!from.router.empty()) {
      KVRT_TRY(for_experts(from, dims.experts, &layer, to));
    } else if (!from.down.empty()) {
      KVRT_TRY(to->matrix(from.gate_up, 0, &layer.gate_up));
      KVRT_TRY(to->matrix(from.down, 0, &layer.down));
    }
    KVRT_TRY(to->vectors(from.gate_up_bias, &layer.gate_up_bias));
    KVRT_TRY(to->vectors(from.down_bias, &layer.down_bias));
    KVRT_TRY(to->vectors(from.post_ffn_norm, &layer.post_ffn_norm));
    if (!from.input.empty()) {
      KVRT_TRY(to->matrix(from.input_gate, 0, &layer.input_gate));
      KVRT_TRY(to->matrix(from.input, 0, &layer.input));
    }
    KVRT_TRY(to->vectors(from.post_input_norm, &layer.post_input_norm));
    KVRT_TRY(to->vectors(from.out_scale, &layer.out_scale));
  }
  return Status::ok();
}

// What vectors have beyond the file.
void finish_vectors(Model* model) {
  const FpEnv fp_env;
  const ModelDims& d = model->dims;
  for (uint32_t i = 0; i < d.layers; ++i) {
    Layer& layer = model->layers[i];
    if (model->arch->v_norm) layer.v_norm.values.assign(d.heads_of(i).v_dim, 1.0f);
    for (float& w : layer.router_norm.values) w *= 1 / std::sqrt(static_cast<float>(d.width));
  }
}

// The tensors' rows, one after another; of experts: one's vectors, then the next one's.
void read_rows(const Tensors& tensors, std::vector<float>* out) {
  for (uint64_t row = 0; !tensors.empty() && row < tensors[0].tensor->view.rows(); ++row) {
    for (const PlannedTensor& part : tensors) {
      const TensorView& view = part.tensor->view;
      const uint64_t n = view.cols(), at = out->size();
      out->resize(at + n);
      dequantize_row(view.type, view.data.data() + row * (view.data.size() / view.rows()), n, out->data() + at);
    }
  }
}

// Adds up the bytes that the weights will take.
class Counter {
 public:
  Counter(const GgufFile& file, const Backend& backend) : file_(file), backend_(backend) {}

  Status matrix(const Tensors& tensors, uint64_t index, std::unique_ptr<Weight>*) {
    Result<uint64_t> bytes = backend_.weight_bytes(views_of(tensors, index));
    if (!bytes.is_ok()) return bytes.take_status().annotate(file_.name() + ": tensor " + tensors[0].tensor->name);
    bytes_ += *bytes;
    return Status::ok();
  }
  Status vectors(const Tensors& tensors, Vector*) {
    for (const PlannedTensor& part : tensors) bytes_ += part.tensor->view.cols() * part.tensor->view.rows() * sizeof(float);
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
    for (const PlannedTensor& part : tensors) KVRT_TRY(taken(part.tensor->view.data));
    return Status::ok();
  }

  Status matrix(const Tensors& tensors, uint64_t index, std::unique_ptr<Weight>* out) {
    const TensorStack& stack = stacks_.emplace_back(views_of(tensors, index));
    for (size_t i = 1; i < tensors.size(); ++i) {  // a tensor that is there twice is read twice
      if (tensors[i].tensor == tensors[i - 1].tensor) total_ += stack[i].data.size();
    }
    Result<uint64_t> bytes = backend_->weight_bytes(stack);
    if (!bytes.is_ok()) return bytes.take_status().annotate("tensor " + tensors[0].tensor->name);
    resident_ += *bytes;
    places_.push_back(out);
    return Status::ok();
  }

  Status vectors(const Tensors& tensors, Vector* vector) {
    read_rows(tensors, &vector->values);
    resident_ += vector->values.size() * sizeof(float);
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
  KVRT_ASSIGN(const Plan plan, plan_weights(file, *model->arch, model->dims));
  Loader loader(file, backend, progress);
  const auto load = [&]() -> Status {
    KVRT_TRY(loader.read(plan.read));
    KVRT_TRY(loader.read(plan.layer_table));
    KVRT_TRY(for_each_weight(plan, model->dims, model.get(), &loader));
    for (uint32_t i = 0; i < model->layers.size(); ++i) KVRT_TRY(check_values(model->layers[i], i));
    return loader.finish(cache);
  };
  Status loaded = load();
  if (!loaded.is_ok()) return std::move(loaded).annotate(file.name());
  model->weight_bytes = loader.resident();
  if (!plan.layer_table.empty()) model->layer_table = plan.layer_table[0].tensor->view;
  finish_vectors(model.get());
  return model;
}

Status check_weight_values(const GgufFile& file, const Arch& arch, const ModelDims& dims) {
  KVRT_ASSIGN(const Plan plan, plan_weights(file, arch, dims));
  for (uint32_t i = 0; i < plan.layers.size(); ++i) {
    Layer layer;
    read_rows(plan.layers[i].a, &layer.a.values);
    read_rows(plan.layers[i].choice_bias, &layer.choice_bias.values);
    Status status = check_values(layer, i);
    if (!status.is_ok()) return std::move(status).annotate(file.name());
  }
  return Status::ok();
}

Status place_vectors(Model* model, Backend* backend) {
  std::vector<Vector*> all{&model->output_norm, &model->layer_inputs_norm};
  for (Layer& l : model->layers) {
    for (Vector* v : {&l.attn_norm,     &l.ffn_norm,        &l.post_attn_norm, &l.post_ffn_norm, &l.qkv_bias,          &l.q_norm,
                      &l.k_norm,        &l.out_bias,        &l.gate_up_bias,   &l.down_bias,     &l.router_bias,       &l.sinks,
                      &l.latent_q_norm, &l.latent_norm,     &l.conv,           &l.conv_bias,     &l.dt_bias,           &l.a,
                      &l.skip,          &l.state_norm,      &l.router_norm,    &l.experts_norm,  &l.post_experts_norm, &l.post_mlp_norm,
                      &l.v_norm,        &l.post_input_norm, &l.key_bias,       &l.qk_factors}) {
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
  KVRT_ASSIGN(const Plan plan, plan_weights(file, arch, dims));
  Model places;
  Counter counter(file, backend);
  KVRT_TRY(for_each_weight(plan, dims, &places, &counter));
  return counter.bytes();
}

}  // namespace kvrt
