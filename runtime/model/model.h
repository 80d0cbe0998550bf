// Model: one architecture row + dimensions + weights in the backend's layout + fingerprint. No class per architecture.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/compute/backend.h"
#include "runtime/compute/kv_groups.h"
#include "runtime/model/gguf.h"

namespace kvrt {

enum class NormKind : uint32_t { kRms, kLayer, kLayerBias };  // of the residual stream: RMSNorm, LayerNorm without a bias, and with one
// A norm of Q and K: none; an RMSNorm of each head, whose weights all heads share, or over all heads of a row; a LayerNorm of each head,
// which has weights of its own.
enum class QkNorm : uint32_t { kNone, kHeads, kRow, kLayerHeads };
inline constexpr uint32_t kNoFullLayer = UINT32_MAX;

// What mixes the rows of a sequence: attention, or a recurrence over a state of fixed size (runtime/compute/state_layout.h).
enum class Mixer : uint32_t {
  kAttention,
  kConv,   // a short convolution between two gates
  kScan,   // Mamba-2
  kDelta,  // the gated delta rule
};

// The differences between architectures, as data (arch.cc holds kArchs[]).
struct Arch {
  const char* name;  // general.architecture
  RopeStyle rope_style = RopeStyle::kHalves;
  NormKind norm = NormKind::kRms;
  bool qkv_bias = false;           // attn_{q,k,v}.bias are required
  bool qkv_bias_optional = false;  // all layers have them, or none
  bool bias = false;               // all matrices of a layer have biases, the router's and the experts' too
  bool fused_qkv = false;          // attn_qkv holds Q, K and V
  bool fused_up = false;           // ffn_up holds gate and up
  bool gated = true;               // false: the MLP is act(up), without a gate
  bool parallel = false;           // attention and MLP read the same normalized input; not with post_norm or scales
  bool pre_norm = true;            // a norm of attention's and MLP's input
  bool post_norm = false;          // a norm of their output, before it is added
  bool attention_gate = false;     // attn_q has after each head's rows those of a gate: attention's output is times its sigmoid
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_last = false;      // after the rotation
  bool qk_norm_optional = false;  // all layers have it, or none
  bool v_norm = false;  // an RMSNorm of each head of V, without weights; where layers without a window have no attn_v, V is K's projection
  Activation activation = Activation::kSilu;
  bool scale_embedding = false;   // times sqrt(width)
  bool experts = false;           // may have experts instead of an MLP
  bool shared_expert = false;     // expert_shared_feed_forward_length: an MLP beside the experts
  bool shared_gate = false;       // times the sigmoid of a number of the row's
  bool experts_beside = false;    // experts beside the MLP, each with norms of its own
  bool routing = false;           // experts may be shared, grouped, biased, and some first layers have none
  bool normalize_experts = true;  // the weights of a row's experts sum to 1, where the file says nothing
  bool latent = false;            // attention.kv_lora_rank: tokens leave latents behind (MLA)
  bool per_layer = false;         // embedding_length_per_layer_input, and layer_output_scale, in all layers or in none
  bool tempered = false;          // attention.temperature_scale: Q grows with its position; rope.scaling.yarn_log_multiplier
  float temperature = 0;          // where the file says nothing
  // attention.sliding_window_pattern says of each layer whether it has a window; these have heads of key_length_swa dimensions. The last
  // attention.shared_kv_layers have no K and V of their own, and feed_forward_length may be an array.
  bool layer_kinds = false;
  // attention.sliding_window: of window_period layers the last sees everything, the others a window. 0: no layer may have one.
  uint32_t window_period = 0;
  uint32_t window = 0;                             // where the file says nothing
  float window_freq_base = 0;                      // RoPE of layers with a window: this base, not scaled; 0: as the others
  bool window_unscaled = false;                    // RoPE of layers with a window: the others' base, not scaled
  bool window_rope_alone = false;                  // in files with windows layers without one do not rotate Q and K
  float attention_softcap = 0, final_softcap = 0;  // where the file says nothing
  float attention_scale = 0;                       // of q·k; 0: 1 / sqrt(head_dim)
  uint32_t wide_scale_layers = 0;  // with so many layers (no key says it), q·k is scaled for width / heads dimensions, not for head_dim
  bool scales = false;             // embedding_scale, residual_scale and logit_scale (a divisor) are read
  bool logit_scale = false;        // of these logit_scale alone, a factor
  bool scales_required = false;    // else they are 1 where the file has none
  uint32_t no_rope_period = 0;     // of so many layers the last does not rotate Q and K; 0: all do, 1: none does
  bool rope_flag = false;          // rope.scaling.finetuned, where it is false: no layer rotates them
  bool whole_ramp = true;          // yarn's first and last pair are rounded to whole numbers
  bool sinks = false;              // attn_sinks
  bool positions = false;          // position_embd is added to the embedding
  bool single_blocks = false;      // a block of the file is a mixer or, where feed_forward_length is not 0, an MLP
  bool sigmoid_experts = false;    // of each logit, where the file says nothing
  Mixer recurrent = Mixer::kAttention;      // what layers without attention have; kAttention: there are none
  bool tiled_heads = false;                 // DeltaParams; the decays and the rates are of two matrices then
  const char* output_norm = "output_norm";  // the tensor of the norm before the head
  const char* ffn_norm = "ffn_norm";        // the tensor of the norm of the MLP's input
};
const Arch* find_arch(std::string_view name);
// The architecture of a file with tensors. UNSUPPORTED: another one, or no model at all, by what it is.
Result<const Arch*> read_arch(const GgufFile& file);
std::string arch_names();  // all of them: "llama, qwen2, ..."

// The attention heads of a layer: of Q, of K and V, and a head's dimensions. Latents: Q's heads absorbed, which all see one latent.
struct Heads {
  uint32_t q = 0, kv = 0, dim = 0, v_dim = 0;
  bool latent = false, gate = false;
  bool q_alone = false;  // K and V are another layer's
  uint32_t q_width() const { return q * dim; }
  uint32_t out_width() const { return q * v_dim; }
  uint32_t gate_width() const { return gate ? out_width() : 0; }
  uint32_t qkv_width() const { return latent || q_alone ? q_width() : gate_width() + q_width() + kv * (dim + v_dim); }
  bool operator==(const Heads&) const = default;
};

// What layers without attention have in common: they project a row, go over its channels with a convolution, and, but for kConv, with
// heads that each have a state.
struct RecurrentDims {
  uint32_t taps = 0;               // 0: the model has no such layers
  uint32_t inner = 0;              // numbers of a row that the last matrix reads: of all heads, or the convolution's
  uint32_t heads = 0, groups = 0;  // groups: Mamba's B and C, the delta rule's heads of Q and K
  uint32_t state = 0;              // numbers of B, or of a head of Q
  bool tiled = false;              // DeltaParams
  uint32_t head_dim() const { return inner / heads; }
  uint32_t channels() const { return inner + 2 * groups * state; }
  uint32_t in_width(Mixer mixer) const;  // a row's after the projection
  StateNeed need() const { return {channels(), taps, heads, heads > 0 ? state * head_dim() * 4 : 0}; }
};

// Multi-head latent attention. A token leaves behind a row of `rank` numbers, from which every head's K and V are made, and `rope` rotated
// ones, which are a part of every head's K. In the absorbed form the matrix that makes K of them goes to Q, that of V to the output.
struct LatentDims {
  uint32_t rank = 0, rope = 0;  // rank 0: the model has none
  uint32_t q_rank = 0;          // of the matrix that Q is made by; 0: that is whole
  uint32_t nope = 0, v = 0;     // dimensions of a head of Q that are not rotated, and of V
  uint32_t q() const { return nope + rope; }
  uint32_t by_head() const { return std::max(q(), v); }  // places of a head in Scratch::by_head
};

// Where a layer's tensors are in the file.
struct LayerBlocks {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t mixer = 0, mlp = 0;  // mlp kNone: it has none
};

struct ModelDims {
  uint32_t file_blocks = 0, draft_blocks = 0;  // blocks of the file; of these so many last ones guess tokens ahead, and are not used
  uint32_t layers = 0, width = 0, ff = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;  // ff: of one expert
  uint32_t experts = 0, experts_used = 0;                                                                 // 0: an MLP
  bool experts_normalize = true;                // the weights of a row's experts sum to 1
  bool experts_sigmoid = false;                 // their weights are the sigmoid of the logits, not the softmax
  float experts_scale = 1;                      // of the weights
  uint32_t expert_groups = 1, groups_used = 1;  // experts are chosen among those of the best groups
  uint32_t dense_layers = 0, dense_ff = 0;      // so many first layers have an MLP
  uint32_t shared_ff = 0;                       // an MLP beside the experts; 0: none
  bool experts_beside = false;                  // each with norms of its own
  std::vector<uint32_t> ffs;                    // [layers]; or empty: every MLP has ff. Else that is the most
  uint32_t shared_kv = 0;                       // so many last layers have no K and V: kv_layer's are theirs
  uint32_t per_layer = 0;                       // numbers that a token has for each layer beside the embedding
  LatentDims latent;
  std::vector<LayerBlocks> blocks;  // [layers]; or empty: layer i is block i
  std::vector<Mixer> mixers;        // [layers]; or empty: all layers have attention
  RecurrentDims recurrent;          // of the layers without
  std::vector<Heads> layer_heads;   // [layers]; or empty: heads, kv_heads, head_dim are every layer's. Else these are the most of any
  uint32_t window_head_dim = 0;     // of layers with a window; 0: head_dim
  float norm_eps = 0;
  RopeParams rope, window_rope;                                         // for layers that see everything, and for the others
  std::vector<uint32_t> windows;                                        // [layers], 0: the layer sees everything; or empty: all do
  float attention_scale = 0, attention_softcap = 0, final_softcap = 0;  // softcap 0: none
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;       // of the embedding's rows, a block's output, the logits
  Temperature temperature;
  bool tied_head = false;
  bool plain_head = false;  // the head's weight is of F32, F16 or BF16
  bool attention_gate = false;
  bool gate_up_bias = false;  // gate and up are whole before the activation
  uint32_t no_rope_period = 0;
  bool window_rope_alone = false;
  // The rotation of the layer's Q and K; null: none.
  const RopeParams* rope_of(uint32_t layer) const {
    if (no_rope_period > 0 && layer % no_rope_period == no_rope_period - 1) return nullptr;
    if (window(layer) > 0) return &window_rope;
    return window_rope_alone ? nullptr : &rope;
  }
  Mixer mixer(uint32_t layer) const { return mixers.empty() ? Mixer::kAttention : mixers[layer]; }
  bool gated() const { return attention_gate || !mixers.empty(); }  // numbers of a layer's projection outlive its mixer
  uint32_t window(uint32_t layer) const { return windows.empty() ? 0 : windows[layer]; }
  uint32_t own_kv() const { return layers - shared_kv; }  // so many first layers
  uint32_t kv_layer(uint32_t layer) const;                // the layer itself, or the last one before own_kv() with its window
  uint32_t ff_of(uint32_t layer) const { return !ffs.empty() ? ffs[layer] : experts > 0 ? dense_ff : ff; }  // of the MLP
  uint64_t layer_inputs() const { return uint64_t{per_layer} * layers; }                                    // of a row
  LayerBlocks blocks_of(uint32_t layer) const { return blocks.empty() ? LayerBlocks{layer, layer} : blocks[layer]; }
  bool has_mlp(uint32_t layer) const { return blocks_of(layer).mlp != LayerBlocks::kNone; }  // or experts
  bool has_experts(uint32_t layer) const { return experts > 0 && layer >= dense_layers && has_mlp(layer); }
  Heads heads_of(uint32_t layer) const {
    if (latent.rank > 0) return {heads, 1, latent.rank + latent.rope, latent.rank, true};
    return layer_heads.empty() ? Heads{heads, kv_heads, head_dim, head_dim, false, attention_gate} : layer_heads[layer];
  }
  // A layer's rows between its first matrix and its mixer, and between that and its last one; and the widest of all layers.
  uint32_t in_width(uint32_t layer) const;
  uint32_t out_width(uint32_t layer) const;
  uint32_t in_width_max() const;
  uint32_t out_width_max() const;
};

// What each layer's tokens leave behind.
std::vector<KvLayer> kv_layers(const ModelDims& dims, uint32_t block_tokens, KvFormats formats);

struct Expert {
  std::unique_ptr<Weight> gate_up, down;  // as of a layer
};

// The matrices of latent attention; q_in: where Q has a rank.
struct LatentWeights {
  std::unique_ptr<Weight> q_in, q, kv;              // [q_rank, width] [h * (nope + rope), q_rank or width] [rank + rope, width]
  std::vector<std::unique_ptr<Weight>> key, value;  // of each head: [rank, nope] [v, rank]
};

// A norm's weights, behind which lies its bias if it has one, a matrix' biases, or sinks. `device` is where the ops read it, once
// place_vectors put it there; null of an empty one.
struct Vector {
  std::vector<float> values;
  const float* device = nullptr;
};

// Weights and vectors that an architecture lacks are null or empty.
struct Layer {
  Vector attn_norm, ffn_norm, post_attn_norm, post_ffn_norm;  // [width]
  Vector qkv_bias, out_bias;                                  // [(h + 2 kv) * d] of the layer's heads, [width]
  Vector gate_up_bias, down_bias, router_bias;  // [2 ff] or, without a gate, [ff], [width], [experts]; of all experts, one by one
  Vector sinks;                                 // [h]
  Vector key_bias;                              // [kv][key_bias_pairs][3]: KeyBias; qkv_bias lacks it
  Vector qk_factors;                            // [(h + kv) * d] that Q and K are multiplied by
  uint32_t key_bias_pairs = 0;
  Vector conv, conv_bias;                           // [taps, channels], the oldest input's first, [channels]
  Vector dt_bias, a, skip, state_norm;              // [heads] [heads], negative, [heads] [inner], or one for all heads [head_dim]
  Vector q_norm, k_norm;                            // [d], or [h * d] and [kv * d]: kRow, kLayerHeads
  std::unique_ptr<Weight> qkv, out, gate_up, down;  // [in_width, width] [width, out_width] [2 ff, width] [width, ff]
  std::unique_ptr<Weight> router;                   // [experts, width]
  std::vector<Expert> experts;
  Vector choice_bias;  // [experts] experts are chosen by it, too, on the host
  Expert shared;
  std::unique_ptr<Weight> shared_gate;  // [1, width]
  // Experts beside the MLP: the router's norm, that of the experts' input, of their output, of the MLP's; [experts] of outputs, on the host
  Vector router_norm, experts_norm, post_experts_norm, post_mlp_norm, expert_scale;
  Vector v_norm;                              // [d] of ones
  std::unique_ptr<Weight> input_gate, input;  // [per_layer, width] [width, per_layer]
  Vector post_input_norm, out_scale;          // [width] [1] on the host
  LatentWeights latent;
  Vector latent_q_norm, latent_norm;  // [q_rank] [rank]
};

// false stops the load (CANCELLED). done / total are bytes of tensors.
using LoadProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Immutable after load and place_vectors: any thread.
struct Model {
  const Arch* arch = nullptr;
  ModelDims dims;
  std::vector<Layer> layers;
  Vector output_norm;
  std::unique_ptr<Buffer> vectors;                     // their memory on the device
  std::unique_ptr<Weight> embedding, positions, head;  // head is null when tied
  TensorView layer_table;                              // [vocab, layers * per_layer], in the file's memory, which outlives the model
  std::unique_ptr<Weight> layer_inputs;                // [layers * per_layer, width]
  Vector layer_inputs_norm;                            // [per_layer]
  uint64_t weight_bytes = 0;                           // resident
  bool bias_apart = false;                             // some layer has a key_bias

