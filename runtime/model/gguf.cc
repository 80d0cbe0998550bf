#include "runtime/model/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "runtime/base/bytes.h"
#include "runtime/base/posix/fd.h"
#include "runtime/model/gguf_parse.h"
#include "runtime/model/gguf_split.h"

namespace kvrt {
namespace {

// A file's bytes, mapped read-only, or borrowed bytes. Unmaps its own mapping.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(std::span<const uint8_t> borrowed) : bytes_(borrowed) {}
  // A mapping of `size` bytes, the first `skip` of which are not ours.
  Mapping(void* base, size_t size, size_t skip)
      : bytes_(static_cast<const uint8_t*>(base) + skip, size - skip), mapped_(base), size_(size) {}
  Mapping(Mapping&& o) noexcept : bytes_(o.bytes_), mapped_(std::exchange(o.mapped_, nullptr)), size_(o.size_) {}
  Mapping& operator=(Mapping&& o) = delete;
  ~Mapping() {
    if (mapped_) munmap(mapped_, size_);
  }
  std::span<const uint8_t> bytes() const { return bytes_; }
  bool has(std::span<const uint8_t> range) const {
    const std::less_equal<> before;  // of pointers of any two objects
    return before(bytes_.data(), range.data()) && before(range.data() + range.size(), bytes_.data() + bytes_.size());
  }

  // Only whole pages inside `range`: the neighbours' bytes on its edge pages may still be wanted.
  void drop(std::span<const uint8_t> range) const {
    if (!mapped_ || range.empty()) return;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t from = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
    const uintptr_t to = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
    if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);  // advice: a refusal costs memory, no more
  }

 private:
  std::span<const uint8_t> bytes_;
  void* mapped_ = nullptr;
  size_t size_ = 0;  // the mapping's
};

std::optional<double> load_float(GgufType type, const uint8_t* p) {
  if (type == GgufType::kF32) return load<float>(p);
  if (type == GgufType::kF64) return load<double>(p);
  return std::nullopt;
}

struct Opened {
  Mapping mapping;
  GgufFile::Identity identity;
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
    for (const Opened& file : files_) bytes += file.mapping.bytes().size();
    return bytes;
  }
  void drop_pages(std::span<const uint8_t> range) const override {
    for (const Opened& file : files_) {
      if (file.mapping.has(range)) return file.mapping.drop(range);
    }
  }
  std::vector<Part> parts() const override {
    std::vector<Part> parts;
    for (const Opened& file : files_) parts.push_back({file.identity, file.mapping.bytes()});
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

int64_t nanoseconds(const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; }

// Maps bytes [offset, offset + size) of an open file; size 0: to its end.
Result<Opened> map_file(int fd, const ModelSource& source) {
  const std::string& path = source.name;
  struct stat info;
  if (fstat(fd, &info) != 0) return errno_error(errno, "%s: cannot stat", path.c_str());
  if (S_ISDIR(info.st_mode)) return error(Code::kInvalid, Detail::kNone, "%s: expected a GGUF file, found a directory", path.c_str());
  if (!S_ISREG(info.st_mode)) return error(Code::kInvalid, Detail::kNone, "%s: expected a regular file", path.c_str());
  const auto file_size = static_cast<uint64_t>(info.st_size);
  if (source.offset > file_size || source.size > file_size - source.offset) {
    return error(Code::kInvalid, Detail::kNone, "%s: expected offset %llu and size %llu within its %llu bytes", path.c_str(),
                 static_cast<unsigned long long>(source.offset), static_cast<unsigned long long>(source.size),
                 static_cast<unsigned long long>(file_size));
  }
  const uint64_t size = source.size ? source.size : file_size - source.offset;
  GgufFile::Identity identity{info.st_dev, info.st_ino, size, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
  if (size != file_size) identity.inode = 0;
  if (size == 0) return Opened{Mapping(), identity};                                   // the parser refuses it, and says why
  const uint64_t skip = source.offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));  // a mapping begins at a page
  void* base = mmap(nullptr, size + skip, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(source.offset - skip));
  if (base == MAP_FAILED) return errno_error(errno, "%s: cannot map %llu bytes", path.c_str(), static_cast<unsigned long long>(size));
  return Opened{Mapping(base, size + skip, skip), identity};
}

Result<Opened> open_file(const ModelSource& source, const std::string& what = "the model") {
  const std::string& path = source.name;
  // Non-blocking: a FIFO must not hang the caller.
  const Fd own(source.fd < 0 ? retry_eintr([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }) : -1);
  if (source.fd < 0 && !own.ok()) return errno_error(errno, "%s: cannot open %s", path.c_str(), what.c_str());
  return map_file(source.fd < 0 ? own.get() : source.fd, source);
}

// The files of a split model from the second on.
Status open_others(const std::string& first, uint32_t count, GgufDirectory* directory, std::vector<Opened>* files) {
  for (uint32_t no = 1; no < count; ++no) {
    KVRT_ASSIGN(const std::string path, split_path(first, no, count));
    KVRT_ASSIGN(Opened opened, open_file(path, "file " + std::to_string(no + 1) + " of " + std::to_string(count)));
    KVRT_ASSIGN(GgufDirectory part, parse_gguf(opened.mapping.bytes(), path));
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

Result<std::unique_ptr<GgufFile>> GgufFile::open(const ModelSource& source) {
  std::vector<Opened> files;
  KVRT_ASSIGN(Opened opened, open_file(source));
  files.push_back(std::move(opened));
  KVRT_ASSIGN(GgufDirectory directory, parse_gguf(files[0].mapping.bytes(), source.name));
  KVRT_ASSIGN(const uint32_t count, split_count(directory, source.name));
  if (count > 1) {
    if (source.fd >= 0) return refuse_part(source.name, count);
    KVRT_TRY(split_path(source.name, 0, count).take_status());
    KVRT_TRY(check_split(directory, 0, count, source.name));
    KVRT_TRY(open_others(source.name, count, &directory, &files));
  }
  return std::unique_ptr<GgufFile>(std::make_unique<GgufFileImpl>(std::move(files), source.name, std::move(directory)));
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const uint8_t> bytes, std::string name) {
  KVRT_ASSIGN(GgufDirectory directory, parse_gguf(bytes, name));
  KVRT_ASSIGN(const uint32_t count, split_count(directory, name));
  if (count > 1) return refuse_part(name, count);
  std::vector<Opened> files;
  files.push_back({Mapping(bytes), Identity{0, 0, bytes.size(), 0, 0}});
  return std::unique_ptr<GgufFile>(std::make_unique<GgufFileImpl>(std::move(files), std::move(name), std::move(directory)));
}

}  // namespace kvrt
