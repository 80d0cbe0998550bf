// Tokens of texts, for tests/golden/tokenizer_equivalence.py.
// usage: tokenizer_dump MODEL.gguf plain|special < texts > tokens     each text is u32 bytes and the bytes, each answer u32 count and u32
// ids Fails when a text is refused, or when its tokens do not decode to it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/model/gguf.h"
#include "runtime/text/tokenizer.h"

using namespace kvrt;

static Result<std::unique_ptr<Tokenizer>> open_tokenizer(const GgufFile& file) {
  VocabSource v;
  KVRT_ASSIGN(v.model, file.require_string("tokenizer.ggml.model"));
  v.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  v.tokens = file.get_strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>());
  v.types = file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>());
  v.merges = file.get_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>());
  auto id = [&file](const char* key) {
    auto value = file.get_uint(key);
    return value ? static_cast<int64_t>(*value) : int64_t{-1};
  };
  v.bos = id("tokenizer.ggml.bos_token_id");
  v.eos = id("tokenizer.ggml.eos_token_id");
  v.unknown = id("tokenizer.ggml.unknown_token_id");
  return Tokenizer::create(v);
}

static Status run(const char* path, bool special) {
  KVRT_ASSIGN(auto file, GgufFile::open(std::string(path)));
  KVRT_ASSIGN(auto tokenizer, open_tokenizer(*file));
  uint32_t size;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    std::string text(size, '\0');
    if (fread(text.data(), 1, size, stdin) != size) return error(Code::kInvalid, Detail::kNone, "input ends within a text");
    std::vector<int32_t> ids;
    KVRT_TRY(tokenizer->encode(text, special, &ids));
    if (tokenizer->decode(ids, true) != text)
      return error(Code::kInternal, Detail::kNone, "a text of %u bytes does not decode to itself", size);
    auto count = static_cast<uint32_t>(ids.size());
    fwrite(&count, sizeof count, 1, stdout);
    fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
  }
  return {};
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s MODEL plain|special\n", argv[0]), 2;
  Status status = run(argv[1], strcmp(argv[2], "special") == 0);
  if (!status.is_ok()) fprintf(stderr, "%s: %s\n", code_name(status.code()), status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
