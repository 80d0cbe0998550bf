// The recurrent layers of a model, as a file's keys have them.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/model/arch_keys.h"

namespace kvrt {
namespace {

constexpr uint32_t kTapsMax = 16, kItemAlign = 64;  // bytes
constexpr uint32_t kAttentionEvery = 4;             // where the file says nothing

class RecurrentReader : public ArchKeys {
 public:
  explicit RecurrentReader(const ArchKeys& keys) : ArchKeys(keys) {}

  // A mixer begins a layer, an MLP completes it.
  Status read_blocks(ModelDims* dims) const {
    const auto ff = file_.get_ints(key("feed_forward_length"));
    if (!ff || ff->size() != dims->file_blocks) {
      const std::string found = ff ? std::to_string(ff->size()) : file_.found(key("feed_forward_length"));
      return unsupported(key("feed_forward_length"),
                         "expected an array with a number for each of " + std::to_string(dims->file_blocks) + " blocks, found " + found);
    }
    for (uint32_t block = 0; block < dims->file_blocks - dims->draft_blocks; ++block) {
      const int64_t width = (*ff)[block];
      if (width == 0) {
        dims->blocks.push_back({block, LayerBlocks::kNone});
        continue;
      }
      const bool known = dims->ff == 0 || width == dims->ff;
      if (width < 0 || width > kWidthMax || !known || dims->blocks.empty() || dims->blocks.back().mlp != LayerBlocks::kNone) {
        return error(Code::kUnsupported, Detail::kNone,
                     "%s: metadata key %s: expected MLPs of one width, each behind a mixer, found %lld in block %u", file_.name().c_str(),
                     key("feed_forward_length").c_str(), static_cast<long long>(width), block);
      }
      dims->ff = static_cast<uint32_t>(width);
      dims->blocks.back().mlp = block;
    }
    dims->layers = static_cast<uint32_t>(dims->blocks.size());
    if (dims->ff == 0) return unsupported(key("feed_forward_length"), "no block is an MLP, which is not supported");
    return Status::ok();
  }

  Status read(std::span<const uint32_t> kv_heads, ModelDims* dims) const {
    if (arch_.recurrent == Mixer::kAttention) return Status::ok();
    std::vector<bool> recurrent;
    for (const uint32_t n : kv_heads) recurrent.push_back(n == 0);
    const char* name = "attention.head_count_kv";
    if (arch_.recurrent == Mixer::kDelta) KVRT_TRY(read_layers(*dims, &name, &recurrent));
    const auto count = static_cast<size_t>(std::ranges::count(recurrent, true));
    if (count == 0) return Status::ok();
    if (count == recurrent.size()) return unsupported(key(name), "no layer has attention, which is not supported");
    for (const bool layer : recurrent) dims->mixers.push_back(layer ? arch_.recurrent : Mixer::kAttention);
    return arch_.recurrent == Mixer::kConv ? read_conv(dims) : read_heads(dims);
  }

 private:
  // An array of flags, or of so many layers the last has attention.
  Status read_layers(const ModelDims& dims, const char** name, std::vector<bool>* recurrent) const {
    *name = "attention.recurrent_layers";
    if (file_.has(key(*name))) {
      const auto flags = file_.get_flags(key(*name));
      if (!flags || flags->size() != dims.file_blocks) {
        const std::string found = flags ? std::to_string(flags->size()) : file_.found(key(*name));
        return unsupported(key(*name),
                           "expected an array with a flag for each of " + std::to_string(dims.file_blocks) + " layers, found " + found);
      }
      recurrent->assign(flags->begin(), flags->begin() + dims.layers);
      return Status::ok();
    }
    *name = "full_attention_interval";
    uint32_t every = kAttentionEvery;
    KVRT_TRY(read_optional_uint(*name, 1, UINT32_MAX, &every));
    for (size_t i = 0; i < recurrent->size(); ++i) (*recurrent)[i] = (i + 1) % every != 0;
    return Status::ok();
  }

  Status read_conv(ModelDims* dims) const {
    KVRT_TRY(read_uint("shortconv.l_cache", 2, kTapsMax, &dims->recurrent.taps));
    dims->recurrent.inner = dims->width;
    return check_items(dims->recurrent, "embedding_length");
  }

  Status read_heads(ModelDims* dims) const {
    RecurrentDims& r = dims->recurrent;
    r.tiled = arch_.tiled_heads;
    KVRT_TRY(read_uint("ssm.conv_kernel", 2, kTapsMax, &r.taps));
    KVRT_TRY(read_uint("ssm.inner_size", 1, kWidthMax, &r.inner));
    KVRT_TRY(read_uint("ssm.state_size", 1, kHeadDimMax, &r.state));
    KVRT_TRY(read_uint("ssm.time_step_rank", 1, kHeadsMax, &r.heads));
    KVRT_TRY(read_uint("ssm.group_count", 1, kHeadsMax, &r.groups));
    KVRT_TRY(check_divisor("ssm.time_step_rank", r.heads, "ssm.inner_size", r.inner));
    KVRT_TRY(check_divisor("ssm.group_count", r.groups, "ssm.time_step_rank", r.heads));
    if (r.head_dim() > kHeadDimMax) {
      return error(Code::kLimit, Detail::kNone, "%s: metadata key %s: heads have %u dimensions, the limit is %u", file_.name().c_str(),
                   key("ssm.inner_size").c_str(), r.head_dim(), kHeadDimMax);
    }
    return check_items(r, r.inner % (kItemAlign / sizeof(float)) ? "ssm.inner_size" : "ssm.state_size");
  }

  Status check_divisor(const char* name, uint32_t found, const char* of_name, uint32_t of) const {
    if (of % found == 0) return Status::ok();
    return error(Code::kUnsupported, Detail::kNone, "%s: metadata key %s: expected a divisor of %s, which is %u, found %u",
                 file_.name().c_str(), key(name).c_str(), key(of_name).c_str(), of, found);
  }

  // A state lies in the pool in items of whole cache lines.
  Status check_items(const RecurrentDims& r, const char* name) const {
    const StateNeed need = r.need();
    if (need.inputs().bytes % kItemAlign == 0 && need.head_bytes % kItemAlign == 0) return Status::ok();
    return error(
        Code::kUnsupported, Detail::kNone,
        "%s: metadata key %s: expected channels of the convolution, and heads of states, in parts of %u bytes, found %u channels and "
        "heads of %u bytes",
        file_.name().c_str(), key(name).c_str(), kItemAlign, need.channels, need.head_bytes);
  }
};

}  // namespace

Status read_blocks(const ArchKeys& keys, ModelDims* dims) { return RecurrentReader(keys).read_blocks(dims); }

Status read_recurrent(const ArchKeys& keys, std::span<const uint32_t> kv_heads, ModelDims* dims) {
  return RecurrentReader(keys).read(kv_heads, dims);
}

}  // namespace kvrt
