// Every tensor's name, type and shape, checked before any is read.
#include "runtime/model/plan.h"

#include <algorithm>
#include <array>
#include <map>

#include "runtime/compute/quant/quants.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {
namespace {

// As kvrt inspect shows it: without ones at its end.
std::string shape_text(const std::array<uint64_t, 4>& ne) {
  size_t dims = ne.size();
  while (dims > 1 && ne[dims - 1] == 1) --dims;
  std::string text = "[" + std::to_string(ne[0]);
  for (size_t i = 1; i < dims; ++i) text += ", " + std::to_string(ne[i]);
  return text + "]";
}

bool is_vector_type(const DTypeInfo& type) { return type.block_elems == 1; }

class Planner {
 public:
  Planner(const GgufFile& file, const Arch& arch, const ModelDims& dims) : file_(file), arch_(arch), d_(dims) {}

  Result<Plan> plan() {
    Plan plan;
    KVRT_TRY(take("token_embd.weight", d_.width, d_.vocab, &plan.embedding));
    if (arch_.positions) KVRT_TRY(take("position_embd.weight", d_.width, d_.context, &plan.positions));
    KVRT_TRY(take_norm(arch_.output_norm, &plan.output_norm));
    if (!d_.tied_head) KVRT_TRY(take("output.weight", d_.width, d_.vocab, &plan.head));
    if (d_.per_layer > 0) {
      KVRT_TRY(take("per_layer_token_embd.weight", d_.layer_inputs(), d_.vocab, &plan.layer_table));
      KVRT_TRY(take("per_layer_model_proj.weight", d_.width, d_.layer_inputs(), &plan.layer_inputs));
      KVRT_TRY(take_vector("per_layer_proj_norm.weight", d_.per_layer, &plan.layer_inputs_norm));
    }
    for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (file_.find(name)) KVRT_TRY(take_vector(name, d_.rope.dims / 2, &plan.read));
    }
    for (uint32_t i = 0; i < d_.layers; ++i) {
      KVRT_TRY(plan_layer(i, &plan.layers.emplace_back()));
      if (i >= d_.own_kv()) KVRT_TRY(skip_kv(i, &plan.read));
    }
    KVRT_TRY(check_optional());
    KVRT_TRY(take_draft_blocks(&plan.read));
    KVRT_TRY(refuse_other_tensors());
    return plan;
  }

 private:
  Status plan_layer(uint32_t index, LayerTensors* layer) {
    const LayerBlocks blocks = d_.blocks_of(index);
    const std::string blk = "blk." + std::to_string(blocks.mixer) + ".", mlp = "blk." + std::to_string(blocks.mlp) + ".";
    if (arch_.pre_norm) {
      KVRT_TRY(take_norm(blk + "attn_norm", &layer->attn_norm));
      if (!arch_.parallel && d_.has_mlp(index)) KVRT_TRY(take_norm(mlp + arch_.ffn_norm, &layer->ffn_norm));
    }
    if (arch_.post_norm) {
      KVRT_TRY(take_norm(blk + "post_attention_norm", &layer->post_attn_norm));
      KVRT_TRY(take_norm(blk + "post_ffw_norm", &layer->post_ffn_norm));
    }
    if (arch_.per_layer) KVRT_TRY(plan_layer_end(blk, layer));
    KVRT_TRY(plan_mixer(blk, index, layer));
    if (!d_.has_mlp(index)) return Status::ok();
    if (!d_.has_experts(index)) return plan_mlp(mlp, d_.ff_of(index), layer);
    return plan_experts(mlp, layer);
  }

  Status plan_layer_end(const std::string& blk, LayerTensors* layer) {
    if (has_any(blk, {"layer_output_scale.weight"})) KVRT_TRY(take_vector(blk + "layer_output_scale.weight", 1, &layer->out_scale));
    if (d_.per_layer == 0) return Status::ok();
    KVRT_TRY(take(blk + "inp_gate.weight", d_.width, d_.per_layer, &layer->input_gate));
    KVRT_TRY(take(blk + "proj.weight", d_.per_layer, d_.width, &layer->input));
    return take_vector(blk + "post_norm.weight", d_.width, &layer->post_input_norm);
  }

  // A layer whose K and V are another's may have matrices of its own in the file: nothing reads them.
  Status skip_kv(uint32_t index, Tensors* read) {
    const std::string blk = "blk." + std::to_string(index) + ".";
    const Heads heads = d_.heads_of(index);
    for (const char* name : {"attn_k.weight", "attn_v.weight"}) {
      if (file_.find(blk + name)) KVRT_TRY(take(blk + name, d_.width, uint64_t{heads.kv} * heads.dim, read));
    }
    return file_.find(blk + "attn_k_norm.weight") ? take_vector(blk + "attn_k_norm.weight", heads.dim, read) : Status::ok();
  }

