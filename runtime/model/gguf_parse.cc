#include "runtime/model/gguf_parse.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {
namespace {

constexpr uint64_t kPairBytesMin = 8 + 1 + 4 + 1;        // key length, key, type, smallest value
constexpr uint64_t kTensorBytesMin = 8 + 1 + 4 + 4 + 8;  // name length, name, dims, type, offset
constexpr uint64_t kDefaultAlignment = 32;

using Ull = unsigned long long;

// A key or a tensor's name is printed in messages and compared: printable, non-empty, of bounded length.
bool is_name(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

std::string_view as_text(std::span<const uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

int width(std::string_view s) { return static_cast<int>(std::min<size_t>(s.size(), 200)); }

// 97000000 as 97,000,000.
std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

// The bytes with which a file of another kind begins, as text where they are, and what it is.
std::string found_instead(std::string_view text) {
  if (text.starts_with("version https://git-lfs")) return "a Git LFS pointer, which stands for the file";
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html")) return "a web page";
  std::string hex;
  char byte[4];
  text = text.substr(0, 4);
  for (const char c : text) hex.append(byte, static_cast<size_t>(std::snprintf(byte, sizeof byte, "%02x ", static_cast<unsigned char>(c))));
  const bool shows = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
  if (shows) return hex + "(" + std::string(text) + ")";
  hex.pop_back();
  return hex;
}

// Walks the file once, forward. Every step either fits in the rest of the file or returns a Status that says where it stopped.
class Parser {
 public:
  Parser(std::span<const uint8_t> bytes, const std::string& name) : bytes_(bytes), in_(bytes), name_(name) {}

  Status parse(GgufDirectory* out) {
    uint64_t n_tensors = 0, n_pairs = 0;
    KVRT_TRY(read_header(&n_tensors, &n_pairs));
    KVRT_TRY(read_pairs(n_pairs, out));
    KVRT_TRY(read_alignment(*out));
    out->tensor_info_offset = in_.position();
    KVRT_TRY(read_tensor_infos(n_tensors, out));
    return place_tensors(out);
  }

 private:
  // "path: what at byte N: ..."
  [[gnu::format(printf, 4, 5)]] Status fail(Code code, uint64_t at, const char* format, ...) const {
    char text[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error(code, code == Code::kCorrupt ? Detail::kFormat : Detail::kNone, "%s: at byte %llu: %s", name_.c_str(), Ull{at}, text);
  }

  // The bytes so far are sound, and more should follow: a download that ended early, or goes on.
  Status incomplete(uint64_t bytes, const char* at_least) const {
    return error(Code::kCorrupt, Detail::kFormat, "%s: incomplete: %s bytes expected%s, %s found; download it again", name_.c_str(),
                 grouped(bytes).c_str(), at_least, grouped(bytes_.size()).c_str());
  }
  // The header is cut, so the bytes that its rest asks for are not known.
  Status truncated(uint64_t need) const { return incomplete(in_.position() + need, " at least"); }

  template <typename T>
  Status read(T* out) {
    return in_.read(out) ? Status::ok() : truncated(sizeof(T));
  }

  Status read_string(const char* what, uint64_t bytes_max, std::string_view* out) {
    const uint64_t at = in_.position();
    uint64_t length = 0;
    KVRT_TRY(read(&length));
    std::span<const uint8_t> bytes;
    if (length > in_.remaining() && length > bytes_max) {
      return fail(Code::kCorrupt, at, "%s has %llu bytes, %llu follow", what, Ull{length}, Ull{in_.remaining()});
    }
    if (length > in_.remaining()) return truncated(length);
    if (length > bytes_max) {
      return fail(Code::kLimit, at, "%s has %llu bytes, the limit is %llu", what, Ull{length}, Ull{bytes_max});
    }
    in_.read_bytes(length, &bytes);
    *out = as_text(bytes);
    return Status::ok();
  }

  Status read_header(uint64_t* n_tensors, uint64_t* n_pairs) {
    uint32_t magic = 0, version = 0;
    if (bytes_.empty()) return error(Code::kCorrupt, Detail::kFormat, "%s: the file is empty, expected a GGUF file", name_.c_str());
    if (bytes_.size() < 4 || !in_.read(&magic) || magic != 0x46554747) {
      return fail(Code::kCorrupt, 0, "not a GGUF file: expected 47 47 55 46 (GGUF), found %s", found_instead(as_text(bytes_)).c_str());
    }
    KVRT_TRY(read(&version));
    if ((version & 0xffff) == 0 && version != 0) return fail(Code::kUnsupported, 4, "a big-endian GGUF file is not supported");
    if (version != 2 && version != 3) return fail(Code::kUnsupported, 4, "GGUF version %u is not supported, expected 2 or 3", version);
    KVRT_TRY(read_count("tensors", kGgufTensorsMax, n_tensors));
    KVRT_TRY(read_count("metadata pairs", kGgufPairsMax, n_pairs));
    KVRT_TRY(check_fits("tensors", 8, *n_tensors, kTensorBytesMin, kGgufTensorsMax));
    return check_fits("metadata pairs", 16, *n_pairs, kPairBytesMin, kGgufPairsMax);
  }

  Status read_count(const char* what, uint64_t max, uint64_t* out) {
    const uint64_t at = in_.position();
    KVRT_TRY(read(out));
    if (*out > max) return fail(Code::kLimit, at, "%llu %s, the limit is %llu", Ull{*out}, what, Ull{max});
    return Status::ok();
  }

  // A declared count must fit in the bytes that are left before anything is allocated for it. One that no file may have is damage.
  Status check_fits(const char* what, uint64_t at, uint64_t count, uint64_t bytes_min, uint64_t count_max) const {
    uint64_t need = 0;
    if ((CheckedSize(count) * bytes_min).get(in_.remaining(), &need)) return Status::ok();
    if (count <= count_max) return truncated(count * bytes_min);
    return fail(Code::kCorrupt, at, "%llu %s cannot fit in the %llu bytes that follow", Ull{count}, what, Ull{in_.remaining()});
  }

  Status read_pairs(uint64_t count, GgufDirectory* out) {
    out->pairs.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      GgufPair pair;
      const uint64_t at = in_.position();
      KVRT_TRY(read_string("a metadata key", kGgufKeyBytesMax, &pair.key));
      if (!is_name(pair.key)) return fail(Code::kCorrupt, at, "metadata key %llu is empty or not printable", Ull{i});
      KVRT_TRY(read_type(pair.key, &pair.type));
      const uint64_t value_at = in_.position();
      if (pair.type == GgufType::kArray) {
        KVRT_TRY(read_array(&pair));
      } else {
        KVRT_TRY(read_values(&pair));
        pair.value = bytes_.subspan(value_at, in_.position() - value_at);
      }
      out->pairs.push_back(pair);
    }
    std::sort(out->pairs.begin(), out->pairs.end(), [](const GgufPair& a, const GgufPair& b) { return a.key < b.key; });
    for (size_t i = 1; i < out->pairs.size(); ++i) {
      const std::string_view key = out->pairs[i].key;
      if (key != out->pairs[i - 1].key) continue;
      const uint64_t at = static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(key.data()) - bytes_.data());
      return fail(Code::kCorrupt, at, "metadata key %.*s appears twice", width(key), key.data());
    }
    return Status::ok();
  }

  Status read_type(std::string_view key, GgufType* out) {
    const uint64_t at = in_.position();
    uint32_t type = 0;
    KVRT_TRY(read(&type));
    if (type > static_cast<uint32_t>(GgufType::kF64)) {
      return fail(Code::kCorrupt, at, "metadata key %.*s: unknown type %u, expected 0 to 12", width(key), key.data(), type);
    }
    *out = static_cast<GgufType>(type);
    return Status::ok();
  }

  Status read_array(GgufPair* pair) {
    KVRT_TRY(read_type(pair->key, &pair->elem_type));
    const uint64_t at = in_.position();
    KVRT_TRY(read(&pair->count));
    if (pair->elem_type == GgufType::kArray) {
      return fail(Code::kUnsupported, at, "metadata key %.*s: an array of arrays is not supported", width(pair->key), pair->key.data());
    }
    const uint64_t elem_bytes_min = pair->elem_type == GgufType::kString ? 8 : gguf_scalar_bytes(pair->elem_type);
    KVRT_TRY(check_fits("array elements", at, pair->count, elem_bytes_min, kGgufArrayLengthMax));
    if (pair->count > kGgufArrayLengthMax) {
      return fail(Code::kLimit, at, "metadata key %.*s: an array of %llu elements, the limit is %llu", width(pair->key), pair->key.data(),
                  Ull{pair->count}, Ull{kGgufArrayLengthMax});
    }
    const uint64_t value_at = in_.position();
    KVRT_TRY(read_values(pair));
    pair->value = bytes_.subspan(value_at, in_.position() - value_at);
    return Status::ok();
  }

  // Moves past pair->count values, checking each one's extent and, for bools, its value.
  Status read_values(GgufPair* pair) {
    const GgufType type = pair->type == GgufType::kArray ? pair->elem_type : pair->type;
    if (type == GgufType::kString) {
      std::string_view ignored;
      for (uint64_t i = 0; i < pair->count; ++i) KVRT_TRY(read_string("a metadata string", kGgufStringBytesMax, &ignored));
      return Status::ok();
    }
    const uint64_t at = in_.position(), bytes = pair->count * gguf_scalar_bytes(type);  // count was checked against the file
    std::span<const uint8_t> values;
    if (!in_.read_bytes(bytes, &values)) return truncated(bytes);
    if (type == GgufType::kBool) {
      auto bad = std::find_if(values.begin(), values.end(), [](uint8_t b) { return b > 1; });
      if (bad != values.end()) {
        return fail(Code::kCorrupt, at + static_cast<uint64_t>(bad - values.begin()), "metadata key %.*s: a bool is 0 or 1, found %u",
                    width(pair->key), pair->key.data(), *bad);
      }
    }
    return Status::ok();
  }

  Status read_alignment(const GgufDirectory& directory) {
    const GgufPair* pair = find_pair(directory, "general.alignment");
    if (!pair) return Status::ok();
    const uint64_t at = static_cast<uint64_t>(pair->value.data() - bytes_.data());
    if (pair->type != GgufType::kU32) {
      return fail(Code::kCorrupt, at, "general.alignment: expected u32, found %s", gguf_type_name(pair->type));
    }
    uint32_t value = 0;
    std::memcpy(&value, pair->value.data(), sizeof value);
    if (value < 8 || (value & (value - 1))) {
      return fail(Code::kCorrupt, at, "general.alignment: expected a power of two from 8 on, found %u", value);
    }
    if (value > kGgufAlignmentMax) {
      return fail(Code::kLimit, at, "general.alignment is %u, the limit is %llu", value, Ull{kGgufAlignmentMax});
    }
    alignment_ = value;
    return Status::ok();
  }

  Status read_tensor_infos(uint64_t count, GgufDirectory* out) {
    KVRT_TRY(check_fits("tensors", in_.position(), count, kTensorBytesMin, kGgufTensorsMax));
    out->tensors.reserve(count);
    extents_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = in_.position();
      std::string_view tensor_name;
      KVRT_TRY(read_string("a tensor's name", kGgufKeyBytesMax, &tensor_name));
      if (!is_name(tensor_name)) return fail(Code::kCorrupt, at, "the name of tensor %llu is empty or not printable", Ull{i});
      GgufTensor& tensor = out->tensors.emplace_back();
      tensor.name = tensor_name;
      KVRT_TRY(read_shape(&tensor));
    }
    std::vector<uint32_t>& order = out->tensors_by_name;
    order.resize(count);
    for (uint32_t i = 0; i < count; ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return out->tensors[a].name < out->tensors[b].name; });
    for (size_t i = 1; i < order.size(); ++i) {
      const std::string& again = out->tensors[order[i]].name;
      if (again == out->tensors[order[i - 1]].name) {
        return fail(Code::kCorrupt, out->tensor_info_offset, "tensor %.*s appears twice", width(again), again.c_str());
      }
    }
    return Status::ok();
  }

