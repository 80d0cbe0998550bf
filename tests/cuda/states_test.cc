// Recurrent layers of a device: the CPU's bits, from kernels and from graphs.
#include "cuda/backend/cuda_backend.h"
#include "tests/ops/states_rig.h"

namespace kvrt::test {
namespace {

std::unique_ptr<Backend> device() {
  auto opened = cuda::CudaBackend::open({}, nullptr);
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
  return std::move(opened).value();
}

TEST(CudaStates, HaveTheCpusBitsForEveryCut) {
  Random random(21);
  const auto scalar = open_backend("scalar"), gpu = device();
  for (const StateOp& op : state_ops(&random)) {
    const auto inputs = state_inputs(op, {11, 1, 18}, &random);
    const std::vector<float> want = alone(scalar.get(), op, inputs);
    for (const uint32_t rows : {1u, 2u, 9u, 20u}) {  // steps of few rows become graphs, for one, two and three sequences
      StateRig rig(gpu.get(), op, inputs, rows);
      rig.finish(rows);
      EXPECT_SAME_BITS(want, rig.all()) << op.name << ", " << rows << " rows";
    }
    StateRig rig(gpu.get(), op, inputs, 5);  // as many rows of one sequence as of several
    rig.step({{0, 3}});
    rig.step({{0, 1}, {1, 1}, {2, 1}});
    rig.step({{0, 2}, {2, 1}});
    rig.step({{2, 3}});
    rig.step({{0, 1}, {2, 2}});
    rig.finish(18);
    EXPECT_SAME_BITS(want, rig.all()) << op.name << ", of different sequences";
  }
}

TEST(CudaStates, ExtremesGiveTheCpusNumbers) {
  Random random(22);
  const auto scalar = open_backend("scalar"), gpu = device();
  const float extremes[] = {NAN, -HUGE_VALF, HUGE_VALF, 3e38f, -3e38f, 1e30f, -0.0f, 1e-42f, 25.0f, -100.0f};
  for (const StateOp& op : state_ops(&random)) {
    auto inputs = state_inputs(op, {5, 3}, &random);
    for (auto& input : inputs) {
      for (size_t i = 0; i < input.size() / 30; ++i) input[random.below(static_cast<uint32_t>(input.size()))] = extremes[random.below(10)];
    }
    StateRig rig(gpu.get(), op, inputs, 3);
    rig.finish(2);
    expect_same_numbers(alone(scalar.get(), op, inputs), rig.all(), op.name);
  }
}

TEST(CudaMultiply, HasTheCpusBits) {
  constexpr uint32_t kRows = 5, kWidth = 300, kStride = 310;
  Random random(23);
  const auto scalar = open_backend("scalar"), gpu = device();
  const std::vector<float> x = random.extremes(kRows * kStride), y = random.extremes(kRows * kStride);
  for (const Gate gate : {Gate::kPlain, Gate::kSilu, Gate::kSigmoid}) {
    for (const bool in_place : {false, true}) {
      const auto run = [&](Backend* b) {
        const DeviceFloats a(b, x), c(b, y), out(b, x);
        b->run({}, [&] {
          b->multiply(gate, kRows, kWidth, a.get(), kStride, c.get(), kStride, in_place ? a.get() : out.get(), in_place ? kStride : kWidth);
        });
        EXPECT_TRUE(b->sync().is_ok());
        return in_place ? a.to_host() : out.to_host();
      };
      EXPECT_SAME_BITS(run(scalar.get()), run(gpu.get())) << static_cast<int>(gate) << in_place;
    }
  }
}

}  // namespace
}  // namespace kvrt::test
