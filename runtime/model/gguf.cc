#include "runtime/model/gguf.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "runtime/base/bytes.h"
#include "runtime/model/gguf_parse.h"
#include "runtime/model/gguf_split.h"

namespace kvrt {
namespace {

std::optional<double> load_float(GgufType type, const uint8_t* p) {
  if (type == GgufType::kF32) return load<float>(p);
  if (type == GgufType::kF64) return load<double>(p);
  return std::nullopt;
}

struct Opened {
  std::unique_ptr<MappedFile> file;  // null: the bytes are borrowed
  std::span<const uint8_t> bytes;

  bool has(std::span<const uint8_t> range) const {
    const std::less_equal<> before;  // of pointers of any two objects
    return before(bytes.data(), range.data()) && before(range.data() + range.size(), bytes.data() + bytes.size());
  }
};

class GgufFileImpl final : public GgufFile {
 public:
  GgufFileImpl(std::vector<Opened> files, std::string name, GgufDirectory directory)
      : files_(std::move(files)), name_(std::move(name)), directory_(std::move(directory)) {}

  bool has(std::string_view key) const override { return find_pair(directory_, key) != nullptr; }

  std::optional<uint64_t> get_uint(std::string_view key) const override {
    const GgufPair* pair = find_pair(directory_, key);
    return pair ? gguf_uint(*pair) : std::nullopt;
  }

  std::optional<double> get_float(std::string_view key) const override {
    const GgufPair* pair = find_pair(directory_, key);
    return pair ? load_float(pair->type, pair->value.data()) : std::nullopt;
  }

  std::optional<bool> get_bool(std::string_view key) const override {
    const GgufPair* pair = find_pair(directory_, key);
    if (!pair || pair->type != GgufType::kBool) return std::nullopt;
    return pair->value[0] != 0;
  }

  std::optional<std::string_view> get_string(std::string_view key) const override {
    const GgufPair* pair = find_pair(directory_, key);
    if (!pair || pair->type != GgufType::kString) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(pair->value.data()) + 8, pair->value.size() - 8);
  }

  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    const GgufPair* pair = find_array(key);
    if (!pair || pair->elem_type != GgufType::kString) return std::nullopt;
    std::vector<std::string_view> out;
    out.reserve(pair->count);
    ByteReader in(pair->value);
    for (uint64_t i = 0; i < pair->count; ++i) {
      uint64_t length = 0;
      std::span<const uint8_t> bytes;
      if (!in.read(&length) || !in.read_bytes(length, &bytes)) return std::nullopt;  // never: the parser walked it
      out.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return out;
  }

  std::optional<std::vector<int64_t>> get_ints(std::string_view key) const override {
    const GgufPair* pair = find_array(key);
    if (!pair) return std::nullopt;
    const uint32_t bytes = gguf_scalar_bytes(pair->elem_type);
    std::vector<int64_t> out;
    if (bytes == 0) return std::nullopt;
    out.reserve(pair->count);
    for (uint64_t i = 0; i < pair->count; ++i) {
      const auto value = gguf_int(pair->elem_type, pair->value.data() + i * bytes);
      if (!value) return std::nullopt;
      out.push_back(*value);
    }
    return out;
  }

  std::optional<std::vector<bool>> get_flags(std::string_view key) const override {
    const GgufPair* pair = find_array(key);
    if (!pair || pair->elem_type != GgufType::kBool) return std::nullopt;
    return std::vector<bool>(pair->value.begin(), pair->value.end());
  }

  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    const GgufPair* pair = find_array(key);
    if (!pair || (pair->elem_type != GgufType::kF32 && pair->elem_type != GgufType::kF64)) return std::nullopt;
    const uint32_t bytes = gguf_scalar_bytes(pair->elem_type);
    std::vector<float> out;
    out.reserve(pair->count);
    for (uint64_t i = 0; i < pair->count; ++i) {
      out.push_back(static_cast<float>(*load_float(pair->elem_type, pair->value.data() + i * bytes)));
    }
    return out;
  }

  std::string found(std::string_view key) const override {
    const GgufPair* pair = find_pair(directory_, key);
    if (!pair) return "no such key";
    if (pair->type == GgufType::kArray) return std::string("an array of ") + gguf_type_name(pair->elem_type);
    const auto number = gguf_int(pair->type, pair->value.data());
    return number && *number < 0 ? std::to_string(*number) : gguf_type_name(pair->type);
  }

