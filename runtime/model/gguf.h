// GgufFile: a GGUF v2 / v3 file, or all files of a split model, mmapped read-only; metadata and a tensor directory whose every extent lies
// within its file.
// Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Immutable after open: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/status.h"
#include "runtime/compute/tensor.h"

namespace kvrt {

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

struct GgufPair;

struct GgufTensor {
  std::string name;
  TensorView view;
};

using ModelSource = FilePart;

class GgufFile {
 public:
  // A split model's first file opens the others, which lie beside it.
  static Result<std::unique_ptr<GgufFile>> open(const ModelSource& source, Env* env = posix_env());
  // The same over bytes that outlive the object (tests, fuzzing).
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const uint8_t> bytes, std::string name);
  virtual ~GgufFile() = default;

  // Metadata. get_*: nullopt when the key is absent; INVALID types count as absent but are named by require_*.
  virtual bool has(std::string_view key) const = 0;
  virtual std::optional<uint64_t> get_uint(std::string_view key) const = 0;  // any non-negative integer type
  virtual std::optional<double> get_float(std::string_view key) const = 0;   // f32, f64
  virtual std::optional<bool> get_bool(std::string_view key) const = 0;
  virtual std::optional<std::string_view> get_string(std::string_view key) const = 0;
  virtual std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const = 0;
  virtual std::optional<std::vector<int64_t>> get_ints(std::string_view key) const = 0;
  virtual std::optional<std::vector<bool>> get_flags(std::string_view key) const = 0;
  virtual std::optional<std::vector<float>> get_floats(std::string_view key) const = 0;
  // What a message says that it found: the type, of a number below 0 the number, "an array of u32", "no such key".
  virtual std::string found(std::string_view key) const = 0;
  // CORRUPT naming file, key, expected and found type.
  virtual Result<uint64_t> require_uint(std::string_view key, uint64_t min, uint64_t max) const = 0;
  virtual Result<std::string_view> require_string(std::string_view key) const = 0;
  // The same, and nullopt when the key is absent.
  virtual Result<std::optional<bool>> optional_bool(std::string_view key) const = 0;
  virtual Result<std::optional<std::string_view>> optional_string(std::string_view key) const = 0;

  virtual std::span<const GgufPair> pairs() const = 0;  // gguf_parse.h; ascending by key

  virtual const GgufTensor* find(std::string_view tensor) const = 0;
  virtual std::span<const GgufTensor> tensors() const = 0;
  virtual const std::string& name() const = 0;                        // for messages: the path; of a split model the first file's
  virtual uint64_t file_bytes() const = 0;                            // of all files
  virtual void drop_pages(std::span<const uint8_t> range) const = 0;  // the mapping's pages may go back (madvise)
  struct Part {
    FileIdentity identity;
    std::span<const uint8_t> bytes;
  };
  virtual std::vector<Part> parts() const = 0;  // the files, in their order
};

}  // namespace kvrt
