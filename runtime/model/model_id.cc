#include <algorithm>
#include <atomic>
#include <bit>

#include "runtime/model/model.h"

namespace kvrt {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;  // between two looks at `cancelled`
constexpr uint64_t kSamples = 64, kSampleBytes = 4096;

struct HashJob {
  const GgufFile& file;
  const LoadProgress& progress;
  uint64_t total = 0;
  std::atomic<uint64_t> done{0};
  std::atomic<bool> cancelled{false};

  // Only the caller's own thread (worker 0) runs the callback.
  void report(uint32_t worker) {
    if (worker == 0 && progress && !progress(done.load(), total)) cancelled = true;
  }

  Hash256 hash(const GgufTensor& tensor, uint32_t worker) {
    Hasher hasher;
    const std::span<const uint8_t> bytes = tensor.view.data;
    for (uint64_t at = 0; at < bytes.size() && !cancelled; at += kPieceBytes) {
      const uint64_t n = std::min<uint64_t>(kPieceBytes, bytes.size() - at);
      hasher.add(bytes.subspan(at, n));
      done += n;
      report(worker);
    }
    file.drop_pages(bytes);
    return hasher.finish();
  }
};

void add_rope(const RopeParams& r, Hasher* hasher) {
  hasher->add_u64(static_cast<uint64_t>(r.style)).add_u64(r.dims).add_u64(static_cast<uint64_t>(r.scaling));
  for (const float value : {r.freq_base, r.factor, r.original_context, r.beta_fast, r.beta_slow, r.attention_factor}) {
    hasher->add_u64(std::bit_cast<uint32_t>(value));
  }
  hasher->add_u64(r.frequency_factors.size());
  for (const float value : r.frequency_factors) hasher->add_u64(std::bit_cast<uint32_t>(value));
}

// What every model has.
void add_first_dims(const Arch& arch, const ModelDims& d, Hasher* hasher) {
  hasher->add_string("kvrt model 2").add_string(arch.name);
  for (const uint32_t value : {d.layers, d.width, d.ff, d.heads, d.kv_heads, d.head_dim, d.vocab, d.context, d.experts, d.experts_used}) {
    hasher->add_u64(value);
  }
  for (const float value : {d.norm_eps, d.attention_scale, d.attention_softcap, d.final_softcap, d.embedding_scale}) {
    hasher->add_u64(std::bit_cast<uint32_t>(value));
  }
  hasher->add_u64(d.experts_normalize).add_u64(d.tied_head);
  add_rope(d.rope, hasher);
  add_rope(d.window_rope, hasher);
  for (uint32_t layer = 0; layer < d.layers; ++layer) hasher->add_u64(d.window(layer));
}

bool has_routing(const ModelDims& d) {
  return d.dense_layers > 0 || d.shared_ff > 0 || d.experts_sigmoid || d.experts_scale != 1 || d.expert_groups > 1;
}

// A list's name and its items, if there are any.
template <typename Items, typename Add>
void add_items(const char* name, const Items& items, Hasher* hasher, Add add) {
  if (!items.empty()) hasher->add_string(name);
  for (const auto& item : items) add(item);
}

// What older models lack is added only if it is there: their ids stay.
void add_dims(const Arch& arch, const ModelDims& d, Hasher* hasher) {
  add_first_dims(arch, d, hasher);
  if (d.residual_scale != 1 || d.logit_scale != 1 || d.no_rope_period != 0) {
    hasher->add_string("scales").add_u64(std::bit_cast<uint32_t>(d.residual_scale)).add_u64(std::bit_cast<uint32_t>(d.logit_scale));
    hasher->add_u64(d.no_rope_period);
  }
  if (d.window_rope_alone && std::ranges::count(d.windows, 0u) == std::ssize(d.windows)) hasher->add_string("no rope");
  if (d.temperature.scale != 0) {
    hasher->add_string("temperature").add_u64(std::bit_cast<uint32_t>(d.temperature.scale)).add_u64(d.temperature.length);
  }
  if (d.latent.rank > 0) {
    hasher->add_string("latent");
    for (const uint32_t value : {d.latent.rank, d.latent.rope, d.latent.q_rank, d.latent.nope, d.latent.v}) hasher->add_u64(value);
  }
  if (has_routing(d)) {
    hasher->add_string("routing").add_u64(std::bit_cast<uint32_t>(d.experts_scale));
    for (const uint32_t value : {d.dense_layers, d.dense_ff, d.shared_ff, uint32_t{d.experts_sigmoid}, d.expert_groups, d.groups_used}) {
      hasher->add_u64(value);
    }
  }
  if (!d.mixers.empty()) {
    const RecurrentDims& r = d.recurrent;
    add_items("recurrent", d.mixers, hasher, [&](Mixer mixer) { hasher->add_u64(static_cast<uint64_t>(mixer)); });
    for (const uint32_t value : {r.taps, r.inner, r.heads, r.groups, r.state}) hasher->add_u64(value);
  }
  if (d.shared_kv > 0) hasher->add_string("shared_kv").add_u64(d.shared_kv);
  add_items("ffs", d.ffs, hasher, [&](uint32_t ff) { hasher->add_u64(ff); });
  if (d.per_layer > 0) hasher->add_string("per_layer").add_u64(d.per_layer);
  add_items("blocks", d.blocks, hasher, [&](const LayerBlocks& blocks) { hasher->add_u64(blocks.mixer).add_u64(blocks.mlp); });
  add_items("layer_heads", d.layer_heads, hasher,
            [&](const Heads& heads) { hasher->add_u64(heads.q).add_u64(heads.kv).add_u64(heads.dim); });
}

}  // namespace

