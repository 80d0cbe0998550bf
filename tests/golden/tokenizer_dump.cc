// Tokens of texts, for tests/golden/tokenizer_equivalence.py.
// usage: tokenizer_dump MODEL.gguf FLAGS < texts > tokens     each text is u32 bytes and the bytes, each answer u32 count and u32 ids
// FLAGS: letters. s: parse special tokens; r: fail where the tokens of a text do not decode to it; t: print the MB/s of encoding instead.
// Fails when a text is refused.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/model/gguf.h"
#include "runtime/text/tokenizer/tokenizer.h"

using namespace kvrt;

static Result<std::unique_ptr<Tokenizer>> open_tokenizer(const GgufFile& file) {
  VocabSource v;
  KVRT_ASSIGN(v.model, file.require_string("tokenizer.ggml.model"));
  v.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  v.tokens = file.get_strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>());
  v.types = file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>());
  v.scores = file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>());
  v.merges = file.get_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>());
  for (int64_t byte : file.get_ints("tokenizer.ggml.precompiled_charsmap").value_or(std::vector<int64_t>()))
    v.charsmap.push_back(static_cast<char>(byte));
  auto id = [&file](const char* key) {
    auto value = file.get_uint(key);
    return value ? static_cast<int64_t>(*value) : int64_t{-1};
  };
  v.bos = id("tokenizer.ggml.bos_token_id");
  v.eos = id("tokenizer.ggml.eos_token_id");
  v.unknown = id("tokenizer.ggml.unknown_token_id");
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
  v.remove_extra_whitespaces = file.get_bool("tokenizer.ggml.remove_extra_whitespaces");
  v.lowercase = file.get_bool("tokenizer.ggml.normalizer.lowercase");
  v.strip_accents = file.get_bool("tokenizer.ggml.normalizer.strip_accents");
  return Tokenizer::create(v);
}

static double megabytes_per_s(const Tokenizer& tokenizer, const std::vector<std::string>& texts, bool special) {
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    size_t bytes = 0;
    std::vector<int32_t> ids;
    auto begin = std::chrono::steady_clock::now();
    for (const std::string& text : texts) {
      ids.clear();
      (void)tokenizer.encode(text, special, &ids);
      bytes += text.size();
    }
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes) * 1e-6 / seconds.count());
  }
  return best;
}

static Status run(const char* path, const std::string& flags) {
  auto has = [&flags](char c) { return flags.find(c) != std::string::npos; };
  KVRT_ASSIGN(auto file, GgufFile::open(std::string(path)));
  KVRT_ASSIGN(auto tokenizer, open_tokenizer(*file));
  std::vector<std::string> texts;
  uint32_t size;
  while (fread(&size, sizeof size, 1, stdin) == 1) {
    texts.emplace_back(size, '\0');
    if (fread(texts.back().data(), 1, size, stdin) != size) return error(Code::kInvalid, Detail::kNone, "input ends within a text");
  }
  if (has('t')) {
    printf("%.2f\n", megabytes_per_s(*tokenizer, texts, has('s')));
    return {};
  }
  for (const std::string& text : texts) {
    std::vector<int32_t> ids;
    KVRT_TRY(tokenizer->encode(text, has('s'), &ids));
    if (has('r') && tokenizer->decode(ids, true) != text)
      return error(Code::kInternal, Detail::kNone, "a text of %zu bytes does not decode to itself: %.60s", text.size(), text.c_str());
    auto count = static_cast<uint32_t>(ids.size());
    fwrite(&count, sizeof count, 1, stdout);
    if (count) fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
  }
  return {};
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s MODEL FLAGS\n", argv[0]), 2;
  Status status = run(argv[1], argv[2]);
  if (!status.is_ok()) fprintf(stderr, "%s: %s\n", code_name(status.code()), status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