  Status plan_mixer(const std::string& blk, uint32_t index, LayerTensors* layer) {
    switch (d_.mixer(index)) {
      case Mixer::kConv:
        return plan_conv(blk, layer);
      case Mixer::kScan:
        return plan_scan(blk, layer);
      case Mixer::kDelta:
        return plan_delta(blk, layer);
      default:
        return d_.latent.rank > 0 ? plan_latent(blk, layer) : plan_attention(blk, index, layer);
    }
  }

  Status plan_attention(const std::string& blk, uint32_t index, LayerTensors* layer) {
    const Heads heads = d_.heads_of(index);
    KVRT_TRY(plan_qkv(blk, index, heads, layer));
    KVRT_TRY(plan_qk_norm(blk, heads, layer));
    if (arch_.sinks) KVRT_TRY(take_vector(blk + "attn_sinks.weight", heads.q, &layer->sinks));
    return take_rows(blk + "attn_output", heads.q_width(), d_.width, arch_.bias, &layer->out, &layer->out_bias);
  }

  Status plan_qkv(const std::string& blk, uint32_t index, const Heads& heads, LayerTensors* layer) {
    const uint64_t q_rows = heads.q_width(), kv_rows = uint64_t{heads.kv} * heads.dim;
    const bool bias =
        arch_.bias || arch_.qkv_bias || (arch_.qkv_bias_optional && has_any(blk, {"attn_q.bias", "attn_k.bias", "attn_v.bias"}));
    const auto take_qkv = [&](const char* name, uint64_t rows) {
      return take_rows(blk + name, d_.width, rows, bias, &layer->qkv, &layer->qkv_bias);
    };
    if (!arch_.fused_qkv && file_.find(blk + "attn_qkv.weight")) {
      return error(Code::kUnsupported, Detail::kNone,
                   "%s: tensor %sattn_qkv.weight: Q, K and V in one matrix are not known to architecture %s", file_.name().c_str(),
                   blk.c_str(), arch_.name);
    }
    if (arch_.fused_qkv) return take_qkv("attn_qkv", q_rows + 2 * kv_rows);
    if (heads.gate) {  // all gates, then all of Q
      KVRT_TRY(take_dealt(blk + "attn_q.weight", heads.q, {{{heads.dim, heads.dim}, {0, heads.dim}}}, &layer->qkv));
    } else {
      KVRT_TRY(take_qkv("attn_q", q_rows));
    }
    if (heads.q_alone) return {};
    KVRT_TRY(take_qkv("attn_k", kv_rows));
    const bool k_twice = arch_.v_norm && d_.window(index) == 0 && !has_any(blk, {"attn_v.weight"});
    if (!k_twice) return take_qkv("attn_v", kv_rows);
    layer->qkv.push_back(layer->qkv.back());
    return {};
  }

