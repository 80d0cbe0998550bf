// bench_cuda: matrix products at the shapes of Llama 3 8B. Few rows (matvec) read the weights once and are held against the copy rate; many
// rows (gemm) are held against the largest product that cuBLASLt makes here.
#include "cuda/backend/device_context.h"
#include "cuda/backend/gemm_library.h"
#include "runtime/base/limits.h"
#include "tests/bench/bench_cuda.h"

#ifdef KVRT_CUDA_EMULATION
#include "tests/cuda/cublaslt_stand_in.h"
#endif

namespace kvrt::bench {
namespace {

struct Shape {
  const char* name;
  uint32_t rows, cols;
  bool act;  // gate and up: the kernel that multiplies them
};
constexpr Shape kShapes[] = {{"qkv", 6144, 4096, false},
                             {"out", 4096, 4096, false},
                             {"gate_up", 28672, 4096, true},
                             {"down", 4096, 14336, false},
                             {"head", 128256, 4096, false}};
constexpr Shape kTried[] = {{"out", 48, 256, false}, {"gate_up", 64, 256, true}};

std::span<const Shape> shapes(const Device& device) {
  return device.smoke ? std::span<const Shape>(kTried) : std::span<const Shape>(kShapes);
}

// Rows of x as matvec reads them: as they are where it wants them so, else quantized before, by a kernel that is not counted.
struct Rows {
  Memory x, q, d, s, sums, out;
  cuda::MatvecInput input;

