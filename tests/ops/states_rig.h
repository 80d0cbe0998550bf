// Recurrent layers under test on any backend: sequences go through steps in pieces, in place or from block to block, and nothing else in
// the pool may change.
#pragma once

#include <numeric>
#include <utility>

#include "tests/ops/ops_support.h"

namespace kvrt::test {

// One op over rows of `in` floats. In place: its results are where its input was.
struct StateOp {
  std::string name;
  StateLayout layout;
  bool convolution = false;  // its states are `inputs`; else `heads`
  uint32_t in = 0, out = 0;  // floats of a row; out 0: in place
  std::vector<float> constants;
  // constants, x, out: on the device
  std::function<void(Backend& b, const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, const float* constants,
                     float* x, float* out)>
      run;
  const StateItems& items() const { return convolution ? layout.inputs : layout.heads; }
};

// A layout of three layers, whose other kind of state takes place, too.
inline StateLayout layout_of(uint32_t items, uint32_t bytes, uint32_t per_unit, bool convolution) {
  StateLayout s;
  s.layers = 3;
  const StateItems other{2, 64, 4, 0};
  s.inputs = convolution ? StateItems{items, bytes, per_unit, 0} : other;
  s.heads = convolution ? other : StateItems{items, bytes, per_unit, 0};
  s.heads.first_unit = (s.layers * s.inputs.items + s.inputs.per_unit - 1) / s.inputs.per_unit;
  s.units = s.heads.first_unit + (s.layers * s.heads.items + s.heads.per_unit - 1) / s.heads.per_unit;
  s.unit_bytes = std::max(uint64_t{s.inputs.per_unit} * s.inputs.bytes, uint64_t{s.heads.per_unit} * s.heads.bytes) + 64;
  return s;
}

// Floats on a device.
class DeviceFloats {
 public:
  DeviceFloats(Backend* b, const std::vector<float>& from) : b_(b), n_(from.size()) {
    auto made = b->alloc(std::max<size_t>(n_, 1) * sizeof(float), false);
    EXPECT_TRUE(made.is_ok());
    memory_ = std::move(made).value();
    put(from);
  }
  void put(const std::vector<float>& from) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(from.data());
    const auto fill = [&](std::span<uint8_t> host) { std::copy_n(bytes, host.size(), host.data()); };
    EXPECT_TRUE(b_->upload(memory_->data(), from.size() * sizeof(float), fill).is_ok());
  }
  float* get() const { return reinterpret_cast<float*>(memory_->data()); }
  uint8_t* bytes() const { return memory_->data(); }
  std::vector<float> to_host() const { return to_host(n_); }
  std::vector<float> to_host(size_t n) const {  // the first n
    std::vector<float> out(n);
    EXPECT_TRUE(b_->download({reinterpret_cast<uint8_t*>(out.data()), n * sizeof(float)}, memory_->data()).is_ok());
    return out;
  }

 private:
  Backend* b_;
  size_t n_;
  std::unique_ptr<Buffer> memory_;
};

// A sequence's rows in a step.
struct Piece {
  uint32_t seq, rows;
};

class StateRig {
 public:
  // inputs: of each sequence, [tokens][op.in].
  StateRig(Backend* b, const StateOp& op, const std::vector<std::vector<float>>& inputs, uint32_t seed)
      : b_(b), op_(op), inputs_(inputs), random_(seed), at_(inputs.size()), blocks_(inputs.size()), out_(inputs.size()) {
    const auto units = static_cast<uint32_t>(2 * inputs.size() + 1) * op.layout.units;
    pool_ = std::vector<float>(units * op.layout.unit_bytes / sizeof(float));
    for (float& f : pool_) f = std::bit_cast<float>(0xffc00000u | random_.below(1u << 20));  // all NaN
    free_.resize(units);
    std::iota(free_.begin(), free_.end(), 0);
    for (uint32_t i = units; i > 1; --i) std::swap(free_[i - 1], free_[random_.below(i)]);
    memory_ = std::make_unique<DeviceFloats>(b, pool_);
    constants_ = std::make_unique<DeviceFloats>(b, op.constants);
    size_t rows = 0;
    for (const auto& input : inputs) rows += input.size() / op.in;
    x_ = std::make_unique<DeviceFloats>(b, std::vector<float>(rows * op.in));
    results_ = std::make_unique<DeviceFloats>(b, std::vector<float>(rows * op.out));
    cache_ = b->make_run_cache();
  }

