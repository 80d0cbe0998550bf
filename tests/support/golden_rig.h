// Helpers of the tests of the forward pass: logits of an independent numpy reference (tests/golden/README.md), and a model on a backend
// that computes them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "runtime/base/bytes.h"
#include "runtime/compute/kv_groups.h"
#include "runtime/model/model.h"

namespace kvrt::test {

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> rows;
  std::vector<float> logits;  // [rows, vocab]
  uint32_t vocab = 0;
};

// KVRT_TINY_DIR in the environment: the folder of the models that the tests brought along.
inline std::string tiny(const std::string& name) {
  const char* given = std::getenv("KVRT_TINY_DIR");
  return (given ? std::string(given) : std::string(KVRT_SOURCE_DIR "/tests/golden/tiny")) + "/" + name;
}

// A tiny model and the references of its logits. The few rows of a step meet quantized weights as integers of 8 bits, and have a reference of
// their own then; many rows may meet them as f16.
struct GoldenModel {
  std::string model, few, many;
};
inline void PrintTo(const GoldenModel& golden, std::ostream* out) { *out << golden.model; }
// Each model of the folder that has one.
inline std::vector<GoldenModel> golden_models() {
  std::vector<GoldenModel> models;
  for (const auto& file : std::filesystem::directory_iterator(tiny(""))) {
    if (file.path().extension() != ".golden") continue;
    const std::string name = file.path().stem().string(), eight_bits = name + ".golden8";
    models.push_back({name + ".gguf", std::filesystem::exists(tiny(eight_bits)) ? eight_bits : name + ".golden", name + ".golden"});
  }
  std::ranges::sort(models, {}, &GoldenModel::model);
  return models;
}
inline std::string golden_name(const testing::TestParamInfo<GoldenModel>& info) {
  return info.param.model.substr(0, info.param.model.find('.'));
}

