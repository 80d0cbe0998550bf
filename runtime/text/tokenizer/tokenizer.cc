#include "runtime/text/tokenizer/tokenizer.h"

#include <algorithm>

#include "runtime/text/tokenizer/markers.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace kvrt {

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const VocabSource& given) {
  const std::optional<VocabSource> corrected = correct_markers(given);
  const VocabSource& source = corrected ? *corrected : given;
  if (source.model == "gpt2") return make_byte_level(source);
  if (source.model == "llama" || source.model == "gemma4") return make_spm(source);
  if (source.model == "t5") return make_unigram(source);
  if (source.model == "bert") return make_wordpiece(source);
  return error(Code::kUnsupported, Detail::kNone, "tokenizer \"%.*s\" (tokenizer.ggml.model) is not supported",
               static_cast<int>(std::min<size_t>(source.model.size(), 64)), source.model.data());
}

}  // namespace kvrt