  void step(const std::vector<Piece>& pieces) {
    std::vector<StepSeq> seqs;
    std::vector<int32_t> tokens, positions;
    std::vector<float> x;
    std::vector<std::vector<int32_t>> from(pieces.size()), to(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto [s, rows] = pieces[i];
      from[i] = blocks_[s];
      to[i] = from[i].empty() || random_.below(2) ? take() : from[i];
      StepSeq seq{static_cast<uint32_t>(tokens.size()), rows, static_cast<int32_t>(at_[s])};
      seq.state_from = from[i].empty() ? nullptr : from[i].data();
      seq.state_to = to[i].data();
      seqs.push_back(seq);
      for (uint32_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(at_[s] + r));
      tokens.resize(positions.size());
      x.insert(x.end(), inputs_[s].begin() + at_[s] * op_.in, inputs_[s].begin() + (at_[s] + rows) * op_.in);
    }
    Step step{seqs, tokens, positions, {}};
    step.state_units = op_.layout.units;
    const std::vector<float> out = run(step, x);
    check_pool(to);
    const uint32_t width = op_.out ? op_.out : op_.in;
    for (size_t i = 0, row = 0; i < pieces.size(); row += pieces[i++].rows) {
      const auto [s, rows] = pieces[i];
      out_[s].insert(out_[s].end(), out.begin() + row * width, out.begin() + (row + rows) * width);
      at_[s] += rows;
      if (!from[i].empty() && from[i] != to[i]) free_.insert(free_.end(), from[i].begin(), from[i].end());
      blocks_[s] = to[i];
    }
  }
  // The rest of all sequences, `rows` at a time.
  void finish(uint32_t rows) {
    for (bool more = true; more;) {
      std::vector<Piece> pieces;
      for (uint32_t s = 0; s < at_.size(); ++s) {
        if (const uint32_t left = tokens(s) - at_[s]; left > 0) pieces.push_back({s, std::min(left, rows)});
      }
      more = !pieces.empty();
      if (more) step(pieces);
    }
  }
  uint32_t tokens(uint32_t s) const { return static_cast<uint32_t>(inputs_[s].size() / op_.in); }
  uint32_t left(uint32_t s) const { return tokens(s) - at_[s]; }
  const std::vector<float>& out(uint32_t s) const { return out_[s]; }
  // Of one layer, its items one after the other.
  std::vector<float> state(uint32_t s, uint32_t layer) const {
    std::vector<float> out;
    const uint64_t n = op_.items().bytes / sizeof(float);
    for (uint32_t j = 0; j < op_.items().items; ++j) {
      const uint64_t at = state_offset(op_.layout, op_.items(), blocks_[s].data(), layer, j) / sizeof(float);
      out.insert(out.end(), pool_.begin() + static_cast<ptrdiff_t>(at), pool_.begin() + static_cast<ptrdiff_t>(at + n));
    }
    return out;
  }
  // Everything: results, then the states.
  std::vector<float> all() const {
    std::vector<float> all;
    for (uint32_t s = 0; s < at_.size(); ++s) {
      all.insert(all.end(), out_[s].begin(), out_[s].end());
      for (uint32_t layer = 0; layer < op_.layout.layers; ++layer) {
        const std::vector<float> state = this->state(s, layer);
        all.insert(all.end(), state.begin(), state.end());
      }
    }
    return all;
  }