  // Dimensions, type and offset of one tensor; its size in bytes, overflow-checked.
  Status read_shape(GgufTensor* tensor) {
    const std::string& n = tensor->name;
    uint64_t at = in_.position();
    uint32_t n_dims = 0, type_id = 0;
    KVRT_TRY(read(&n_dims));
    if (n_dims > kGgufDimsMax) {
      return fail(Code::kCorrupt, at, "tensor %.*s: expected at most %u dimensions, found %u", width(n), n.c_str(), kGgufDimsMax, n_dims);
    }
    for (uint32_t d = 0; d < n_dims; ++d) {
      KVRT_TRY(read(&tensor->view.ne[d]));
      if (tensor->view.ne[d] == 0) return fail(Code::kCorrupt, at, "tensor %.*s: dimension %u is 0", width(n), n.c_str(), d);
    }
    const uint64_t type_at = in_.position();
    KVRT_TRY(read(&type_id));
    const GgmlType* type = find_ggml_type(type_id);
    if (!type) {
      return fail(Code::kUnsupported, type_at, "tensor %.*s: unknown tensor type %u; the last known one is %u (%s)", width(n), n.c_str(),
                  type_id, last_ggml_type().id, last_ggml_type().name);
    }
    tensor->view.type = static_cast<DType>(type_id);
    const auto& ne = tensor->view.ne;
    if (ne[0] % type->block_elems != 0) {
      return fail(Code::kCorrupt, at, "tensor %.*s: a row of %s is a multiple of %u elements, found %llu", width(n), n.c_str(), type->name,
                  type->block_elems, Ull{ne[0]});
    }
    Extent extent{0, 0, static_cast<uint32_t>(extents_.size()), in_.position()};
    KVRT_TRY(read(&extent.offset));
    if (extent.offset % alignment_ != 0) {
      return fail(Code::kCorrupt, extent.at, "tensor %.*s: expected an offset aligned to %llu, found %llu", width(n), n.c_str(),
                  Ull{alignment_}, Ull{extent.offset});
    }
    const CheckedSize elements = CheckedSize(ne[0]) * ne[1] * ne[2] * ne[3];
    const CheckedSize size = CheckedSize(ne[0] / type->block_elems) * type->block_bytes * ne[1] * ne[2] * ne[3];
    if (!elements.ok() || !size.get(UINT64_MAX, &extent.bytes)) {
      return fail(Code::kCorrupt, at, "tensor %.*s: %s [%llu, %llu, %llu, %llu] is larger than the file (%llu bytes)", width(n), n.c_str(),
                  type->name, Ull{ne[0]}, Ull{ne[1]}, Ull{ne[2]}, Ull{ne[3]}, Ull{bytes_.size()});
    }
    extents_.push_back(extent);
    return Status::ok();
  }

