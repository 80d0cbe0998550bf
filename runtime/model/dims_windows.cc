// Layers with windows, and what such layers have of their own.
#include "runtime/base/limits.h"
#include "runtime/model/arch_keys.h"

namespace kvrt {
namespace {

class WindowReader : public ArchKeys {
 public:
  explicit WindowReader(const ArchKeys& keys) : ArchKeys(keys) {}

  Status read(ModelDims* dims) const { return arch_.layer_kinds ? read_kinds(dims) : read_periods(dims); }

 private:
  // A window as long as the context is none.
  Status read_periods(ModelDims* dims) const {
    uint32_t window = arch_.window, period = arch_.window_period;
    KVRT_TRY(read_optional_uint("attention.sliding_window", 0, UINT32_MAX, &window));
    if (window == 0 || window >= dims->context) return Status::ok();
    if (period == 0)
      return unsupported(key("attention.sliding_window"),
                         "found " + std::to_string(window) + ", windows are not known to this architecture");
    if (file_.has(key(kPattern))) {
      const auto given = file_.get_uint(key(kPattern));
      if (!given || (arch_.no_rope_period > 0 && *given != arch_.no_rope_period))
        return unsupported(key(kPattern), given ? "another period than RoPE's" : "only a number is supported");
      KVRT_TRY(read_uint(kPattern, 1, UINT32_MAX, &period));
    }
    for (uint32_t layer = 0; layer < dims->layers; ++layer) dims->windows.push_back(layer % period < period - 1 ? window : 0);
    return Status::ok();
  }

  // Layers with a window differ in more than what they see: it stays a window where the context is no longer.
  Status read_kinds(ModelDims* dims) const {
    uint32_t window = 0, v_dim = 0;
    KVRT_TRY(read_uint("attention.sliding_window", 1, kContextMax, &window));
    const auto flags = file_.get_flags(key(kPattern));
    if (!flags || flags->size() != dims->file_blocks) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a flag for each of %u layers, found %s",
                   file_.name().c_str(), key(kPattern).c_str(), dims->file_blocks,
                   flags                      ? std::to_string(flags->size()).c_str()
                   : file_.has(key(kPattern)) ? "another type"
                                              : "no such key");
    }
    for (uint32_t layer = 0; layer < dims->layers; ++layer) dims->windows.push_back((*flags)[layer] ? window : 0);
    KVRT_TRY(read_uint("attention.key_length_swa", 1, dims->head_dim, &dims->window_head_dim));
    KVRT_TRY(read_uint("attention.value_length_swa", dims->window_head_dim, dims->window_head_dim, &v_dim));
    KVRT_TRY(read_optional_uint("attention.shared_kv_layers", 0, dims->layers - 1, &dims->shared_kv));
    for (uint32_t layer = dims->own_kv(); layer < dims->layers; ++layer) KVRT_TRY(check_shared(*dims, layer));
    return Status::ok();
  }

  Status check_shared(const ModelDims& dims, uint32_t layer) const {
    const uint32_t from = dims.kv_layer(layer);
    const bool found = dims.window(from) == dims.window(layer);
    if (found && dims.layer_heads[from].kv == dims.layer_heads[layer].kv) return Status::ok();
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: layer %u has no K and V, and %s", file_.name().c_str(),
                 key("attention.shared_kv_layers").c_str(), layer,
                 found ? "another count of KV heads than those it reads" : "no layer of its kind before it has any");
  }

  static constexpr const char* kPattern = "attention.sliding_window_pattern";
};

}  // namespace

Status read_windows(const ArchKeys& keys, ModelDims* dims) { return WindowReader(keys).read(dims); }

}  // namespace kvrt