 private:
  std::vector<int32_t> take() {
    std::vector<int32_t> units(free_.begin(), free_.begin() + op_.layout.units);
    free_.erase(free_.begin(), free_.begin() + op_.layout.units);
    return units;
  }
  // All layers get the same input: they must give the same output.
  std::vector<float> run(const Step& step, const std::vector<float>& x) {
    std::vector<float> first;
    for (uint32_t layer = 0; layer < op_.layout.layers; ++layer) {
      x_->put(x);
      b_->run({&step, cache_.get(), uint64_t{step.n_rows()} << 8 | layer},
              [&] { op_.run(*b_, op_.layout, memory_->bytes(), layer, step, constants_->get(), x_->get(), results_->get()); });
      EXPECT_TRUE(b_->sync().is_ok());
      std::vector<float> got = op_.out ? results_->to_host(size_t{step.n_rows()} * op_.out) : x_->to_host(x.size());
      if (layer == 0) first = got;
      EXPECT_SAME_BITS(first, got) << op_.name << " layer " << layer;
    }
    return first;
  }
  // Only items of the op's kind in the blocks that were written have changed.
  void check_pool(const std::vector<std::vector<int32_t>>& written) {
    const std::vector<float> now = memory_->to_host();
    const uint64_t n = op_.items().bytes / sizeof(float);
    for (const std::vector<int32_t>& units : written) {
      for (uint32_t i = 0; i < op_.layout.layers * op_.items().items; ++i) {
        const uint64_t at = state_offset(op_.layout, op_.items(), units.data(), i / op_.items().items, i % op_.items().items);
        std::copy_n(now.begin() + static_cast<ptrdiff_t>(at / sizeof(float)), n,
                    pool_.begin() + static_cast<ptrdiff_t>(at / sizeof(float)));
      }
    }
    EXPECT_SAME_BITS(pool_, now) << op_.name << ": the rest of the pool";
  }

  Backend* b_;
  StateOp op_;
  std::vector<std::vector<float>> inputs_;
  Random random_;
  std::vector<uint32_t> at_;
  std::vector<std::vector<int32_t>> blocks_;
  std::vector<std::vector<float>> out_;
  std::vector<float> pool_;
  std::vector<int32_t> free_;
  std::unique_ptr<DeviceFloats> memory_, constants_, x_, results_;  // a graph has their places
  std::unique_ptr<RunCache> cache_;
};

// ---- the ops

inline StateOp conv_op(uint32_t channels, uint32_t taps, uint32_t items, uint32_t per_unit, bool bias, bool silu, Random* random) {
  StateOp op;
  op.name = "conv " + std::to_string(channels) + " of " + std::to_string(taps);
  op.convolution = true;
  op.layout = layout_of(items, (taps - 1) * (channels / items) * 4, per_unit, true);
  op.in = channels + 3;  // the last three are not the op's
  op.constants = random->floats(channels * (taps + 1), 0.5f);
  op.run = [=](Backend& b, const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step, const float* c, float* x, float*) {
    const ConvParams params{channels, taps, c, bias ? c + channels * taps : nullptr, silu};
    b.conv(layout, pool, layer, step, params, channels + 3, x);
  };
  return op;
}

// A row: x, B, C, dt, two more.
inline StateOp scan_op(ScanParams p, uint32_t per_unit, Random* random) {
  StateOp op;
  op.name = "scan " + std::to_string(p.heads) + " heads of " + std::to_string(p.head_dim) + ", state " + std::to_string(p.state);
  op.layout = layout_of(p.heads, p.head_dim * p.state * 4, per_unit, false);
  const uint32_t dt_at = p.heads * p.head_dim + 2 * p.groups * p.state;
  op.in = dt_at + p.heads + 2;
  op.out = p.heads * p.head_dim;
  op.constants = random->floats(3 * p.heads);
  for (uint32_t h = 0; h < p.heads; ++h) op.constants[p.heads + h] = -0.1f - std::fabs(op.constants[p.heads + h]);
  op.run = [p, dt_at, stride = op.in](Backend& b, const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step,
                                      const float* c, float* x, float* out) {
    ScanParams params = p;
    params.dt_bias = c, params.a = c + p.heads, params.skip = c + 2 * p.heads;
    b.scan(layout, pool, layer, step, params, stride, x, x + dt_at, out);
  };
  return op;
}

