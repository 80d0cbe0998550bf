// A small vocabulary and a text, made of the input's bytes: a Status or tokens that decode to the text, where the vocabulary can say it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "tests/fuzz/require.h"

namespace {

// The input from the front; 0 and "" where it has ended.
struct Input {
  std::string_view rest;
  uint8_t byte() {
    if (rest.empty()) return 0;
    auto b = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    return b;
  }
  std::string_view bytes(size_t n) {
    std::string_view out = rest.substr(0, n);
    rest.remove_prefix(out.size());
    return out;
  }
};

constexpr const char* kModels[] = {"gpt2", "llama", "t5", "gemma4", "bert"};
constexpr const char* kPre[] = {"gpt-2",  "smollm",   "llama-bpe",    "qwen2",       "qwen35",         "tekken",
                                "gpt-4o", "kimi-k2",  "deepseek-llm", "deepseek-v3", "falcon",         "bloom",
                                "viking", "superbpe", "chameleon",    "bailingmoe",  "deepseek-coder", ""};
enum Flags { kSpacePrefix = 1, kRemoveSpaces = 2, kParseSpecial = 4, kAllBytes = 8, kCharsmap = 16, kUnknownToken = 32 };

// First three bytes: the model, the pre-tokenizer, flags. Then pieces (type, score, length, bytes) up to a type of 0, merges as pairs of
// piece numbers up to a pair of equal ones, the charsmap. The rest is the text.
struct Spec {
  explicit Spec(Input* in) {
    source.model = kModels[in->byte() % std::size(kModels)];
    source.pre = kPre[in->byte() % std::size(kPre)];
    flags = in->byte();
    if (flags & kUnknownToken) add("<unk>", 2, 0);
    if ((flags & kAllBytes) && source.model != "bert") add_bytes();
    for (uint8_t type; (type = in->byte()) != 0;) {
      auto score = static_cast<int8_t>(in->byte());
      std::string_view text = in->bytes(in->byte() % 24);
      add(std::string(text), type % 8, static_cast<float>(score) / 8);
    }
    const bool merging = source.model == "gpt2" || source.model == "gemma4";
    for (uint8_t left, right; merging && !tokens.empty() && (left = in->byte()) != (right = in->byte());) {
      std::string l = tokens[left % tokens.size()], r = tokens[right % tokens.size()];
      merges.push_back(l + " " + r);
      add(l + r, 1, 0);
    }
    if (flags & kCharsmap) source.charsmap = in->bytes(in->byte() * 4u + 9);
    source.tokens.assign(tokens.begin(), tokens.end());
    source.merges.assign(merges.begin(), merges.end());
    source.unknown = flags & kUnknownToken ? 0 : -1;
    if (source.model != "gpt2") source.add_space_prefix = (flags & kSpacePrefix) != 0;
    source.remove_extra_whitespaces = (flags & kRemoveSpaces) != 0;
    source.lowercase = (flags & kSpacePrefix) != 0;
    source.strip_accents = (flags & kRemoveSpaces) != 0;
  }
  void add(std::string token, int64_t type, float score) {
    tokens.push_back(std::move(token));
    source.types.push_back(type);
    source.scores.push_back(score);
  }
  void add_bytes() {
    for (int b = 0; b < 256; ++b) {
      std::string token(7, '\0');
      if (source.model == "gpt2") {
        token.clear();
        kvrt::append_code_point(kvrt::byte_to_symbol(static_cast<uint8_t>(b)), &token);
      } else {
        token.resize(static_cast<size_t>(std::snprintf(token.data(), token.size(), "<0x%02X>", b)));
      }
      add(token, source.model == "gpt2" ? 1 : 6, 0);
    }
  }
  // A family that changes nothing gives any text back that lost no byte; but U+2581 is a space to SentencePiece's.
  bool promises(std::string_view text) const {
    if (source.model == "gpt2") return (flags & kAllBytes) || !(flags & kUnknownToken);
    return source.model != "bert" && (flags & kAllBytes) && !(flags & (kRemoveSpaces | kCharsmap)) &&
           text.find("\xE2\x96\x81") == std::string_view::npos;
  }

  // These give a text back in NFC. Without kParseSpecial it is composed over the ends of special tokens, too.
  bool composes() const { return source.model == "gpt2" && source.pre.starts_with("qwen"); }

  kvrt::VocabSource source;
  std::vector<std::string> tokens, merges;
  uint8_t flags = 0;
};

void check_tokens(const Spec& spec, const kvrt::Tokenizer& t, std::string_view text, const std::vector<int32_t>& ids) {
  bool unknown = false;
  kvrt::Utf8Stream stream;
  std::string streamed;
  int32_t previous = -1;
  for (int32_t id : ids) {
    require(id >= 0 && static_cast<uint32_t>(id) < t.vocab_size(), "tokens are in the vocabulary");
    unknown |= id == spec.source.unknown;
    streamed += stream.push(t.piece_after(previous, id, true));
    previous = id;
  }
  streamed += stream.finish();
  std::string decoded = t.decode(ids, true);
  const bool parts = spec.composes() && !(spec.flags & kParseSpecial);
  if (!unknown && !parts && spec.promises(text)) require(decoded == t.normalized(std::string(text)), "tokens decode to the text");
  if (kvrt::find_invalid_utf8(decoded) == std::string_view::npos) require(streamed == decoded, "a stream of valid text is the text");
  require(kvrt::find_invalid_utf8(streamed) == std::string_view::npos, "a stream is valid UTF-8");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{{reinterpret_cast<const char*>(data), size}};
  Spec spec(&in);
  auto made = kvrt::Tokenizer::create(spec.source);
  if (!made.is_ok()) {
    require(!made.status().message().empty(), "a failure says why");
    return 0;
  }
  const kvrt::Tokenizer& t = **made;
  std::string_view text = in.rest;
  std::vector<int32_t> ids, again;
  uint64_t dropped = 0;
  kvrt::Status status = t.encode(text, spec.flags & kParseSpecial, &ids, -1, &dropped);
  if (!status.is_ok()) {
    require(status.code() == kvrt::Code::kLimit, "a text is refused as LIMIT");
    require(ids.empty(), "a refused text leaves no tokens");
    return 0;
  }
  require(dropped == 0 || !(spec.flags & kAllBytes) || spec.source.model == "bert", "a vocabulary with all bytes has all of a text");
  // A byte may become U+FFFD, and a family puts a space before.
  require(dropped <= 3 * (text.size() + 1) || (spec.flags & kCharsmap), "no more is left out than there was");
  if (dropped == 0) check_tokens(spec, t, text, ids);
  require(t.encode(text, spec.flags & kParseSpecial, &again).is_ok() && again == ids, "the same text has the same tokens");
  return 0;
}