  Status plan_qk_norm(const std::string& blk, const Heads& heads, LayerTensors* layer) {
    const bool there = !arch_.qk_norm_optional || has_any(blk, {"attn_q_norm.weight", "attn_k_norm.weight"});
    if (arch_.qk_norm == QkNorm::kNone || !there) return {};
    const bool row = arch_.qk_norm == QkNorm::kRow, own = arch_.qk_norm == QkNorm::kLayerHeads;
    KVRT_TRY(take_vector(blk + "attn_q_norm.weight", row ? heads.q_width() : heads.dim, &layer->q_norm, own ? heads.q : 1));
    if (heads.q_alone) return {};
    const uint64_t kv_rows = uint64_t{heads.kv} * heads.dim;
    return take_vector(blk + "attn_k_norm.weight", row ? kv_rows : heads.dim, &layer->k_norm, own ? heads.kv : 1);
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

  Status plan_conv(const std::string& blk, LayerTensors* layer) {
    const RecurrentDims& r = d_.recurrent;
    KVRT_TRY(take(blk + "shortconv.in_proj.weight", d_.width, r.in_width(Mixer::kConv), &layer->qkv));
    KVRT_TRY(take_vector(blk + "shortconv.conv.weight", r.taps, &layer->conv, r.channels()));
    return take(blk + "shortconv.out_proj.weight", r.inner, d_.width, &layer->out);
  }

  Status plan_scan(const std::string& blk, LayerTensors* layer) {
    const RecurrentDims& r = d_.recurrent;
    KVRT_TRY(take(blk + "ssm_in.weight", d_.width, r.in_width(Mixer::kScan), &layer->qkv));
    if (has_any(blk, {"ssm_conv1d.bias"})) KVRT_TRY(take_vector(blk + "ssm_conv1d.bias", r.channels(), &layer->conv_bias));
    KVRT_TRY(take_vector(blk + "ssm_a", 1, &layer->a, r.heads));
    KVRT_TRY(take_vector(blk + "ssm_d", 1, &layer->skip, r.heads));
    KVRT_TRY(take_vector(blk + "ssm_norm.weight", r.inner / r.groups, &layer->state_norm, r.groups));
    return plan_heads(blk, layer);
  }

  Status plan_delta(const std::string& blk, LayerTensors* layer) {
    const RecurrentDims& r = d_.recurrent;
    const uint64_t of_key = r.heads / r.groups;  // heads that share a key
    if (file_.find(blk + "ssm_in.weight")) {     // of converters of before January 2026: heads of Q with what belongs to each
      const uint64_t key = r.state, values = of_key * r.head_dim();
      KVRT_TRY(take_dealt(blk + "ssm_in.weight", r.groups, {{{0, key}, {key, key}, {2 * key, values}, {2 * key + values, values}}},
                          &layer->qkv));
    } else {
      KVRT_TRY(take(blk + "attn_qkv.weight", d_.width, r.channels(), &layer->qkv));
      KVRT_TRY(take(blk + "attn_gate.weight", d_.width, r.inner, &layer->qkv));
    }
    if (arch_.tiled_heads) {
      KVRT_TRY(take(blk + "ssm_beta.weight", d_.width, r.heads, &layer->qkv));
      KVRT_TRY(take(blk + "ssm_alpha.weight", d_.width, r.heads, &layer->qkv));
    } else {
      KVRT_TRY(take_dealt(blk + "ssm_ba.weight", r.groups, {{{0, of_key}, {of_key, of_key}}}, &layer->qkv));
    }
    KVRT_TRY(take_vector(blk + "ssm_a", r.heads, &layer->a));
    KVRT_TRY(take_vector(blk + "ssm_norm.weight", r.head_dim(), &layer->state_norm));
    return plan_heads(blk, layer);
  }

  // What layers with heads have in common.
  Status plan_heads(const std::string& blk, LayerTensors* layer) {
    const RecurrentDims& r = d_.recurrent;
    KVRT_TRY(take_vector(blk + "ssm_conv1d.weight", r.taps, &layer->conv, r.channels()));
    KVRT_TRY(take_vector(blk + "ssm_dt.bias", r.heads, &layer->dt_bias));
    return take(blk + "ssm_out.weight", r.inner, d_.width, &layer->out);
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
    if (arch_.gated && file_.find(blk + "ffn_gate_up_exps.weight")) {  // a converter may stack them
      KVRT_TRY(take_experts("ffn_gate_up_exps", d_.width, uint64_t{2} * d_.ff, &layer->experts_gate_up, &layer->gate_up_bias));
    } else {
      if (arch_.gated) KVRT_TRY(take_experts("ffn_gate_exps", d_.width, d_.ff, &layer->experts_gate_up, &layer->gate_up_bias));
      KVRT_TRY(take_experts("ffn_up_exps", d_.width, d_.ff, &layer->experts_gate_up, &layer->gate_up_bias));
    }
    KVRT_TRY(take_experts("ffn_down_exps", d_.ff, d_.width, &layer->experts_down, &layer->down_bias));
    if (arch_.routing && has_any(blk, {"exp_probs_b.bias"}))
      KVRT_TRY(take_vector(blk + "exp_probs_b.bias", d_.experts, &layer->choice_bias));
    if (d_.experts_beside) return plan_beside(blk, layer);
    if (d_.shared_ff == 0) return Status::ok();
    if (arch_.shared_gate) KVRT_TRY(take(blk + "ffn_gate_inp_shexp.weight", d_.width, 1, &layer->shared_gate));
    if (arch_.gated) KVRT_TRY(take(blk + "ffn_gate_shexp.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    KVRT_TRY(take(blk + "ffn_up_shexp.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    return take(blk + "ffn_down_shexp.weight", d_.shared_ff, d_.width, &layer->shared_down);
  }

  Status plan_beside(const std::string& blk, LayerTensors* layer) {
    KVRT_TRY(take_vector(blk + "ffn_gate_inp.scale", d_.width, &layer->router_norm));
    KVRT_TRY(take_vector(blk + "ffn_down_exps.scale", d_.experts, &layer->expert_scale));
    KVRT_TRY(take_norm(blk + "pre_ffw_norm_2", &layer->experts_norm));
    KVRT_TRY(take_norm(blk + "post_ffw_norm_1", &layer->post_mlp_norm));
    KVRT_TRY(take_norm(blk + "post_ffw_norm_2", &layer->post_experts_norm));
    KVRT_TRY(take(blk + "ffn_gate.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    KVRT_TRY(take(blk + "ffn_up.weight", d_.width, d_.shared_ff, &layer->shared_gate_up));
    return take(blk + "ffn_down.weight", d_.shared_ff, d_.width, &layer->shared_down);
  }

  // A matrix of `runs` runs of rows, dealt.
  Status take_dealt(const std::string& name, uint64_t runs, const std::array<RowDeal::Piece, 4>& pieces, Tensors* out) {
    uint64_t run = 0;
    for (const RowDeal::Piece& piece : pieces) run += piece.rows;
    KVRT_TRY(take(name, d_.width, runs * run, out));
    out->back().deal = {run, pieces};
    return Status::ok();
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
    const TensorView& view = out->back().tensor->view;
    return is_vector_type(*dtype_info(static_cast<uint32_t>(view.type))) ? Status::ok() : unsupported_type(name, view, true);
  }

  Status unsupported_type(const std::string& name, const TensorView& view, bool vector) const {
    std::string types;
    for (const DTypeInfo& type : dtypes()) {
      if (!vector || is_vector_type(type)) types += (types.empty() ? "" : ", ") + std::string(type.name);
    }
    return error(Code::kUnsupported, Detail::kNone, "%s: tensor %s: type %s is not supported%s; these are: %s", file_.name().c_str(),
                 name.c_str(), find_ggml_type(static_cast<uint32_t>(view.type))->name, vector ? " for a vector" : "", types.c_str());
  }

  Status take(const std::string& name, uint64_t cols, uint64_t rows, Tensors* out, uint64_t matrices = 1) {
    const GgufTensor* tensor = file_.find(name);
    const std::array<uint64_t, 4> shape{cols, rows, matrices, 1};
    if (!tensor) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is missing, expected shape %s", file_.name().c_str(), name.c_str(),
                   shape_text(shape).c_str());
    }
    if (tensor->view.ne != shape) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s: expected shape %s, found %s", file_.name().c_str(), name.c_str(),
                   shape_text(shape).c_str(), shape_text(tensor->view.ne).c_str());
    }
    if (!dtype_info(static_cast<uint32_t>(tensor->view.type))) return unsupported_type(name, tensor->view, false);
    taken_.push_back(tensor);
    out->push_back({tensor});
    return Status::ok();
  }

  // Whether a layer has tensors that a file may lack: one of them is enough, and then take() asks for each.
  bool has_any(const std::string& blk, std::initializer_list<const char*> names) {
    const bool found = std::ranges::any_of(names, [&](const char* name) { return file_.find(blk + name) != nullptr; });
    (found ? having_ : lacking_).try_emplace(*names.begin(), blk);
    return found;
  }

  // Of the layers that may have them all do, or none.
  Status check_optional() const {
    for (const auto& [name, blk] : lacking_) {
      if (!having_.contains(name)) continue;
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s%s is missing, other layers have theirs", file_.name().c_str(),
                   blk.c_str(), name.c_str());
    }
    return Status::ok();
  }

