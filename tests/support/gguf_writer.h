// GgufWriter: builds a GGUF file in memory and remembers where each field of its header lies, so that tests can damage it there.
// GgufModel: a complete tiny llama or qwen2 made with it. Independent of the reader. Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace kvrt::test {

struct GgufField {
  // kStructure: the layout depends on it. kName: a key's or tensor's bytes. kValue: a value's bytes.
  enum Kind { kStructure, kName, kValue } kind;
  std::string what;
  size_t at, bytes;
};

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = 3, uint32_t alignment = 32) : version_(version), alignment_(alignment) {}

  void add_u32(const std::string& key, uint32_t value) { add_scalar(key, 4, value); }
  void add_f32(const std::string& key, float value) { add_scalar(key, 6, value); }
  void add_bool(const std::string& key, bool value) { add_scalar(key, 7, static_cast<uint8_t>(value)); }
  void add_string(const std::string& key, std::string_view value) {
    Pair& pair = begin(key, 8);
    put_string(pair, key + " value", GgufField::kValue, value);
  }
  void add_strings(const std::string& key, const std::vector<std::string>& values) {
    Pair& pair = begin(key, 9);
    put(pair, GgufField::kStructure, key + " element type", uint32_t{8});
    put(pair, GgufField::kStructure, key + " length", uint64_t{values.size()});
    for (const std::string& value : values) put_string(pair, key + " element", GgufField::kValue, value);
  }
  template <typename T>
  void add_array(const std::string& key, uint32_t type, const std::vector<T>& values) {
    Pair& pair = begin(key, 9);
    put(pair, GgufField::kStructure, key + " element type", type);
    put(pair, GgufField::kStructure, key + " length", uint64_t{values.size()});
    for (T value : values) put(pair, GgufField::kValue, key + " element", value);
  }
  // Any type number with any bytes: for files that no real writer would write.
  template <typename T>
  void add_scalar(const std::string& key, uint32_t type, T value) {
    Pair& pair = begin(key, type);
    put(pair, GgufField::kValue, key + " value", value);
  }
  void add_tensor(const std::string& name, uint32_t type, std::vector<uint64_t> ne, std::vector<uint8_t> data) {
    const uint64_t bytes = data.size();
    tensors_.push_back({name, type, std::move(ne), std::move(data), bytes});
  }
  // A tensor whose bytes finish() leaves out, and all after them: grown to file_bytes, the file has zeros there and takes no space.
  void add_hole(const std::string& name, uint32_t type, std::vector<uint64_t> ne, uint64_t bytes) {
    tensors_.push_back({name, type, std::move(ne), {}, bytes});
  }

  // The file. Afterwards fields() and the edges are known.
  std::vector<uint8_t> finish() {
    Pair out;
    fields_.clear();
    put(out, GgufField::kStructure, "magic", uint32_t{0x46554747});
    put(out, GgufField::kStructure, "version", version_);
    put(out, GgufField::kStructure, "tensor count", uint64_t{tensors_.size()});
    put(out, GgufField::kStructure, "pair count", uint64_t{pairs_.size()});
    pairs_at = out.bytes.size();
    for (const Pair& pair : pairs_) append(out, pair);
    infos_at = out.bytes.size();
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors_) {
      put_string(out, tensor.name + " name", GgufField::kName, tensor.name);
      put(out, GgufField::kStructure, tensor.name + " dims", static_cast<uint32_t>(tensor.ne.size()));
      for (uint64_t n : tensor.ne) put(out, GgufField::kStructure, tensor.name + " ne", n);
      put(out, GgufField::kStructure, tensor.name + " type", tensor.type);
      put(out, GgufField::kStructure, tensor.name + " offset", offset);
      offset = padded(offset + tensor.bytes);
    }
    header_bytes = out.bytes.size();
    fields_ = std::move(out.fields);
    std::vector<uint8_t> file = std::move(out.bytes);
    data_at = padded(file.size());
    file_bytes = data_at + offset;
    for (const Tensor& tensor : tensors_) {
      if (tensor.bytes != tensor.data.size()) break;
      file.resize(padded(file.size()));
      file.insert(file.end(), tensor.data.begin(), tensor.data.end());
    }
    return file;
  }
  const std::vector<GgufField>& fields() const { return fields_; }

  size_t pairs_at = 0, infos_at = 0, header_bytes = 0, data_at = 0, file_bytes = 0;

 private:
  struct Pair {
    std::vector<uint8_t> bytes;
    std::vector<GgufField> fields;
  };
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> ne;
    std::vector<uint8_t> data;
    uint64_t bytes;
  };

  size_t padded(size_t n) const { return (n + alignment_ - 1) / alignment_ * alignment_; }

  template <typename T>
  static void put(Pair& to, GgufField::Kind kind, const std::string& what, T value) {
    to.fields.push_back({kind, what, to.bytes.size(), sizeof value});
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    to.bytes.insert(to.bytes.end(), p, p + sizeof value);
  }
  static void put_string(Pair& to, const std::string& what, GgufField::Kind kind, std::string_view s) {
    put(to, GgufField::kStructure, what + " length", uint64_t{s.size()});
    to.fields.push_back({kind, what, to.bytes.size(), s.size()});
    to.bytes.insert(to.bytes.end(), s.begin(), s.end());
  }
  Pair& begin(const std::string& key, uint32_t type) {
    Pair& pair = pairs_.emplace_back();
    put_string(pair, key + " key", GgufField::kName, key);
    put(pair, GgufField::kStructure, key + " type", type);
    return pair;
  }
  static void append(Pair& to, const Pair& from) {
    for (GgufField field : from.fields) {
      field.at += to.bytes.size();
      to.fields.push_back(field);
    }
    to.bytes.insert(to.bytes.end(), from.bytes.begin(), from.bytes.end());
  }

  const uint32_t version_, alignment_;
  std::vector<Pair> pairs_;
  std::vector<Tensor> tensors_;
  std::vector<GgufField> fields_;
};