  // The tensor data starts at the next aligned byte. Each tensor starts where another ends, as every writer does it: so a damaged type,
  // shape or offset shows as a gap or an overlap. Where there is none, a file that ends too early is the beginning of a whole one.
  Status place_tensors(GgufDirectory* out) {
    out->data_offset = (in_.position() + alignment_ - 1) / alignment_ * alignment_;
    std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
    uint64_t expected = 0, end = 0;
    for (const Extent& extent : extents_) {
      const std::string& n = out->tensors[extent.index].name;
      if (extent.offset != expected) {
        return fail(Code::kCorrupt, extent.at, "tensor %.*s: expected offset %llu, where the tensor before it ends, found %llu", width(n),
                    n.c_str(), Ull{expected}, Ull{extent.offset});
      }
      const CheckedSize ends = CheckedSize(extent.offset) + extent.bytes;
      if (!ends.align(alignment_).get(UINT64_MAX, &expected) || !(ends + out->data_offset).get(UINT64_MAX, &end)) {
        return fail(Code::kCorrupt, extent.at, "tensor %.*s: %llu bytes at offset %llu are larger than the file", width(n), n.c_str(),
                    Ull{extent.bytes}, Ull{extent.offset});
      }
    }
    if (end > bytes_.size()) return incomplete(end, "");
    for (const Extent& extent : extents_) {
      out->tensors[extent.index].view.data = bytes_.subspan(out->data_offset + extent.offset, extent.bytes);
    }
    return Status::ok();
  }

