// Layers with windows, and what such layers have of their own.
#include "runtime/base/limits.h"
#include "runtime/model/arch_keys.h"

namespace kvrt {
namespace {

class WindowReader : public ArchKeys {
 public:
  explicit WindowReader(const ArchKeys& keys) : ArchKeys(keys) {}

  // A window as long as the context is none, but where layers with one differ in more than what they see.
  Status read(ModelDims* dims) const {
    uint32_t window = arch_.window, period = arch_.window_period;
    KVRT_TRY(read_optional_uint("attention.sliding_window", 0, UINT32_MAX, &window));
    dims->window_rope_alone = arch_.window_rope_alone && window > 0;
    if (arch_.layer_kinds) KVRT_TRY(read_uint("attention.sliding_window", 1, UINT32_MAX, &window));
    if (window == 0 || (window >= dims->context && !dims->window_rope_alone && !arch_.layer_kinds)) return Status::ok();
    if (period == 0)
      return unsupported(key("attention.sliding_window"),
                         "found " + std::to_string(window) + ", windows are not known to this architecture");
    const auto flags = file_.get_flags(key(kPattern));  // or the period
    if (!flags) KVRT_TRY(read_optional_uint(kPattern, 1, UINT32_MAX, &period));
    if (flags ? flags->size() != dims->file_blocks : arch_.layer_kinds) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a flag for each of %u layers, found %s",
                   file_.name().c_str(), key(kPattern).c_str(), dims->file_blocks, flags ? std::to_string(flags->size()).c_str() : "none");
    }
    for (uint32_t layer = 0; layer < dims->layers; ++layer) {
      dims->windows.push_back((flags ? (*flags)[layer] : layer % period < period - 1) ? window : 0);
    }
    return arch_.layer_kinds ? read_kinds(dims) : Status::ok();
  }

 private:
  Status read_kinds(ModelDims* dims) const {
    uint32_t v_dim = 0;
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
