// A device in libkvrt_cuda's place: the CPU, with a fault in what is computed under int8 KV. KVRT_TEST_FAULT names it:
//   none        it is the CPU
//   scale:L     layer L's K is stored 2 % too large
//   rotation    the K of one block of each sequence is rotated 32 positions too far
//   swap        attention finds two blocks of each sequence swapped
//   nan:P       what attention gives the rows from position P on is NaN
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "runtime/base/check.h"
#include "tests/support/backend_proxy.h"

namespace {

using namespace kvrt;

enum class Fault { kNone, kScale, kRotation, kSwap, kNan };

struct Planted {
  Fault fault = Fault::kNone;
  uint32_t at = 0;  // of kScale the layer, of kNan the position
};

constexpr float kScale = 1.02f;
constexpr int32_t kBlock = 1, kNext = 2;  // blocks of a sequence: the one that is rotated, and the one that it is swapped with
constexpr double kTurn = 32;              // positions

// Rotates a head on by kTurn positions.
void turn(const RopeParams& rope, const std::vector<double>& frequencies, float* head) {
  const auto pairs = static_cast<uint32_t>(frequencies.size());
  const bool halves = rope.style == RopeStyle::kHalves;
  for (uint32_t i = 0; i < pairs; ++i) {
    float &a = head[halves ? i : 2 * i], &b = head[halves ? i + pairs : 2 * i + 1];
    double sin, cos;
    rope_sincos(kTurn * frequencies[i], &sin, &cos);
    const double x = a, y = b;
    a = static_cast<float>(x * cos - y * sin);
    b = static_cast<float>(x * sin + y * cos);
  }
}

class FaultyBackend final : public test::BackendProxy {
 public:
  FaultyBackend(std::unique_ptr<Backend> cpu, Planted planted) : BackendProxy(cpu.get()), planted_(planted), cpu_(std::move(cpu)) {}

  // Before the right rotation: where no norm stands between, the order of factors and rotations does not matter.
  void rope_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const QkParams& params,
                  uint32_t stride, float* qkv) override {
    float* k = qkv + params.heads * kv.k.dim;
    const uint32_t width = kv.kv_heads * kv.k.dim;
    if (planted(kv, Fault::kScale) && place.layer == planted_.at) {
      KVRT_CHECK(!params.k_norm);
      for (uint32_t i = 0; i < n; ++i, k += stride) std::for_each(k, k + width, [](float& x) { x *= kScale; });
    } else if (planted(kv, Fault::kRotation)) {
      KVRT_CHECK(params.rope && !params.k_norm);
      std::vector<double> frequencies(params.rope->dims / 2);
      rope_frequencies(*params.rope, frequencies.data());
      for (uint32_t i = 0; i < n; ++i, k += stride) {
        if (step.positions[first + i] / static_cast<int32_t>(kv.block_tokens) != kBlock) continue;
        for (uint32_t h = 0; h < kv.kv_heads; ++h) turn(*params.rope, frequencies, k + h * kv.k.dim);
      }
    }
    BackendProxy::rope_store(kv, pool, place, step, first, n, params, stride, qkv);
  }

  // K carries its position: rows behind both blocks find the same in any order. It is rows of the two that see what they should not.
  void attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params, const float* q,
                 uint32_t stride, float* out) override {
    if (!planted(kv, Fault::kSwap)) {
      BackendProxy::attention(kv, pool, place, step, params, q, stride, out);
      return planted(kv, Fault::kNan) ? spoil(kv, step, params, out) : void();
    }
    std::vector<StepSeq> seqs(step.seqs.begin(), step.seqs.end());
    std::vector<std::vector<int32_t>> tables;
    for (StepSeq& seq : seqs) {
      const int64_t end = int64_t{seq.first_position} + seq.n_rows;
      if (end < int64_t{kNext + 1} * kv.block_tokens) continue;  // the second is not there, or has rows that nobody wrote
      std::vector<int32_t>& table = tables.emplace_back(seq.blocks, seq.blocks + uint64_t{step.n_tables} * seq.n_blocks);
      for (uint32_t t = 0; t < step.n_tables; ++t) {
        int32_t* blocks = table.data() + uint64_t{t} * seq.n_blocks;
        std::swap(blocks[kBlock], blocks[kNext]);
      }
      seq.blocks = table.data();
    }
    Step faulty = step;
    faulty.seqs = seqs;
    BackendProxy::attention(kv, pool, place, faulty, params, q, stride, out);
  }

 private:
  void spoil(const KvGeometry& kv, const Step& step, const AttentionParams& params, float* out) const {
    const uint32_t width = params.heads * kv.v.dim;
    for (size_t row = 0; row < step.positions.size(); ++row) {
      if (step.positions[row] >= static_cast<int32_t>(planted_.at)) std::fill_n(out + row * width, width, NAN);
    }
  }
  bool planted(const KvGeometry& kv, Fault fault) const { return planted_.fault == fault && kv.k.format == KvFormat::kI8; }

  const Planted planted_;
  const std::unique_ptr<Backend> cpu_;
};

Result<Planted> planted_of(std::string_view name) {
  constexpr std::string_view kOfLayer = "scale:", kOfPosition = "nan:";
  if (name == "none") return Planted{};
  if (name == "rotation") return Planted{Fault::kRotation};
  if (name == "swap") return Planted{Fault::kSwap};
  for (const auto& [fault, kind] : {std::pair(Fault::kScale, kOfLayer), std::pair(Fault::kNan, kOfPosition)}) {
    Planted planted{fault};
    const char *begin = name.data() + std::min(kind.size(), name.size()), *end = name.data() + name.size();
    if (name.starts_with(kind) && begin < end && std::from_chars(begin, end, planted.at).ptr == end) return planted;
  }
  return error(Code::kUnsupported, Detail::kNone, "KVRT_TEST_FAULT: expected none, scale:LAYER, rotation, swap or nan:POSITION");
}

Result<std::unique_ptr<Backend>> open_faulty(Log* log) {
  const char* name = std::getenv("KVRT_TEST_FAULT");
  KVRT_ASSIGN(const Planted planted, planted_of(name ? name : ""));
  KVRT_ASSIGN(auto cpu, open_cpu({}, log));
  return std::unique_ptr<Backend>(std::make_unique<FaultyBackend>(std::move(cpu), planted));
}

Backend* open(const CudaOptions&, Log* log, Status* status) {
  auto backend = open_faulty(log);
  if (backend.is_ok()) return std::move(backend).value().release();
  *status = backend.take_status();
  return nullptr;
}

Status describe(std::string* text) {
  *text = "0: the CPU, with a fault";
  return {};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const CudaPlugin kvrt_cuda_plugin;
const CudaPlugin kvrt_cuda_plugin = {KVRT_CUDA_PLUGIN_VERSION, open, describe};