inline Golden read_golden(const std::string& name) {
  std::ifstream in(tiny(name), std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  ByteReader reader(bytes);
  uint32_t magic = 0, version = 0, n_tokens = 0, n_rows = 0;
  Golden g;
  EXPECT_TRUE(reader.read(&magic) && reader.read(&version) && reader.read(&n_tokens) && reader.read(&g.vocab) && reader.read(&n_rows));
  EXPECT_EQ(magic, 0x4c47564bu) << name;
  EXPECT_EQ(version, 1u);
  g.tokens.resize(n_tokens);
  g.rows.resize(n_rows);
  g.logits.resize(size_t{n_rows} * g.vocab);
  for (int32_t& t : g.tokens) EXPECT_TRUE(reader.read(&t));
  for (uint32_t& r : g.rows) EXPECT_TRUE(reader.read(&r));
  for (float& l : g.logits) EXPECT_TRUE(reader.read(&l));
  EXPECT_EQ(reader.remaining(), 0u);
  return g;
}

// A sequence of at most `blocks` blocks of 16, in steps of at most `chunk` tokens. Each group of layers gives up what lies behind its
// window: its units are filled with NaNs and serve later blocks, and its tables have a unit of zeros there. A state goes from one block to
// another in each step.
class Runner {
 public:
  Runner(const std::string& model, std::unique_ptr<Backend> backend, KvFormats formats = {}, uint32_t blocks = 8)
      : backend_(std::move(backend)), blocks_(blocks) {
    auto file = GgufFile::open(tiny(model));
    EXPECT_TRUE(file.is_ok()) << file.status().message();
    file_ = std::move(file).value();
    auto loaded = load_model(*file_, backend_.get(), nullptr);
    EXPECT_TRUE(loaded.is_ok()) << loaded.status().message();
    model_ = std::move(loaded).value();
    EXPECT_TRUE(fit_keys(*file_, formats.k, model_.get()).is_ok());
    formats.bias_apart = model_->bias_apart;
    EXPECT_TRUE(place_vectors(model_.get(), backend_.get()).is_ok());
    const ModelDims& d = model_->dims;
    kv_ = deal_layers(kv_layers(d, kBlock, formats));
    units_ = kSequences * (blocks * kv_.tables() + 2 * kv_.states.units);
    pool_ = std::move(backend_->alloc((units_ + 1) * kv_.unit_bytes(), false)).value();
    fill(units_, 0);
    scratch_ = std::move(make_scratch(*model_, backend_.get(), blocks * 16)).value();
    logits_ = std::move(backend_->alloc_host(uint64_t{blocks} * 16 * d.vocab * sizeof(float))).value();
  }

  // The logits of the rows that the reference has.
  std::vector<float> logits(const Golden& golden, uint32_t chunk, bool ask_again_without_store = false) {
    std::vector<float> out;
    const auto n = static_cast<uint32_t>(golden.tokens.size());
    free_.resize(units_);
    std::iota(free_.begin(), free_.end(), 0);
    begin(&asked_, golden.tokens);
    begin(&other_, {golden.tokens.rbegin(), golden.tokens.rend()});
    for (uint32_t at = 0; at < n; at += chunk) {
      if (gives_up) give_up_before(at);
      append_step(golden, std::min(chunk, n - at), /*store_kv=*/true, &out);
    }
    if (ask_again_without_store) {
      out.clear();
      asked_.position = 0;
      append_step(golden, n, /*store_kv=*/false, &out);
    }
    return out;
  }
  const Model& model() const { return *model_; }
  Backend* backend() { return backend_.get(); }
  std::vector<uint8_t> pool() {
    std::vector<uint8_t> bytes(pool_->bytes());
    EXPECT_TRUE(backend_->download(bytes, pool_->data()).is_ok());
    return bytes;
  }

  bool gives_up = true;       // false: all KV stays
  uint32_t others_chunk = 0;  // so many tokens of another sequence go before each step's own

 private:
  static constexpr uint32_t kBlock = 16, kSequences = 2;
  static constexpr int32_t kNone = -1;
  struct Sequence {
    std::vector<int32_t> tokens, tables, states[2];  // tables and states: units
    uint32_t position = 0, state = 0;                // state: which of them the last step left
  };

  void fill(uint32_t unit, uint8_t byte) {
    const uint64_t bytes = kv_.unit_bytes();
    const auto write = [&](std::span<uint8_t> host) { std::ranges::fill(host, byte); };
    EXPECT_TRUE(backend_->upload(pool_->data() + unit * bytes, bytes, write).is_ok());
  }
  int32_t take() {
    const int32_t unit = free_.back();
    free_.pop_back();
    return unit;
  }
  void begin(Sequence* s, std::vector<int32_t> tokens) {
    *s = {std::move(tokens), std::vector<int32_t>(kv_.tables() * blocks_, kNone), {}};
    for (std::vector<int32_t>& state : s->states) {
      for (uint32_t i = 0; i < kv_.states.units; ++i) state.push_back(take());
    }
  }
  // The next row is at `position`.
  void give_up_before(uint32_t position) {
    const auto zeros = static_cast<int32_t>(units_);
    for (const KvGroup& group : kv_.groups) {
      for (uint32_t b = 0; group.window > 0 && (b + 1) * kBlock + group.window <= position + 1; ++b) {
        for (uint32_t t = group.first_table; t < group.first_table + group.tables; ++t) {
          int32_t& unit = asked_.tables[t * blocks_ + b];
          if (unit == zeros) continue;
          fill(static_cast<uint32_t>(unit), 0xff);
          free_.push_back(unit);
          unit = zeros;
        }
      }
    }
  }
  // The part of a step that `n` rows from `first_row` on are; the sequence goes on.
  StepSeq advance(Sequence* s, uint32_t first_row, uint32_t n, bool store_kv) {
    for (uint32_t t = 0; t < kv_.tables(); ++t) {
      for (uint32_t b = 0; b * kBlock < s->position + n; ++b) {
        if (int32_t& unit = s->tables[t * blocks_ + b]; unit == kNone) unit = take();
      }
    }
    StepSeq seq{first_row, n, static_cast<int32_t>(s->position), s->tables.data(), blocks_, store_kv ? ~0u : 0u};
    if (kv_.states.units > 0) {
      if (s->position > 0) seq.state_from = s->states[s->state].data(), s->state ^= 1;
      seq.state_to = s->states[s->state].data();
    }
    s->position += n;
    return seq;
  }
  void append_step(const Golden& golden, uint32_t n, bool store_kv, std::vector<float>* out) {
    std::vector<int32_t> tokens, positions;
    std::vector<uint32_t> wanted;
    std::vector<StepSeq> seqs;
    const auto add = [&](Sequence* s, uint32_t rows) {
      const uint32_t first_row = static_cast<uint32_t>(tokens.size());
      for (uint32_t i = s->position; i < s->position + rows; ++i) {
        tokens.push_back(s->tokens[i]);
        positions.push_back(static_cast<int32_t>(i));
      }
      seqs.push_back(advance(s, first_row, rows, store_kv));
    };
    const uint32_t others = std::min(others_chunk, static_cast<uint32_t>(other_.tokens.size()) - other_.position), at = asked_.position;
    if (others > 0) add(&other_, others);
    add(&asked_, n);
    for (uint32_t row : golden.rows) {
      if (row >= at && row < at + n) wanted.push_back(row - at + others);
    }
    Step step{seqs, tokens, positions, wanted};
    step.n_tables = kv_.tables();
    step.state_units = kv_.states.units;
    step.n_groups = static_cast<uint32_t>(kv_.groups.size());
    const uint64_t floats = wanted.size() * model_->dims.vocab;
    auto* logits = reinterpret_cast<float*>(logits_->data());
    forward(*model_, backend_.get(), kv_, pool_->data(), step, scratch_.get(), logits);
    const Status done = backend_->sync();
    EXPECT_TRUE(done.is_ok()) << done.message();
    out->insert(out->end(), logits, logits + floats);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GgufFile> file_;  // before the model, which reads it
  std::unique_ptr<Model> model_;
  KvGroups kv_;
  const uint32_t blocks_;
  uint32_t units_ = 0;
  Sequence asked_, other_;
  std::vector<int32_t> free_;  // units
  std::unique_ptr<Buffer> pool_, logits_;
  std::unique_ptr<ForwardScratch> scratch_;
};

// Largest difference of each row, over the largest logit of the row.
inline std::vector<double> row_errors(const Golden& golden, const std::vector<float>& found) {
  std::vector<double> errors;
  EXPECT_EQ(found.size(), golden.logits.size());
  for (size_t row = 0; row < golden.rows.size(); ++row) {
    double worst = 0, scale = 0;
    for (size_t i = row * golden.vocab; i < (row + 1) * golden.vocab; ++i) {
      worst = std::max(worst, std::abs(double{found[i]} - double{golden.logits[i]}));
      scale = std::max(scale, std::abs(double{golden.logits[i]}));
    }
    errors.push_back(worst / scale);
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

}  // namespace kvrt::test
