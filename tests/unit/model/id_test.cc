// The model's identity: it depends on tensors and parameters alone, and its computation can be stopped.
#include <gtest/gtest.h>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

template <typename Add>
std::vector<uint8_t> with(const GgufModel& model, Add add) {
  GgufWriter w;
  return model.write(&w, add);
}

Hash256 id_of(const std::vector<uint8_t>& bytes, ThreadPool* pool = nullptr) {
  auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
  auto id = model_id(*file, pool, nullptr);
  EXPECT_TRUE(id.is_ok()) << id.status().message();
  return id.is_ok() ? *id : Hash256{};
}

TEST(ModelId, DependsOnEveryTensorByteAndParameterAndOnNothingElse) {
  GgufWriter w;
  const auto bytes = GgufModel().write(&w, [](GgufWriter&) {});
  const Hash256 id = id_of(bytes);
  ThreadPool pool(3);
  EXPECT_EQ(id, id_of(bytes, &pool));
  for (size_t at = w.data_at; at < bytes.size(); at += 97) {
    auto changed = bytes;
    changed[at] ^= 1;
    auto file = std::move(GgufFile::parse(changed, "test.gguf")).value();
    bool in_tensor = false;  // padding between tensors means nothing
    for (const GgufTensor& t : file->tensors()) {
      in_tensor |= changed.data() + at >= t.view.data.data() && changed.data() + at < t.view.data.data() + t.view.data.size();
    }
    EXPECT_EQ(id_of(changed) != id, in_tensor) << at;
  }
  EXPECT_EQ(id, id_of(with(GgufModel(), [](GgufWriter& more) { more.add_string("general.name", "another"); })));
  GgufModel v2;
  v2.version = 2;
  EXPECT_EQ(id, id_of(v2.write()));
  EXPECT_NE(id, id_of(with(GgufModel(), [](GgufWriter& more) { more.add_u32("llama.attention.key_length", 16); })));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "attention.scale", "rope.scaling.factor"}) {
    EXPECT_NE(id, id_of(with(GgufModel(), [&](GgufWriter& more) { more.add_f32(std::string("llama.") + key, 2.0f); }))) << key;
  }
  GgufModel epsilon;
  epsilon.skip_key = "attention.layer_norm_rms_epsilon";
  EXPECT_NE(id, id_of(with(epsilon, [](GgufWriter& more) { more.add_f32("llama.attention.layer_norm_rms_epsilon", 2e-5f); })));
  GgufModel moved;  // the same tensors in another order
  moved.skip_tensor = "output_norm.weight";
  auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
  const auto norm = file->find("output_norm.weight")->view.data;
  EXPECT_EQ(id, id_of(with(moved, [&](GgufWriter& more) { more.add_tensor("output_norm.weight", 0, {32}, {norm.begin(), norm.end()}); })));
}

// EXAONE 4: in a file with windows layers without one do not rotate, also where no layer has one.
TEST(ModelId, DependsOnLayersThatDoNotRotate) {
  const auto with_window = [](uint32_t window) {
    GgufModel model;
    model.arch = "exaone4";
    return id_of(with(model, [&](GgufWriter& more) {
      more.add_u32("exaone4.attention.sliding_window", window);
      more.add_u32("exaone4.attention.sliding_window_pattern", 1);
    }));
  };
  EXPECT_NE(with_window(0), with_window(100));
}

TEST(ModelId, StopsWhenToldTo) {
  const auto bytes = GgufModel().write();
  auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
  ThreadPool pool(2);
  EXPECT_EQ(model_id(*file, &pool, [](uint64_t, uint64_t) { return false; }).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace kvrt