  Status take_draft_blocks(Tensors* read) {
    for (uint32_t i = d_.file_blocks - d_.draft_blocks; i < d_.file_blocks; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      const size_t before = taken_.size();
      for (const GgufTensor& tensor : file_.tensors()) {
        if (!tensor.name.starts_with(blk)) continue;
        taken_.push_back(&tensor);
        read->push_back({&tensor});
      }
      if (taken_.size() == before || file_.find(blk + "nextn.eh_proj.weight")) continue;
      return error(Code::kCorrupt, Detail::kFormat,
                   "%s: tensor %snextn.eh_proj.weight is missing: nextn_predict_layers is %u, of %u blocks", file_.name().c_str(),
                   blk.c_str(), d_.draft_blocks, d_.file_blocks);
    }
    return Status::ok();
  }

  // A tensor that nothing reads means arithmetic that is not done: refuse it rather than compute something else.
  Status refuse_other_tensors() {
    std::sort(taken_.begin(), taken_.end());
    for (const GgufTensor& tensor : file_.tensors()) {
      if (std::binary_search(taken_.begin(), taken_.end(), &tensor)) continue;
      const bool senses = tensor.name.starts_with("v.") || tensor.name.starts_with("a.") || tensor.name.starts_with("mm.");
      return error(Code::kUnsupported, Detail::kNone, "%s: tensor %.200s is not known to architecture %s%s", file_.name().c_str(),
                   tensor.name.c_str(), arch_.name, senses ? ": images and sound are not supported" : "");
    }
    return Status::ok();
  }

  const GgufFile& file_;
  const Arch& arch_;
  const ModelDims& d_;
  std::vector<const GgufTensor*> taken_;
  std::map<std::string, std::string> having_, lacking_;  // the first layer with, and the first without tensors that a file may lack
};

}  // namespace

Result<Plan> plan_weights(const GgufFile& file, const Arch& arch, const ModelDims& dims) { return Planner(file, arch, dims).plan(); }

}  // namespace kvrt