// The parts of a tiny model, each of which a test may change before write().
struct GgufModel {
  std::string arch = "llama";
  uint32_t version = 3, layers = 1, width = 32, ff = 64, heads = 4, kv_heads = 2, vocab = 40;
  uint32_t matrix_type = 8;  // Q8_0
  bool tied = true, qkv_bias = false;
  bool holes = false;                        // F16 matrices and F32 vectors whose bytes are left out
  std::string skip_key;                      // below the prefix: not written
  std::string skip_tensor, skip_tensor_too;  // not written

  // `add` is called after the usual pairs and tensors, with the writer.
  template <typename Add>
  std::vector<uint8_t> write(GgufWriter* w, Add add) const {
    w->add_string("general.architecture", arch);
    for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"block_count", layers},
                                     {"context_length", 128},
                                     {"embedding_length", width},
                                     {"feed_forward_length", ff},
                                     {"attention.head_count", heads},
                                     {"attention.head_count_kv", kv_heads},
                                     {"rope.dimension_count", width / heads}}) {
      if (skip_key != key) w->add_u32(arch + "." + key, value);
    }
    if (skip_key != "attention.layer_norm_rms_epsilon") w->add_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
    w->add_f32(arch + ".rope.freq_base", 10000.0f);
    const uint64_t head_dim = width / heads, q = heads * head_dim, kv = kv_heads * head_dim;
    matrix(w, "token_embd.weight", width, vocab);
    vector(w, "output_norm.weight", width);
    if (!tied) matrix(w, "output.weight", width, vocab);
    for (uint32_t i = 0; i < layers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      vector(w, blk + "attn_norm.weight", width);
      matrix(w, blk + "attn_q.weight", width, q);
      matrix(w, blk + "attn_k.weight", width, kv);
      matrix(w, blk + "attn_v.weight", width, kv);
      if (qkv_bias) {
        vector(w, blk + "attn_q.bias", q);
        vector(w, blk + "attn_k.bias", kv);
        vector(w, blk + "attn_v.bias", kv);
      }
      matrix(w, blk + "attn_output.weight", q, width);
      vector(w, blk + "ffn_norm.weight", width);
      matrix(w, blk + "ffn_gate.weight", width, ff);
      matrix(w, blk + "ffn_up.weight", width, ff);
      matrix(w, blk + "ffn_down.weight", ff, width);
    }
    add(*w);
    return w->finish();
  }
  std::vector<uint8_t> write() const {
    GgufWriter w(version);
    return write(&w, [](GgufWriter&) {});
  }

 private:
  void vector(GgufWriter* w, const std::string& name, uint64_t n) const {
    if (name == skip_tensor || name == skip_tensor_too) return;
    if (holes) return w->add_hole(name, 0, {n}, 4 * n);
    std::vector<uint8_t> data(n * 4);
    for (uint64_t i = 0; i < n; ++i) {
      const float value = 0.5f + 0.01f * static_cast<float>(i % 50);
      std::memcpy(data.data() + 4 * i, &value, 4);
    }
    w->add_tensor(name, 0, {n}, std::move(data));
  }
  void matrix(GgufWriter* w, const std::string& name, uint64_t cols, uint64_t rows) const {
    if (name == skip_tensor || name == skip_tensor_too) return;
    if (holes) return w->add_hole(name, 1, {cols, rows}, 2 * cols * rows);
    std::vector<uint8_t> data;
    uint32_t state = static_cast<uint32_t>(cols * 31 + rows + name.size());
    for (uint64_t i = 0; i < cols * rows; i += 32) {  // blocks: f16 0.01, then 32 bytes
      if (matrix_type == 8) data.insert(data.end(), {0x1f, 0x21});
      for (int j = 0; j < 32; ++j) {
        state = state * 1664525 + 1013904223;
        if (matrix_type == 8) {
          data.push_back(static_cast<uint8_t>(state >> 24));
        } else {  // F32
          const float value = static_cast<float>(static_cast<int8_t>(state >> 24)) * 0.01f;
          const auto* p = reinterpret_cast<const uint8_t*>(&value);
          data.insert(data.end(), p, p + 4);
        }
      }
    }
    w->add_tensor(name, matrix_type, {cols, rows}, std::move(data));
  }
};

}  // namespace kvrt::test