  struct Extent {
    uint64_t offset, bytes;  // in the data section
    uint32_t index;          // the tensor's
    uint64_t at;             // the place in the file that says so
  };

  const std::span<const uint8_t> bytes_;
  ByteReader in_;
  const std::string& name_;
  uint64_t alignment_ = kDefaultAlignment;
  std::vector<Extent> extents_;
};

}  // namespace

Result<GgufDirectory> parse_gguf(std::span<const uint8_t> bytes, const std::string& name) {
  GgufDirectory directory;
  KVRT_TRY(Parser(bytes, name).parse(&directory));
  return directory;
}

const GgufPair* find_pair(const GgufDirectory& directory, std::string_view key) {
  const auto& pairs = directory.pairs;
  auto at = std::lower_bound(pairs.begin(), pairs.end(), key, [](const GgufPair& pair, std::string_view k) { return pair.key < k; });
  return at != pairs.end() && at->key == key ? &*at : nullptr;
}

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

uint32_t gguf_scalar_bytes(GgufType type) {
  static constexpr uint32_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

std::optional<int64_t> gguf_int(GgufType type, const uint8_t* p) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(p);
    case GgufType::kI8:
      return load<int8_t>(p);
    case GgufType::kU16:
      return load<uint16_t>(p);
    case GgufType::kI16:
      return load<int16_t>(p);
    case GgufType::kU32:
      return load<uint32_t>(p);
    case GgufType::kI32:
      return load<int32_t>(p);
    case GgufType::kI64:
      return load<int64_t>(p);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(p);
      if (value > INT64_MAX) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> gguf_uint(const GgufPair& pair) {
  if (pair.type == GgufType::kU64) return load<uint64_t>(pair.value.data());
  const auto value = gguf_int(pair.type, pair.value.data());
  return value && *value >= 0 ? std::optional<uint64_t>(*value) : std::nullopt;
}

}  // namespace kvrt