  Rows(Device* device, const Shape& shape, const cuda::DeviceWeight& weight, uint32_t n)
      : x(random_floats(uint64_t{n} * shape.cols, n)),
        q(uint64_t{cuda::quant_room(n)} * shape.cols),
        d(uint64_t{cuda::quant_room(n)} * shape.cols / 8),
        s(uint64_t{cuda::quant_room(n)} * shape.cols / 8),
        sums(uint64_t{cuda::quant_room(n)} * shape.cols / 8),
        out(uint64_t{n} * shape.rows * sizeof(float)) {
    input = {x.as<float>(), {}, n};
    if (cuda::matvec_takes_rows(weight, n)) return;
    input.quantized = {q.as<int8_t>(), d.as<float>(), s.as<float>(), sums.as<int16_t>()};
    cuda::quantize_rows(&device->stream, input.plain, nullptr, 0, n, shape.cols, input.quantized);
    device->finish();
  }
};

void measure_matvec(Device* device, const Shape& shape, DType type, const Weights& weights, uint32_t turns, uint32_t n) {
  const Rows rows(device, shape, weights.view(0), n);
  const auto queue = [&](uint32_t turn) {
    if (shape.act) {
      cuda::matvec_act(&device->stream, weights.view(turn, {shape.rows / 2, shape.rows / 2}), cuda::DeviceActivation::kSilu, rows.input,
                       rows.out.as<float>());
    } else {
      cuda::matvec(&device->stream, weights.view(turn), nullptr, rows.input, false, rows.out.as<float>());
    }
  };
  const Timed timed = device->time(turns, queue);
  const double rate = static_cast<double>(weights.bytes()) / timed.us / 1e3;
  Line line("matvec");
  line.add("type", type_name(type)).add("shape", shape.name).add("rows", shape.rows).add("cols", shape.cols).add("n", n);
  line.add("quantizes", rows.input.quantized.q == nullptr && type != DType::kF16);
  line.add("us", timed.us).add("gb_s", rate).add("of_copy", rate / device->copy_gb_s).add("spread", timed.spread);
  if (n != 1 || !device->stream.overlap) return;
  device->stream.overlap = false;  // each launch waits for the one before
  const Timed apart = device->time(turns, queue);
  device->stream.overlap = true;
  line.add("gb_s_apart", static_cast<double>(weights.bytes()) / apart.us / 1e3);
}

// ---- gemm

double tflop_s(double rows, double cols, double n, double us) { return 2 * rows * cols * n / us / 1e6; }

struct Library {
  std::unique_ptr<cuda::DeviceContext> context;
  std::unique_ptr<cuda::GemmLibrary> fixed, fastest;  // as the backend uses it; the fastest for the rows
};

Library open_library() {
  Library out;
#ifdef KVRT_CUDA_EMULATION
  Result<cuda::CublasLt> functions = test::cublaslt_stand_in();
#else
  auto functions = cuda::load_cublaslt();
#endif
  if (!functions.is_ok()) {
    Line("gemm").add("by", "cublaslt").add("skipped", functions.status().message());
    return out;
  }
  out.context = must(cuda::DeviceContext::open(0));
  out.fixed = must(cuda::GemmLibrary::open(*functions, out.context.get(), /*nondeterministic=*/false));
  out.fastest = must(cuda::GemmLibrary::open(*functions, out.context.get(), /*nondeterministic=*/true));
  Line("gemm").add("by", "cublaslt").add("version", out.fixed->version());
  return out;
}

// f16 to f32, 8192 cubed: the most that matrices get here. 0: no library.
double ceiling(Device* device, const Library& library) {
  if (!library.fastest) return 0;
  const uint32_t size = device->size(8192u, 64u);
  const std::vector<uint8_t> some = random_halves(1 << 22, -7, 1);
  const Memory w(2ull * size * size, some), x(2ull * size * size, std::span(some).first(some.size() / 2)), out(4ull * size * size);
  bool done = true;
  const Timed timed = device->time(1, [&](uint32_t) {
    done &= must(library.fastest->gemm(w.as<uint16_t>(), size, size, x.as<uint16_t>(), size, nullptr, false, out.as<float>(),
                                       device->stream.handle));
  });
  const double found = done ? tflop_s(size, size, size, timed.us) : 0;
  Line("gemm").add("by", "cublaslt").add("shape", std::to_string(size) + " cubed").add("tflop_s", found).add("spread", timed.spread);
  return found;
}

// Prints a line for a way to make n rows in steps.
using MeasureGemm = std::function<void(const char* by, const std::function<void(uint32_t turn, uint32_t first)>& queue)>;

// The product alone, and as the backend does it: x and the weight made e4m3, the product, their scales.
void measure_fp8(Device* device, const Shape& shape, const Weights& weights, cuda::GemmLibrary* library, uint32_t n, uint32_t step,
                 const Memory& out, const MeasureGemm& line) {
  if (!library->takes_e4m3(shape.rows, shape.cols, step)) {
    Line("gemm").add("by", "cublaslt e4m3").add("shape", shape.name).add("skipped", "the device or the library has no such product");
    return;
  }
  const std::vector<float> some = random_floats(uint64_t{step} * shape.cols, n);
  const Memory x(some), x8(some.size()), w8(uint64_t{shape.rows} * shape.cols), scales(4ull * (shape.rows + step));
  auto *w_scales = scales.as<float>(), *x_scales = w_scales + shape.rows;
  bool done = true;
  const auto make_x = [&] { cuda::e4m3_rows(&device->stream, x.as<float>(), nullptr, 0, step, shape.cols, x8.as<uint8_t>(), x_scales); };
  const auto make_w = [&](uint32_t turn) { cuda::dequantize_e4m3(&device->stream, weights.view(turn), w8.as<uint8_t>(), w_scales); };
  const auto multiply = [&](uint32_t first) {
    done &= must(library->gemm_e4m3(w8.as<uint8_t>(), shape.rows, shape.cols, x8.as<uint8_t>(), step,
                                    out.as<float>() + uint64_t{first} * shape.rows, device->stream.handle));
  };
  make_x();
  make_w(0);
  line("cublaslt e4m3", [&](uint32_t, uint32_t first) { multiply(first); });
  line("e4m3, cublaslt and scales", [&](uint32_t turn, uint32_t first) {
    make_x();
    make_w(turn);
    multiply(first);
    float* products = out.as<float>() + uint64_t{first} * shape.rows;
    cuda::scale_products(&device->stream, products, x_scales, w_scales, nullptr, step, shape.rows, /*accumulate=*/false, products);
  });
  if (!done) fail("cuBLASLt refused a product of e4m3");
}

// n rows, in steps as the runtime takes them.
void measure_gemm(Device* device, const Shape& shape, DType type, const Library& library, double most, uint32_t n) {
  const uint32_t step = std::min(n, device->size(kStepRowsMax, 32u));
  const uint32_t turns = std::min(4u, device->turns_for(Weights::bytes_of(type, shape.rows, shape.cols)));
  const Weights weights(type, shape.rows, shape.cols, turns);
  const std::vector<uint8_t> halves = random_halves(uint64_t{n} * shape.cols, -1, n);
  const Memory x(halves.size(), halves), out(uint64_t{n} * shape.rows * sizeof(float));
  const Memory dequantized(library.fixed ? 2ull * shape.rows * shape.cols : 16);
  const MeasureGemm line = [&](const char* by, const std::function<void(uint32_t turn, uint32_t first)>& queue) {
    const Timed timed = device->time(turns, [&](uint32_t turn) {
      for (uint32_t first = 0; first < n; first += step) queue(turn, first);
    });
    const double found = tflop_s(shape.rows, shape.cols, n, timed.us);
    Line out_line("gemm");
    out_line.add("by", by).add("type", type_name(type)).add("shape", shape.name).add("n", n).add("step", step);
    out_line.add("us", timed.us).add("gb_s", static_cast<double>(weights.bytes()) * ((n + step - 1) / step) / timed.us / 1e3);
    out_line.add("tflop_s", found).add("spread", timed.spread);
    if (most > 0) out_line.add("of_ceiling", found / most);
  };
  const auto rows_from = [&](uint32_t first) { return x.as<uint16_t>() + uint64_t{first} * shape.cols; };
  const auto out_from = [&](uint32_t first) { return out.as<float>() + uint64_t{first} * shape.rows; };
  line("kvrt", [&](uint32_t turn, uint32_t first) {
    cuda::gemm(&device->stream, weights.view(turn), nullptr, rows_from(first), step, false, out_from(first));
  });
  if (!library.fixed) return;
  bool done = true;
  const auto by_library = [&](uint32_t first) {
    done &= must(library.fixed->gemm(dequantized.as<uint16_t>(), shape.rows, shape.cols, rows_from(first), step, nullptr, false,
                                     out_from(first), device->stream.handle));
  };
  cuda::dequantize_f16(&device->stream, weights.view(0), dequantized.as<uint16_t>());
  line("cublaslt", [&](uint32_t, uint32_t first) { by_library(first); });
  line("dequantize and cublaslt", [&](uint32_t turn, uint32_t first) {
    cuda::dequantize_f16(&device->stream, weights.view(turn), dequantized.as<uint16_t>());
    by_library(first);
  });
  if (!done) fail("cuBLASLt refused a product");
  measure_fp8(device, shape, weights, library.fixed.get(), n, step, out, line);
}

}  // namespace

void bench_matvec(Device* device) {
  for (const DType type : {DType::kF16, DType::kQ8_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K}) {
    for (const Shape& shape : shapes(*device)) {
      const uint32_t turns = device->turns_for(Weights::bytes_of(type, shape.rows, shape.cols));
      const Weights weights(type, shape.rows, shape.cols, turns);
      if (device->smoke) {
        measure_matvec(device, shape, type, weights, turns, 3);
        continue;
      }
      for (const uint32_t n : {1u, 2u, 4u, 8u, 16u}) measure_matvec(device, shape, type, weights, turns, n);
    }
  }
}

void bench_gemm(Device* device) {
  const Library library = open_library();
  const double most = ceiling(device, library);
  for (const DType type : {DType::kF16, DType::kQ8_0, DType::kQ4_K}) {
    for (const Shape& shape : shapes(*device)) {
      if (shape.rows > 100'000) continue;  // a prompt needs no logits but the last
      const std::vector<uint32_t> prompts = device->smoke ? std::vector{17u, 32u, 64u} : std::vector{17u, 32u, 64u, 128u, 512u, 2048u};
      for (const uint32_t n : prompts) measure_gemm(device, shape, type, library, most, n);
    }
  }
}

}  // namespace kvrt::bench
