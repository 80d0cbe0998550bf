// Any bytes given to the GGUF reader and the model's checks: a Status or a file whose every view lies within the bytes.
#include <cstdio>
#include <cstdlib>

#include "runtime/model/ggml_types.h"
#include "runtime/model/model.h"
#include "tests/fuzz/require.h"

namespace {

bool within(std::span<const uint8_t> part, std::span<const uint8_t> whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

__extension__ typedef unsigned __int128 Wide;

// Computes by other arithmetic than the parser's: 128 bits hold any product, and the first of 2^64 or more ends it.
bool extent_is_shape(const kvrt::GgufTensor& tensor) {
  const kvrt::GgmlType* type = kvrt::find_ggml_type(static_cast<uint32_t>(tensor.view.type));
  Wide elements = 1;
  for (const uint64_t n : tensor.view.ne) {
    elements *= n;
    if (n == 0 || elements >> 64 != 0) return false;
  }
  return elements % type->block_elems == 0 && elements / type->block_elems * type->block_bytes == tensor.view.data.size();
}

std::span<const uint8_t> bytes_of(std::string_view s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  auto parsed = kvrt::GgufFile::parse(bytes, "fuzz");
  if (!parsed.is_ok()) {
    require(!parsed.status().message().empty(), "a failure says why");
    return 0;
  }
  const kvrt::GgufFile& file = **parsed;
  volatile uint8_t sink = 0;
  for (const kvrt::GgufTensor& tensor : file.tensors()) {
    require(within(tensor.view.data, bytes), "a tensor lies within the file");
    require(extent_is_shape(tensor), "a tensor has the bytes of its shape");
    require(file.find(tensor.name) == &tensor, "a tensor is found by its name");
    if (!tensor.view.data.empty()) sink = static_cast<uint8_t>(sink + tensor.view.data.front() + tensor.view.data.back());
  }
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const auto strings = file.get_strings(key);
    for (std::string_view s : strings.value_or(std::vector<std::string_view>{}))
      require(within(bytes_of(s), bytes), "a string lies within the file");
  }
  if (const auto s = file.get_string("tokenizer.chat_template")) require(within(bytes_of(*s), bytes), "a string lies within the file");
  (void)file.get_ints("tokenizer.ggml.token_type");
  (void)file.get_floats("tokenizer.ggml.scores");
  const kvrt::Arch* arch = nullptr;
  const auto dims = kvrt::read_dims(file, &arch);
  require(dims.is_ok() || !dims.status().message().empty(), "a failure says why");
  if (dims.is_ok()) {
    const kvrt::ModelDims& d = dims.value();
    require(d.layers && d.width && d.heads && d.kv_heads && d.heads % d.kv_heads == 0, "sizes are sane");
    require(d.head_dim && d.rope.dims % 2 == 0 && d.rope.dims <= d.head_dim && d.vocab, "sizes are sane");
  }
  return 0;
}
