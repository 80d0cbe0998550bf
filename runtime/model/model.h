// Model: one architecture row + dimensions + weights in the backend's layout + fingerprint. No class per architecture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/compute/backend.h"
#include "runtime/model/gguf.h"

namespace kvrt {

// What differs between architectures, as data (arch.cc holds kArchs[]).
struct Arch {
  const char* name;  // general.architecture
  RopeStyle rope_style;
  bool qkv_bias;  // attn_{q,k,v}.bias are required
};
const Arch* find_arch(std::string_view name);

struct ModelDims {
  uint32_t layers = 0, width = 0, ff = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
  float rms_eps = 0;
  RopeParams rope;
  float attention_scale = 0;  // 1 / sqrt(head_dim)
  bool tied_head = false;
};

struct Layer {
  std::vector<float> attn_norm, ffn_norm, qkv_bias;  // norms [width]; bias [(heads + 2 kv_heads) * head_dim] or empty
  std::unique_ptr<Weight> qkv, out, gate_up, down;   // [(h + 2kv) * d, width] [width, h * d] [2 ff, width] [width, ff]
};

// false stops the load (CANCELLED). done / total are bytes of tensors.
using LoadProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Immutable after load: any thread.
struct Model {
  const Arch* arch = nullptr;
  ModelDims dims;
  std::vector<Layer> layers;
  std::vector<float> output_norm;
  std::unique_ptr<Weight> embedding, head;  // head is null when tied
  uint64_t weight_bytes = 0;                // resident

  const Weight& head_weight() const { return head ? *head : *embedding; }
};

// Checks hyper-parameters and every tensor's name, type and shape before any allocation, then repacks the weights.
// Unknown architecture, tensor type, tensor or RoPE scaling: UNSUPPORTED by name.
Result<ModelDims> read_dims(const GgufFile& file, const Arch** arch);
Result<std::unique_ptr<Model>> load_model(const GgufFile& file, Backend* backend, const LoadProgress& progress);
// The weight_bytes of what load_model would load, by the same checks, from the header alone: no tensor is read.
Result<uint64_t> planned_weight_bytes(const GgufFile& file, const Backend& backend, const Arch& arch, const ModelDims& dims);

// model_id: BLAKE2b over architecture, hyper-parameters, RoPE and every tensor's name, type, shape and bytes. Reads the whole file.
Result<Hash256> model_id(const GgufFile& file, ThreadPool* pool, const LoadProgress& progress);

// Scratch memory for steps of up to `rows_max` rows, `logits_max` of which want logits.
class ForwardScratch {
 public:
  virtual ~ForwardScratch() = default;
  virtual uint64_t bytes() const = 0;
};
Result<uint64_t> scratch_bytes(const ModelDims& dims, uint32_t rows_max, uint32_t logits_max);
Result<std::unique_ptr<ForwardScratch>> make_scratch(const Model& model, Backend* backend, uint32_t rows_max, uint32_t logits_max);

// The only transformer pass. logits [step.logits_rows.size(), vocab], host-readable after it returns.
void forward(const Model& model, Backend* backend, const KvGeometry& kv, uint8_t* pool, const Step& step, ForwardScratch* scratch,
             float* logits);

}  // namespace kvrt
