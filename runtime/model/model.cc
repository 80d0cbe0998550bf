// Loading: every tensor's name, type and shape is checked before anything is allocated, then weights are repacked one by one.
#include "runtime/model/model.h"

#include <atomic>
#include <set>

#include "runtime/base/limits.h"
#include "runtime/compute/quants.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {

namespace {

// Finds tensors by name, checks them, and remembers which were taken: what is left over at the end has no meaning to kvrt.
class Directory {
 public:
  explicit Directory(const GgufFile& file) : file_(file) {}

  Result<TensorView> take(const std::string& name, uint64_t cols, uint64_t rows) {
    const GgufTensor* t = file_.find(name);
    if (!t) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is missing", file_.name().c_str(), name.c_str());
    taken_.insert(name);
    const GgmlType* type = find_ggml_type(static_cast<uint32_t>(t->view.type));
    if (!dtype_info(type->id)) {
      return error(Code::kUnsupported, Detail::kNone, "%s: tensor %s has type %s; supported: F32, F16, Q4_1, Q8_0", file_.name().c_str(),
                   name.c_str(), type->name);
    }
    if (t->view.cols() != cols || t->view.rows() != rows) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is [%llu, %llu], expected [%llu, %llu]", file_.name().c_str(), name.c_str(),
                   static_cast<unsigned long long>(t->view.rows()), static_cast<unsigned long long>(t->view.cols()),
                   static_cast<unsigned long long>(rows), static_cast<unsigned long long>(cols));
    }
    return t->view;
  }
  Status leftovers() const {
    for (const GgufTensor& t : file_.tensors()) {
      if (!taken_.count(t.name)) return error(Code::kUnsupported, Detail::kNone, "%s: tensor %s", file_.name().c_str(), t.name.c_str());
    }
    return {};
  }

 private:
  const GgufFile& file_;
  std::set<std::string> taken_;
};

struct LayerTensors {
  TensorView attn_norm, ffn_norm, q, k, v, out, gate, up, down;
  TensorView q_bias, k_bias, v_bias;
};

struct ModelTensors {
  TensorView embedding, output_norm, head;
  std::vector<LayerTensors> layers;
};

Result<LayerTensors> find_layer(Directory& dir, const Arch& arch, const ModelDims& d, uint32_t i) {
  std::string p = "blk." + std::to_string(i) + ".";
  uint64_t q_width = uint64_t{d.heads} * d.head_dim, kv_width = uint64_t{d.kv_heads} * d.head_dim;
  LayerTensors t;
  struct Want {
    TensorView* to;
    const char* name;
    uint64_t cols, rows;
  };
  std::vector<Want> wants = {{&t.attn_norm, "attn_norm.weight", d.width, 1},    {&t.ffn_norm, "ffn_norm.weight", d.width, 1},
                             {&t.q, "attn_q.weight", d.width, q_width},         {&t.k, "attn_k.weight", d.width, kv_width},
                             {&t.v, "attn_v.weight", d.width, kv_width},        {&t.out, "attn_output.weight", q_width, d.width},
                             {&t.gate, "ffn_gate.weight", d.width, d.ff},       {&t.up, "ffn_up.weight", d.width, d.ff},
                             {&t.down, "ffn_down.weight", d.ff, d.width}};
  if (arch.qkv_bias) {
    wants.insert(wants.end(), {{&t.q_bias, "attn_q.bias", q_width, 1}, {&t.k_bias, "attn_k.bias", kv_width, 1}, {&t.v_bias, "attn_v.bias", kv_width, 1}});
  }
  for (const Want& w : wants) {
    KVRT_ASSIGN(*w.to, dir.take(p + w.name, w.cols, w.rows));
  }
  return t;
}

Result<ModelTensors> find_tensors(const GgufFile& file, const Arch& arch, ModelDims* d) {
  const GgufTensor* embedding = file.find("token_embd.weight");
  uint64_t vocab = embedding ? embedding->view.rows() : 0;
  if (embedding && (vocab == 0 || vocab > kVocabMax)) {
    return error(Code::kLimit, Detail::kNone, "%s: a vocabulary of %llu, at most %u are supported", file.name().c_str(),
                 static_cast<unsigned long long>(vocab), kVocabMax);
  }
  Directory dir(file);
  ModelTensors t;
  KVRT_ASSIGN(t.embedding, dir.take("token_embd.weight", d->width, vocab));
  KVRT_ASSIGN(t.output_norm, dir.take("output_norm.weight", d->width, 1));
  d->vocab = static_cast<uint32_t>(vocab);
  d->tied_head = file.find("output.weight") == nullptr;
  if (!d->tied_head) {
    KVRT_ASSIGN(t.head, dir.take("output.weight", d->width, vocab));
  }
  for (uint32_t i = 0; i < d->layers; ++i) {
    KVRT_ASSIGN(LayerTensors layer, find_layer(dir, arch, *d, i));
    t.layers.push_back(layer);
  }
  KVRT_TRY(dir.leftovers());
  return t;
}