// A row: q, k, v, beta, alpha, one more.
inline StateOp delta_op(DeltaParams p, uint32_t per_unit, Random* random) {
  StateOp op;
  op.name = "delta " + std::to_string(p.heads) + " heads, " + std::to_string(p.key_dim) + " by " + std::to_string(p.value_dim);
  op.layout = layout_of(p.heads, p.key_dim * p.value_dim * 4, per_unit, false);
  const uint32_t beta_at = 2 * p.key_heads * p.key_dim + p.heads * p.value_dim;
  op.in = beta_at + 2 * p.heads + 1;
  op.out = p.heads * p.value_dim;
  p.eps = 1e-6f;
  op.constants = random->floats(2 * p.heads);
  for (uint32_t h = 0; h < p.heads; ++h) op.constants[p.heads + h] = -0.1f - std::fabs(op.constants[p.heads + h]);
  op.run = [p, beta_at, stride = op.in](Backend& b, const StateLayout& layout, uint8_t* pool, uint32_t layer, const Step& step,
                                        const float* c, float* x, float* out) {
    DeltaParams params = p;
    params.dt_bias = c, params.a = c + p.heads;
    b.delta(layout, pool, layer, step, params, stride, x, stride, x + beta_at, x + beta_at + p.heads, out);
  };
  return op;
}

// Each sequence by itself, in one step: all results, and the states.
inline std::vector<float> alone(Backend* b, const StateOp& op, const std::vector<std::vector<float>>& inputs) {
  std::vector<float> all;
  for (const auto& input : inputs) {
    StateRig rig(b, op, {input}, 1);
    rig.finish(UINT32_MAX);
    const std::vector<float> one = rig.all();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// A NaN may become a NaN of any kind; all else has the same bits.
inline void expect_same_numbers(const std::vector<float>& want, const std::vector<float>& got, const std::string& what) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::memcmp(&want[i], &got[i], sizeof(float)), 0) << what << " " << i << ": " << got[i] << ", expected " << want[i];
  }
}

// Sizes of models, and those at which kernels change their way.
inline std::vector<StateOp> state_ops(Random* random) {
  std::vector<StateOp> ops;
  ops.push_back(conv_op(64, 3, 4, 3, false, false, random));
  ops.push_back(conv_op(1216, 4, 1, 2, true, true, random));
  ops.push_back(conv_op(1064, 3, 1, 1, true, false, random));
  ops.push_back(conv_op(48, 2, 2, 5, false, true, random));
  ops.push_back(conv_op(24, 6, 1, 3, true, true, random));
  for (const auto& [p, per_unit] : std::vector<std::pair<ScanParams, uint32_t>>{
           {{2, 64, 128, 1}, 3}, {{6, 8, 5, 2}, 4}, {{4, 16, 1, 4}, 12}, {{2, 32, 16, 1}, 1}, {{2, 24, 7, 1}, 5}, {{3, 200, 9, 3}, 2}}) {
    ops.push_back(scan_op(p, per_unit, random));
  }
  for (const auto& [p, per_unit] : std::vector<std::pair<DeltaParams, uint32_t>>{{{2, 1, 128, 128}, 3},
                                                                                 {{4, 2, 16, 8, true}, 5},
                                                                                 {{2, 2, 1, 16}, 1},
                                                                                 {{6, 3, 24, 40}, 4},
                                                                                 {{4, 4, 32, 32}, 12},
                                                                                 {{3, 1, 8, 200}, 2}}) {
    ops.push_back(delta_op(p, per_unit, random));
  }
  return ops;
}

inline std::vector<std::vector<float>> state_inputs(const StateOp& op, const std::vector<uint32_t>& tokens, Random* random) {
  std::vector<std::vector<float>> inputs;
  for (const uint32_t n : tokens) inputs.push_back(random->floats(size_t{n} * op.in));
  return inputs;
}

}  // namespace kvrt::test
