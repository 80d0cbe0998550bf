// Loading: find and check every tensor first, then hand them to the backend one weight at a time.
#include "runtime/model/model.h"

#include <algorithm>
#include <string_view>

#include "runtime/compute/quants.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {
namespace {

using Ull = unsigned long long;

struct LayerTensors {
  const GgufTensor *attn_norm, *q, *k, *v, *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;
  const GgufTensor *out, *ffn_norm, *gate, *up, *down;
};

// Where every weight is, once all were found and checked.
struct Plan {
  const GgufTensor *embedding = nullptr, *output_norm = nullptr, *head = nullptr;
  std::vector<LayerTensors> layers;
};

class Planner {
 public:
  Planner(const GgufFile& file, const Arch& arch, const ModelDims& dims) : file_(file), arch_(arch), d_(dims) {}

  Result<Plan> plan() {
    Plan plan;
    KVRT_TRY(take("token_embd.weight", d_.width, d_.vocab, &plan.embedding));
    KVRT_TRY(take("output_norm.weight", d_.width, 0, &plan.output_norm));
    if (!d_.tied_head) KVRT_TRY(take("output.weight", d_.width, d_.vocab, &plan.head));
    for (uint32_t i = 0; i < d_.layers; ++i) KVRT_TRY(plan_layer(i, &plan.layers.emplace_back()));
    KVRT_TRY(refuse_other_tensors());
    return plan;
  }

 private:
  Status plan_layer(uint32_t index, LayerTensors* layer) {
    const std::string blk = "blk." + std::to_string(index) + ".";
    const uint64_t q_rows = uint64_t{d_.heads} * d_.head_dim, kv_rows = uint64_t{d_.kv_heads} * d_.head_dim;
    KVRT_TRY(take(blk + "attn_norm.weight", d_.width, 0, &layer->attn_norm));
    KVRT_TRY(take(blk + "attn_q.weight", d_.width, q_rows, &layer->q));
    KVRT_TRY(take(blk + "attn_k.weight", d_.width, kv_rows, &layer->k));
    KVRT_TRY(take(blk + "attn_v.weight", d_.width, kv_rows, &layer->v));
    if (arch_.qkv_bias) {
      KVRT_TRY(take(blk + "attn_q.bias", q_rows, 0, &layer->q_bias));
      KVRT_TRY(take(blk + "attn_k.bias", kv_rows, 0, &layer->k_bias));
      KVRT_TRY(take(blk + "attn_v.bias", kv_rows, 0, &layer->v_bias));
    }
    KVRT_TRY(take(blk + "attn_output.weight", q_rows, d_.width, &layer->out));
    KVRT_TRY(take(blk + "ffn_norm.weight", d_.width, 0, &layer->ffn_norm));
    KVRT_TRY(take(blk + "ffn_gate.weight", d_.width, d_.ff, &layer->gate));
    KVRT_TRY(take(blk + "ffn_up.weight", d_.width, d_.ff, &layer->up));
    return take(blk + "ffn_down.weight", d_.ff, d_.width, &layer->down);
  }

  // rows == 0: a vector, which is F32, F16 or BF16.
  Status take(const std::string& name, uint64_t cols, uint64_t rows, const GgufTensor** out) {
    const GgufTensor* tensor = file_.find(name);
    if (!tensor) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is missing", file_.name().c_str(), name.c_str());
    const auto& ne = tensor->view.ne;
    if (ne[0] != cols || ne[1] != std::max<uint64_t>(rows, 1) || ne[2] != 1 || ne[3] != 1) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s: expected shape [%llu, %llu], found [%llu, %llu, %llu, %llu]",
                   file_.name().c_str(), name.c_str(), Ull{cols}, Ull{std::max<uint64_t>(rows, 1)}, Ull{ne[0]}, Ull{ne[1]}, Ull{ne[2]},
                   Ull{ne[3]});
    }
    const auto type = static_cast<uint32_t>(tensor->view.type);
    const bool known = dtype_info(type) && (rows > 0 || dtype_info(type)->block_elems == 1);
    if (!known) {
      return error(Code::kUnsupported, Detail::kNone, "%s: tensor %s: type %s is not supported%s", file_.name().c_str(), name.c_str(),
                   find_ggml_type(type)->name, rows > 0 ? "" : " for a vector");
    }
    taken_.push_back(tensor);
    *out = tensor;
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

using Tensors = std::initializer_list<const GgufTensor*>;  // stacked by rows

std::vector<TensorView> views_of(Tensors tensors) {
  std::vector<TensorView> views;
  for (const GgufTensor* tensor : tensors) views.push_back(tensor->view);
  return views;
}

// Hands every weight to `to`, with its place in the model, in the order of loading.
template <typename To>
Status for_each_weight(const Plan& plan, Model* model, To* to) {
  KVRT_TRY(to->matrix({plan.embedding}, &model->embedding));
  if (plan.head) KVRT_TRY(to->matrix({plan.head}, &model->head));
  KVRT_TRY(to->vectors({plan.output_norm}, &model->output_norm));
  for (const LayerTensors& from : plan.layers) {
    Layer& layer = model->layers.emplace_back();
    KVRT_TRY(to->vectors({from.attn_norm}, &layer.attn_norm));
    KVRT_TRY(to->matrix({from.q, from.k, from.v}, &layer.qkv));
    if (from.q_bias) KVRT_TRY(to->vectors({from.q_bias, from.k_bias, from.v_bias}, &layer.qkv_bias));
    KVRT_TRY(to->matrix({from.out}, &layer.out));
    KVRT_TRY(to->vectors({from.ffn_norm}, &layer.ffn_norm));
    KVRT_TRY(to->matrix({from.gate, from.up}, &layer.gate_up));
    KVRT_TRY(to->matrix({from.down}, &layer.down));
  }
  return Status::ok();
}

// Adds up what the weights will take.
class Counter {
 public:
  Counter(const GgufFile& file, const Backend& backend) : file_(file), backend_(backend) {}

