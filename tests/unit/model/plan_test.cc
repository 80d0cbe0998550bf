// planned_weight_bytes against the bytes that load_model keeps, against the file's own directory, and against published parameter counts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

Backend* backend() {
  static const std::unique_ptr<Backend> instance = std::move(open_cpu({1, "scalar"}, nullptr)).value();
  return instance.get();
}

struct Planned {
  ModelDims dims;
  uint64_t bytes;
};
Result<Planned> plan(const GgufFile& file) {
  const Arch* arch = nullptr;
  Planned planned{};
  KVRT_ASSIGN(planned.dims, read_dims(file, &arch));
  KVRT_ASSIGN(planned.bytes, planned_weight_bytes(file, *backend(), *arch, planned.dims));
  return planned;
}

// Panels of 16 rows in the file's own bytes a row, in whole cache lines; vectors as f32. Blocks that guess tokens ahead are not loaded.
uint64_t bytes_by_directory(const GgufFile& file, const ModelDims& dims) {
  uint64_t sum = 0;
  for (const GgufTensor& t : file.tensors()) {
    const uint64_t cols = t.view.ne[0], rows = t.view.ne[1], matrices = t.view.ne[2];
    if (t.name.find("rope_f") == 0) continue;  // RoPE's factors are a hyper-parameter
    if (dims.draft_blocks > 0 && t.name.starts_with("blk." + std::to_string(dims.file_blocks - 1) + ".")) continue;
    const auto named = [&](const char* word) { return t.name.find(word) != std::string::npos; };
    if (t.name == "per_layer_token_embd.weight") continue;  // it stays in the file
    const bool vector = named("norm") || named("scale") || named("bias") || named("sinks") || named("conv.weight") || named("conv1d") ||
                        t.name.ends_with("ssm_a") || t.name.ends_with("ssm_d");
    const uint64_t times = t.name.ends_with("attn_k.weight") && !file.find(t.name.substr(0, t.name.size() - 8) + "v.weight") ? 2 : 1;
    sum +=
        vector ? 4 * cols * rows : times * matrices * (((rows + 15) / 16 * 16 * (t.view.data.size() / (matrices * rows)) + 63) / 64 * 64);
  }
  return sum;
}

TEST(ModelPlan, PlannedIsWhatIsLoadedForEveryTinyModel) {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KVRT_SOURCE_DIR "/tests/golden/tiny")) {
    if (entry.path().extension() != ".gguf" || entry.path().stem() == "vocab_only") continue;
    auto file = std::move(GgufFile::open(entry.path().string())).value();
    auto planned = plan(*file);
    ASSERT_TRUE(planned.is_ok()) << planned.status().message();
    auto model = std::move(load_model(*file, backend(), nullptr)).value();
    EXPECT_EQ(planned->bytes, model->weight_bytes) << entry.path();
    EXPECT_EQ(planned->bytes, bytes_by_directory(*file, planned->dims)) << entry.path();
    for (const uint32_t rows : {1u, 512u, 3u}) {
      auto scratch = std::move(make_scratch(*model, backend(), rows)).value();
      EXPECT_EQ(std::move(scratch_bytes(planned->dims, *backend(), rows)).value(), scratch->bytes());
    }
    ++models;
  }
  EXPECT_GE(models, 15);
}

TEST(ModelPlan, RefusesWhatLoadingRefuses) {
  for (const char* name : {"blk.0.attn_q.weight", "output_norm.weight"}) {
    GgufModel spec;
    spec.skip_tensor = name;
    const auto bytes = spec.write();
    auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
    const Status status = plan(*file).take_status();
    EXPECT_EQ(status.message(), load_model(*file, backend(), nullptr).status().message());
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

// The published models that the figures of the KV cache come from, as files of their true size with no bytes in them: a plan that read
// the tensors would take minutes.
TEST(ModelPlan, PublishedModelsFromTheirHeadersAlone) {
  struct Case {
    uint32_t layers, width, ff, heads, kv_heads;
    uint64_t parameters, kv_bytes_per_token;
  };
  const auto path = std::filesystem::temp_directory_path() / ("kvrt_plan_test_" + std::to_string(::getpid()) + ".gguf");
  for (const Case& c : {Case{32, 4096, 11008, 32, 32, 6'738'415'616, 524'288}, Case{40, 5120, 13824, 40, 40, 13'015'864'320, 819'200},
                        Case{80, 8192, 28672, 64, 8, 68'976'648'192, 327'680}}) {
    GgufModel spec;
    spec.layers = c.layers, spec.width = c.width, spec.ff = c.ff, spec.heads = c.heads, spec.kv_heads = c.kv_heads, spec.vocab = 32000;
    spec.tied = false, spec.holes = true;
    GgufWriter w;
    const auto header = spec.write(&w, [](GgufWriter&) {});
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ASSERT_EQ(::write(fd, header.data(), header.size()), static_cast<ssize_t>(header.size()));
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(w.file_bytes)), 0) << "no sparse files in " << path.parent_path();
    ::close(fd);
    const auto start = std::chrono::steady_clock::now();
    auto file = GgufFile::open(path.string());
    ASSERT_TRUE(file.is_ok()) << file.status().message();
    auto planned = plan(**file);
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_TRUE(planned.is_ok()) << planned.status().message();
    const uint64_t norms = (2 * c.layers + 1) * uint64_t{c.width};  // kept as f32
    EXPECT_EQ(planned->bytes, 2 * (c.parameters - norms) + 4 * norms);
    const ModelDims& d = planned->dims;
    EXPECT_EQ((KvGeometry{d.layers, d.kv_heads, d.head_dim, 16}).token_bytes(), c.kv_bytes_per_token);
    const uint64_t of_a_row =
        2 * uint64_t{c.width} + (c.heads + 2 * c.kv_heads) * 128 + c.heads * 128 + c.ff;  // x, normed, qkv, attended, MLP
    EXPECT_EQ(std::move(scratch_bytes(d, *backend(), 512)).value(), 4 * 512 * of_a_row);
    EXPECT_GT((*file)->file_bytes(), 2 * c.parameters);
    EXPECT_LT(seconds, 1.0);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kvrt