// Tensors count by name, not by their place in the file: a file rewritten in another order is the same model.
Result<Hash256> model_id(const GgufFile& file, ThreadPool* pool, const LoadProgress& progress) {
  const Arch* arch = nullptr;
  KVRT_ASSIGN(const ModelDims dims, read_dims(file, &arch));
  std::vector<const GgufTensor*> tensors;
  HashJob job{file, progress};
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back(&tensor);
    job.total += tensor.view.data.size();
  }
  // The largest first, so that no thread is left alone with a long one at the end.
  std::sort(tensors.begin(), tensors.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->view.data.size() != b->view.data.size() ? a->view.data.size() > b->view.data.size() : a->name < b->name;
  });
  std::vector<Hash256> digests(tensors.size());
  const auto hash_one = [&](uint32_t chunk, uint32_t worker) { digests[chunk] = job.hash(*tensors[chunk], worker); };
  const auto count = static_cast<uint32_t>(tensors.size());
  if (pool) {
    pool->parallel_for(count, hash_one);
  } else {
    for (uint32_t i = 0; i < count; ++i) hash_one(i, 0);
  }
  job.report(0);
  if (job.cancelled) return error(Code::kCancelled, Detail::kNone, "%s: hashing was cancelled", file.name().c_str());

  std::vector<uint32_t> by_name(tensors.size());
  for (uint32_t i = 0; i < count; ++i) by_name[i] = i;
  std::sort(by_name.begin(), by_name.end(), [&](uint32_t a, uint32_t b) { return tensors[a]->name < tensors[b]->name; });
  Hasher hasher;
  add_dims(*arch, dims, &hasher);
  hasher.add_u64(count);
  for (const uint32_t i : by_name) {
    const TensorView& view = tensors[i]->view;
    hasher.add_string(tensors[i]->name).add_u64(static_cast<uint64_t>(view.type));
    for (const uint64_t n : view.ne) hasher.add_u64(n);
    hasher.add(digests[i].bytes);
  }
  return hasher.finish();
}

namespace {

// False: the bytes are not one whole file.
bool add_file(const GgufFile& file, const GgufFile::Part& part, Hasher* hasher) {
  const FileIdentity& id = part.identity;
  if (id.inode == 0) return false;
  const std::span<const uint8_t> bytes = part.bytes;
  uint64_t header = bytes.size();
  for (const GgufTensor& tensor : file.tensors()) {
    const uint8_t* at = tensor.view.data.data();
    if (at >= bytes.data() && at < bytes.data() + bytes.size()) header = std::min(header, static_cast<uint64_t>(at - bytes.data()));
  }
  hasher->add_string("kvrt file 2").add_u64(id.inode).add_u64(id.size);
  hasher->add_u64(static_cast<uint64_t>(id.mtime_ns)).add_u64(static_cast<uint64_t>(id.ctime_ns));
  const Checksum128 sum = checksum128(bytes.first(header));
  hasher->add_u64(sum.low).add_u64(sum.high);
  const std::span<const uint8_t> tensors = bytes.subspan(header);
  const bool all = tensors.size() <= kSamples * kSampleBytes;
  if (all) hasher->add(tensors);
  for (uint64_t i = 0; !all && i < kSamples; ++i) {
    const std::span<const uint8_t> sample = tensors.subspan((tensors.size() - kSampleBytes) / (kSamples - 1) * i, kSampleBytes);
    hasher->add(sample);
    file.drop_pages(sample);
  }
  return true;
}

}  // namespace

Hash256 file_id(const GgufFile& file) {
  Hasher hasher;
  for (const GgufFile::Part& part : file.parts()) {
    if (!add_file(file, part, &hasher)) return {};
  }
  return hasher.finish();
}

}  // namespace kvrt