  Status matrix(Tensors tensors, std::unique_ptr<Weight>*) {
    Result<uint64_t> bytes = backend_.weight_bytes(views_of(tensors));
    if (!bytes.is_ok()) return bytes.take_status().annotate(file_.name() + ": tensor " + (*tensors.begin())->name);
    bytes_ += *bytes;
    return Status::ok();
  }
  Status vectors(Tensors tensors, std::vector<float>*) {
    for (const GgufTensor* tensor : tensors) bytes_ += tensor->view.cols() * sizeof(float);
    return Status::ok();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  const GgufFile& file_;
  const Backend& backend_;
  uint64_t bytes_ = 0;
};

// Moves planned tensors into the model, reports progress, gives each tensor's pages back once it is copied.
class Loader {
 public:
  Loader(const GgufFile& file, Backend* backend, const LoadProgress& progress) : file_(file), backend_(backend), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) total_ += tensor.view.data.size();
  }

  Status matrix(Tensors tensors, std::unique_ptr<Weight>* out) {
    Result<std::unique_ptr<Weight>> weight = backend_->make_weight(views_of(tensors));
    if (!weight.is_ok()) return weight.take_status().annotate(file_.name() + ": tensor " + (*tensors.begin())->name);
    *out = std::move(weight).value();
    resident_ += (*out)->bytes();
    return loaded(tensors);
  }

  Status vectors(Tensors tensors, std::vector<float>* out) {
    for (const GgufTensor* tensor : tensors) {
      const uint64_t n = tensor->view.cols(), at = out->size();
      out->resize(at + n);
      dequantize_row(tensor->view.type, tensor->view.data.data(), n, out->data() + at);
    }
    resident_ += out->size() * sizeof(float);
    return loaded(tensors);
  }
  uint64_t resident() const { return resident_; }

 private:
  Status loaded(Tensors tensors) {
    for (const GgufTensor* tensor : tensors) {
      done_ += tensor->view.data.size();
      file_.drop_pages(tensor->view.data);
    }
    if (!progress_ || progress_(done_, total_)) return Status::ok();
    return error(Code::kCancelled, Detail::kNone, "%s: loading was cancelled", file_.name().c_str());
  }

  const GgufFile& file_;
  Backend* backend_;
  const LoadProgress& progress_;
  uint64_t total_ = 0, done_ = 0, resident_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> load_model(const GgufFile& file, Backend* backend, const LoadProgress& progress) {
  auto model = std::make_unique<Model>();
  KVRT_ASSIGN(model->dims, read_dims(file, &model->arch));
  KVRT_ASSIGN(const Plan plan, Planner(file, *model->arch, model->dims).plan());
  Loader loader(file, backend, progress);
  KVRT_TRY(for_each_weight(plan, model.get(), &loader));
  model->weight_bytes = loader.resident();
  return model;
}

Result<uint64_t> planned_weight_bytes(const GgufFile& file, const Backend& backend, const Arch& arch, const ModelDims& dims) {
  KVRT_ASSIGN(const Plan plan, Planner(file, arch, dims).plan());
  Model places;
  Counter counter(file, backend);
  KVRT_TRY(for_each_weight(plan, &places, &counter));
  return counter.bytes();
}

}  // namespace kvrt
