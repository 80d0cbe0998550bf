// What the parts of the forward pass share: a step on its way through the model, and its scratch memory.
#pragma once

#include "runtime/model/model.h"

namespace kvrt {

// Row-major f32 arrays in one device buffer, [rows_max, ...].
struct ScratchArrays {
  float* x = nullptr;         // [rows, width] the residual stream
  float* normed = nullptr;    // [rows, width] a block's output, or its input after a norm of its own
  float* qkv = nullptr;       // [rows, in_width] of a layer; latents: Q absorbed
  float* qkv_odd = nullptr;   // that of each second layer, where gates in it outlive the mixer: the next layer's rows are written meanwhile
  float* attended = nullptr;  // [rows, out_width] of a layer; latents: [rows, heads * rank]
  float* q_in = nullptr;      // [rows, q_rank]
  // [rows, heads * LatentDims::by_head()]: of some rows Q before it is absorbed, while others have their heads' outputs there.
  float* by_head = nullptr;
  float* latent = nullptr;        // [rows, rank + rope]
  float* gate_up = nullptr;       // [rows, 2 ff] where they have biases
  float* activated = nullptr;     // [rows, ff]; what layer_table has of the rows
  float* layer_inputs = nullptr;  // [rows, layers * per_layer]
  float* input_gate = nullptr;    // [rows, per_layer]
  float* router = nullptr;        // [rows, experts]
  float* expert_in = nullptr;     // [rows, width] the rows of one expert, and its output
  float* expert_out = nullptr;
  float* expert_sum = nullptr;  // [rows, width] where it is no part of x yet
  float* logits = nullptr;      // [logits_max, vocab], where the host does not reach the device's memory
  float* drawn = nullptr;       // [logits_max], likewise
};

class Scratch final : public ForwardScratch, public ScratchArrays {
 public:
  uint64_t bytes() const override { return buffer->bytes(); }

  uint32_t rows_max = 0;
  std::unique_ptr<Buffer> buffer;
  Routes routes;
  std::unique_ptr<RunCache> cache;
};

// A step on its way through the model.
struct Pass {
  const Model& model;
  Backend* backend;
  const KvGroups& kv;
  uint8_t* pool;
  const Step& step;
  Scratch* s;
  const ModelDims& d = model.dims;
  const Arch& arch = *model.arch;
  float* qkv(uint32_t layer) const { return layer % 2 == 1 && d.gated() ? s->qkv_odd : s->qkv; }
};

// Rows [first, first + n) of the step, as by_rows gives them. Arrays are those rows' part of Scratch's. Other threads are elsewhere between two
// layers' mixers: until the next mixer a part of an array has one width.
struct Rows {
  uint32_t first, n;
  float* of(float* array, uint64_t width) const { return array + first * width; }
};

// The input of a block: the residual stream, normalized where the architecture does so.
MatmulInput block_input(const Pass& p, Rows rows, const Vector& norm);

// Numbers that a token has for each layer, beside its embedding: of all layers, once x has the embeddings; and what a layer makes of its own
// ones at its end.
void embed_layers(const Pass& p, Rows rows);
void end_layer(const Pass& p, Rows rows, uint32_t index);

// A recurrent layer, as attention has them: what its rows need before they meet, where they meet, and what follows, up to the last matrix' input.
void recurrent_input(const Pass& p, Rows rows, uint32_t index);
void recur(const Pass& p, uint32_t index);
void recurrent_output(const Pass& p, Rows rows, uint32_t index);

}  // namespace kvrt
