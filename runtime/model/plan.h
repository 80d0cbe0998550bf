// Which tensors of a file each weight of a model is made of.
#pragma once

#include <vector>

#include "runtime/model/model.h"

namespace kvrt {

struct PlannedTensor {
  const GgufTensor* tensor;
  RowDeal deal{};
};
using Tensors = std::vector<PlannedTensor>;  // stacked by rows

// Tensors that an architecture lacks are empty.
struct LayerTensors {
  Tensors attn_norm, ffn_norm, post_attn_norm, post_ffn_norm, q_norm, k_norm;
  Tensors qkv, qkv_bias, out, out_bias, gate_up, gate_up_bias, down, down_bias, router, router_bias, sinks;
  Tensors experts_gate_up, experts_down;  // each holds the matrices of all experts
  Tensors choice_bias, shared_gate, shared_gate_up, shared_down;
  Tensors router_norm, experts_norm, post_experts_norm, post_mlp_norm, expert_scale;  // of experts beside an MLP, which is the shared one
  Tensors input_gate, input, post_input_norm, out_scale;
  Tensors conv, conv_bias, dt_bias, a, skip, state_norm;        // of recurrent layers, beside qkv and out
  Tensors q_in, q, kv, key, value, latent_q_norm, latent_norm;  // of latent attention; key and value hold the matrices of all heads
};

// The tensors of every weight, once all were found and checked.
struct Plan {
  Tensors embedding, positions, output_norm, head, layer_table, layer_inputs, layer_inputs_norm;
  Tensors read;  // the factors of RoPE's frequencies, which read_dims read, and what nothing reads
  std::vector<LayerTensors> layers;
};

// Finds and checks every tensor.
Result<Plan> plan_weights(const GgufFile& file, const Arch& arch, const ModelDims& dims);

}  // namespace kvrt