  const Weight& head_weight() const { return head ? *head : *embedding; }
};

// Checks hyper-parameters and every tensor's name, type and shape before any allocation, then repacks the weights.
// Unknown architecture, tensor type, tensor or RoPE scaling: UNSUPPORTED by name.
Result<ModelDims> read_dims(const GgufFile& file, const Arch** arch);
Result<std::unique_ptr<Model>> load_model(const GgufFile& file, Backend* backend, const LoadProgress& progress,
                                          const WeightCache* cache = nullptr);
// Copies the vectors to the device: before the first forward(), and after every change of them.
Status place_vectors(Model* model, Backend* backend);
// Makes K fit for int8 and int4: where each head of Q and K has a norm, moves weight from one norm to the other such that K's error costs least.
void balance_qk(Model* model);
// After load_model, before place_vectors: makes K and Q fit what K is stored in (keys.cc).
Status fit_keys(const GgufFile& file, KvFormat format, Model* model);
// CORRUPT for the values for which load_model refuses a file. Reads a few vectors of each layer.
Status check_weight_values(const GgufFile& file, const Arch& arch, const ModelDims& dims);
// The weight_bytes that load_model would give, by the same checks, from the header alone: no tensor is read.
Result<uint64_t> planned_weight_bytes(const GgufFile& file, const Backend& backend, const Arch& arch, const ModelDims& dims);

// model_id: BLAKE2b over architecture, hyper-parameters, RoPE and every tensor's name, type, shape and bytes. Reads the whole file.
Result<Hash256> model_id(const GgufFile& file, ThreadPool* pool, const LoadProgress& progress);

// Names the files' bytes without reading them all: by inode, size, times, the header and a sample of the tensors. A change in place changes
// the ctime too, and only a clock that is set back can restore that. The device's number is left out, as it changes from one start to the
// next. Reads of each file the header and 256 KiB at most. Zero where the bytes are not one whole file.
Hash256 file_id(const GgufFile& file);

// Scratch memory for steps of up to `rows_max` rows.
class ForwardScratch {
 public:
  virtual ~ForwardScratch() = default;
  virtual uint64_t bytes() const = 0;
};
// The largest steps of the model, of at most rows_max rows: its backend sizes its own memory for them.
StepShape step_shape(const ModelDims& dims, uint32_t rows_max);
Result<uint64_t> scratch_bytes(const ModelDims& dims, const Backend& backend, uint32_t rows_max);
Result<std::unique_ptr<ForwardScratch>> make_scratch(const Model& model, Backend* backend, uint32_t rows_max);

// The only transformer pass. logits [step.logits_rows.size(), vocab] is memory of alloc_host (or of alloc where the backend is unified),
// complete after sync.
// With step.draws, where the backend is not unified, `drawn` is written in its place, likewise of alloc_host.
void forward(const Model& model, Backend* backend, const KvGroups& kv, uint8_t* pool, const Step& step, ForwardScratch* scratch,
             float* logits, DrawnToken* drawn = nullptr);

}  // namespace kvrt