  Result<uint64_t> require_uint(std::string_view key, uint64_t min, uint64_t max) const override {
    const auto value = get_uint(key);
    if (!value) return wrong_type(key, "a non-negative integer");
    if (*value < min) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %.*s: expected at least %llu, found %llu", name_.c_str(),
                   static_cast<int>(key.size()), key.data(), static_cast<unsigned long long>(min), static_cast<unsigned long long>(*value));
    }
    if (*value > max) {
      return error(Code::kLimit, Detail::kNone, "%s: metadata key %.*s is %llu, the limit is %llu", name_.c_str(),
                   static_cast<int>(key.size()), key.data(), static_cast<unsigned long long>(*value), static_cast<unsigned long long>(max));
    }
    return *value;
  }

  Result<std::string_view> require_string(std::string_view key) const override {
    const auto value = get_string(key);
    if (!value) return wrong_type(key, "a string");
    return *value;
  }

  Result<std::optional<bool>> optional_bool(std::string_view key) const override {
    const auto value = get_bool(key);
    if (!value && has(key)) return wrong_type(key, "a bool");
    return value;
  }

  Result<std::optional<std::string_view>> optional_string(std::string_view key) const override {
    const auto value = get_string(key);
    if (!value && has(key)) return wrong_type(key, "a string");
    return value;
  }

  const GgufTensor* find(std::string_view tensor) const override {
    const auto& order = directory_.tensors_by_name;
    auto at = std::lower_bound(order.begin(), order.end(), tensor,
                               [this](uint32_t index, std::string_view name) { return directory_.tensors[index].name < name; });
    if (at == order.end() || directory_.tensors[*at].name != tensor) return nullptr;
    return &directory_.tensors[*at];
  }

  std::span<const GgufPair> pairs() const override { return directory_.pairs; }
  std::span<const GgufTensor> tensors() const override { return directory_.tensors; }
  const std::string& name() const override { return name_; }
  uint64_t file_bytes() const override {
    uint64_t bytes = 0;
    for (const Opened& file : files_) bytes += file.bytes.size();
    return bytes;
  }
  void drop_pages(std::span<const uint8_t> range) const override {
    for (const Opened& file : files_) {
      if (file.file != nullptr && file.has(range)) return file.file->drop(range);
    }
  }
  std::vector<Part> parts() const override {
    std::vector<Part> parts;
    for (const Opened& file : files_) {
      const FileIdentity borrowed{0, 0, file.bytes.size(), 0, 0};
      parts.push_back({file.file != nullptr ? file.file->identity() : borrowed, file.bytes});
    }
    return parts;
  }

 private:
  const GgufPair* find_array(std::string_view key) const {
    const GgufPair* pair = find_pair(directory_, key);
    return pair && pair->type == GgufType::kArray ? pair : nullptr;
  }

  Status wrong_type(std::string_view key, const char* expected) const {
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %.*s: expected %s, found %s", name_.c_str(),
                 static_cast<int>(key.size()), key.data(), expected, found(key).c_str());
  }

  const std::vector<Opened> files_;
  const std::string name_;
  const GgufDirectory directory_;
};

Result<Opened> open_file(Env* env, const ModelSource& source, const std::string& what = "the model") {
  KVRT_ASSIGN(std::unique_ptr<MappedFile> file, env->map_file(source, what));
  const std::span<const uint8_t> bytes = file->bytes();
  return Opened{std::move(file), bytes};
}

// The files of a split model from the second on.
Status open_others(Env* env, const std::string& first, uint32_t count, GgufDirectory* directory, std::vector<Opened>* files) {
  for (uint32_t no = 1; no < count; ++no) {
    KVRT_ASSIGN(const std::string path, split_path(first, no, count));
    KVRT_ASSIGN(Opened opened, open_file(env, path, "file " + std::to_string(no + 1) + " of " + std::to_string(count)));
    KVRT_ASSIGN(GgufDirectory part, parse_gguf(opened.bytes, path));
    KVRT_TRY(check_split(part, no, count, path));
    KVRT_TRY(check_same_model(part, *directory, path));
    KVRT_TRY(add_split(std::move(part), path, directory));
    files->push_back(std::move(opened));
  }
  return check_split_tensors(*directory, first);
}

// A part of a split model alone holds some of the tensors, or none: it would pass for a damaged model, or for a vocabulary.
Status refuse_part(const std::string& name, uint32_t count) {
  return error(Code::kUnsupported, Detail::kNone, "%s: one of %u files of a split model: only by its path can the others be found",
               name.c_str(), count);
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const ModelSource& source, Env* env) {
  std::vector<Opened> files;
  KVRT_ASSIGN(Opened opened, open_file(env, source));
  files.push_back(std::move(opened));
  KVRT_ASSIGN(GgufDirectory directory, parse_gguf(files[0].bytes, source.name));
  KVRT_ASSIGN(const uint32_t count, split_count(directory, source.name));
  if (count > 1) {
    if (source.fd >= 0) return refuse_part(source.name, count);
    KVRT_TRY(split_path(source.name, 0, count).take_status());
    KVRT_TRY(check_split(directory, 0, count, source.name));
    KVRT_TRY(open_others(env, source.name, count, &directory, &files));
  }
  return std::unique_ptr<GgufFile>(std::make_unique<GgufFileImpl>(std::move(files), source.name, std::move(directory)));
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const uint8_t> bytes, std::string name) {
  KVRT_ASSIGN(GgufDirectory directory, parse_gguf(bytes, name));
  KVRT_ASSIGN(const uint32_t count, split_count(directory, name));
  if (count > 1) return refuse_part(name, count);
  std::vector<Opened> files;
  files.push_back({nullptr, bytes});
  return std::unique_ptr<GgufFile>(std::make_unique<GgufFileImpl>(std::move(files), std::move(name), std::move(directory)));
}

}  // namespace kvrt
