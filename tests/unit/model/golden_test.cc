// The forward pass against logits of an independent numpy reference in double precision (tests/golden/README.md).
#include "tests/support/golden_rig.h"

namespace kvrt::test {
namespace {

std::unique_ptr<Backend> cpu(const std::string& isa, uint32_t threads = 2) { return std::move(open_cpu({threads, isa}, nullptr)).value(); }

std::vector<std::string> usable_isas() {
  std::vector<std::string> isas;
  for (const KernelTableState& table : cpu_kernel_tables()) {
    if (table.supported) isas.push_back(table.isa);
  }
  return isas;
}

// Only the rounding of f32 differs from the reference, and where an input lies within it of the edge between two f16 values or two
// 8-bit codes, one step of those: a larger error in a few rows (README), so the median has a bound of its own. The results are the
// same bits on every machine, so these figures are too; the largest measured are 2.6e-5 and 7.7e-5 (row_gemma3, of seven layers).
constexpr double kMedianMax = 3e-5, kWorstMax = 1e-4;

class GoldenLogits : public testing::TestWithParam<GoldenModel> {};

TEST_P(GoldenLogits, MatchTheReference) {
  const GoldenModel& v = GetParam();
  const Golden golden = read_golden(v.few);
  std::vector<float> first;
  for (const std::string& isa : usable_isas()) {
    Runner runner(v.model, cpu(isa));
    ASSERT_EQ(runner.model().dims.vocab, golden.vocab);
    for (uint32_t chunk : {1u, 7u, 40u, 96u}) {
      const std::vector<float> found = runner.logits(golden, chunk);
      if (first.empty()) {
        first = found;
        const std::vector<double> errors = row_errors(golden, found);
        std::printf("%-16s relative error of a row: median %.2e, worst %.2e\n", v.model.c_str(), errors[errors.size() / 2], errors.back());
        EXPECT_LE(errors[errors.size() / 2], kMedianMax);
        EXPECT_LE(errors.back(), kWorstMax);
      }
      ASSERT_EQ(found.size(), first.size());
      EXPECT_EQ(std::memcmp(found.data(), first.data(), found.size() * sizeof(float)), 0) << isa << " in chunks of " << chunk;
    }
  }
}

TEST_P(GoldenLogits, ThreadsDoNotShow) {
  const Golden golden = read_golden(GetParam().few);
  const std::vector<float> want = Runner(GetParam().model, cpu("", 1)).logits(golden, 96);
  for (const uint32_t threads : {2u, 3u, 4u}) {
    for (const uint32_t chunk : {33u, 96u}) {
      const std::vector<float> found = Runner(GetParam().model, cpu("", threads)).logits(golden, chunk);
      ASSERT_EQ(found.size(), want.size());
      EXPECT_EQ(std::memcmp(found.data(), want.data(), want.size() * sizeof(float)), 0) << threads << " threads, chunks of " << chunk;
    }
  }
}

TEST_P(GoldenLogits, AnotherSequenceInTheStepsDoesNotShow) {
  const Golden golden = read_golden(GetParam().few);
  const std::vector<float> want = Runner(GetParam().model, cpu("")).logits(golden, 96);
  Runner runner(GetParam().model, cpu(""));
  for (const auto& [chunk, others] : {std::pair{1u, 1u}, {20u, 1u}, {7u, 25u}}) {
    runner.others_chunk = others;
    const std::vector<float> found = runner.logits(golden, chunk);
    ASSERT_EQ(found.size(), want.size());
    EXPECT_EQ(std::memcmp(found.data(), want.data(), want.size() * sizeof(float)), 0) << "chunks of " << chunk << " beside " << others;
  }
}

TEST_P(GoldenLogits, AQueryWithoutStoreWritesNothingAndGivesTheSameBits) {
  const Golden golden = read_golden(GetParam().few);
  Runner runner(GetParam().model, cpu(""));
  runner.gives_up = false;
  const std::vector<float> stored = runner.logits(golden, 96);
  const std::vector<uint8_t> before = runner.pool();
  const std::vector<float> again = runner.logits(golden, 96, /*ask_again_without_store=*/true);
  EXPECT_EQ(std::memcmp(stored.data(), again.data(), stored.size() * sizeof(float)), 0);
  EXPECT_EQ(before, runner.pool());
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenLogits, testing::ValuesIn(golden_models()), golden_name);

TEST(GoldenVocabulary, AFileWithoutTensorsOpensButIsNoModel) {
  auto file = GgufFile::open(tiny("vocab_only.gguf"));
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_TRUE((*file)->get_strings("tokenizer.ggml.tokens").has_value());
  const Arch* arch = nullptr;
  EXPECT_FALSE(read_dims(**file, &arch).is_ok());
}

}  // namespace
}  // namespace kvrt::test