void append_vector(const TensorView& t, std::vector<float>* out) {
  size_t at = out->size();
  out->resize(at + t.cols());
  dequantize_row(t.type, t.data.data(), t.cols(), out->data() + at);
}

// Repacks, counts progress in bytes of the file, and lets its pages go.
class Packer {
 public:
  Packer(const GgufFile& file, Backend* backend, const LoadProgress& progress) : file_(file), backend_(backend), progress_(progress) {
    for (const GgufTensor& t : file.tensors()) total_ += t.view.data.size();
  }
  Status pack(std::initializer_list<TensorView> tensors, std::unique_ptr<Weight>* out) {
    KVRT_ASSIGN(*out, backend_->make_weight(std::span(tensors.begin(), tensors.size())));
    resident += (*out)->bytes();
    for (const TensorView& t : tensors) {
      file_.drop_pages(t.data);
      done_ += t.data.size();
    }
    if (progress_(done_, total_)) return {};
    return error(Code::kCancelled, Detail::kNone, "loading %s: stopped by its callback", file_.name().c_str());
  }
  uint64_t resident = 0;

 private:
  const GgufFile& file_;
  Backend* backend_;
  const LoadProgress& progress_;
  uint64_t done_ = 0, total_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> load_model(const GgufFile& file, Backend* backend, const LoadProgress& progress) {
  auto model = std::make_unique<Model>();
  KVRT_ASSIGN(model->dims, read_dims(file, &model->arch));
  KVRT_ASSIGN(ModelTensors t, find_tensors(file, *model->arch, &model->dims));
  Packer packer(file, backend, progress);
  KVRT_TRY(packer.pack({t.embedding}, &model->embedding));
  if (!model->dims.tied_head) KVRT_TRY(packer.pack({t.head}, &model->head));
  append_vector(t.output_norm, &model->output_norm);
  for (const LayerTensors& l : t.layers) {
    Layer layer;
    append_vector(l.attn_norm, &layer.attn_norm);
    append_vector(l.ffn_norm, &layer.ffn_norm);
    if (model->arch->qkv_bias) {
      for (const TensorView* bias : {&l.q_bias, &l.k_bias, &l.v_bias}) append_vector(*bias, &layer.qkv_bias);
    }
    KVRT_TRY(packer.pack({l.q, l.k, l.v}, &layer.qkv));
    KVRT_TRY(packer.pack({l.out}, &layer.out));
    KVRT_TRY(packer.pack({l.gate, l.up}, &layer.gate_up));
    KVRT_TRY(packer.pack({l.down}, &layer.down));
    model->layers.push_back(std::move(layer));
  }
  model->weight_bytes = packer.resident;
  return model;
}

Result<Hash256> model_id(const GgufFile& file, ThreadPool* pool, const LoadProgress& progress) {
  const Arch* arch = nullptr;
  KVRT_ASSIGN(ModelDims d, read_dims(file, &arch));
  auto tensors = file.tensors();
  std::vector<Hash256> digests(tensors.size());
  std::atomic<uint64_t> done{0};
  std::atomic<bool> stop{false};
  pool->parallel_for(static_cast<uint32_t>(tensors.size()), [&](uint32_t i, uint32_t worker) {
    if (stop) return;
    const TensorView& t = tensors[i].view;
    digests[i] = Hasher().add(t.data).finish();
    file.drop_pages(t.data);
    uint64_t now = done.fetch_add(t.data.size()) + t.data.size();
    if (worker == 0 && !progress(now, file.file_bytes())) stop = true;  // the caller's thread is worker 0
  });
  if (stop) return error(Code::kCancelled, Detail::kNone, "hashing %s: stopped by its callback", file.name().c_str());
  auto bits = [](float f) {
    uint32_t u;
    std::memcpy(&u, &f, sizeof u);
    return uint64_t{u};
  };
  Hasher h;
  h.add_string("kvrt model 1").add_string(arch->name);
  for (uint64_t v : {uint64_t{d.layers}, uint64_t{d.width}, uint64_t{d.ff}, uint64_t{d.heads}, uint64_t{d.kv_heads}, uint64_t{d.head_dim},
                     uint64_t{d.context}, uint64_t{d.rope.dims}, static_cast<uint64_t>(d.rope.style), bits(d.rms_eps), bits(d.rope.freq_base)}) {
    h.add_u64(v);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& t = tensors[i].view;
    h.add_string(tensors[i].name).add_u64(static_cast<uint64_t>(t.type));
    for (uint64_t n : t.ne) h.add_u64(n);
    h.add(digests[i].bytes);
  }
  return h.finish();
}

}  // namespace kvrt
