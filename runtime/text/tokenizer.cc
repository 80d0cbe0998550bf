#include "runtime/text/tokenizer.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/text/bpe.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/special_tokens.h"
#include "runtime/text/unicode.h"

namespace kvrt {

namespace {

enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Control tokens that end a turn whatever the file calls eos.
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>",   "<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>",
                                           "<|end|>",    "<|end_of_turn|>", "<end_of_turn>", "<|endofturn|>", "<end_of_utterance>",
                                           "</s>",       "<|return|>"};

int printable(std::string_view s) { return static_cast<int>(std::min<size_t>(s.size(), 64)); }

// Byte-level BPE ("gpt2"). Immutable after init: any thread.
class ByteLevelBpe final : public Tokenizer {
 public:
  Status init(const VocabSource& source);

  Status encode(std::string_view text, bool parse_special, std::vector<int32_t>* out) const override;
  std::string_view piece(int32_t id, bool special) const override {
    KVRT_CHECK(id >= 0 && static_cast<size_t>(id) < types_.size());
    auto i = static_cast<size_t>(id);
    bool hidden = types_[i] == kControl || types_[i] == kUnknown;
    return hidden && !special ? std::string_view() : std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  std::string decode(std::span<const int32_t> ids, bool special) const override {
    std::string text;
    for (int32_t id : ids) text.append(piece(id, special));
    return text;
  }
  uint32_t vocab_size() const override { return static_cast<uint32_t>(types_.size()); }
  int32_t bos() const override { return bos_; }
  int32_t eos() const override { return eos_; }
  bool add_bos() const override { return add_bos_; }
  bool is_end(int32_t id) const override { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }
  bool is_control(int32_t id) const override { return types_[static_cast<size_t>(id)] == kControl; }
  const Hash256& text_id() const override { return text_id_; }

 private:
  Status check(const VocabSource& source) const;
  Status index_tokens(const VocabSource& source, TokenIndex* index);
  void find_ends(const VocabSource& source);
  void identify(const VocabSource& source);
  Status encode_plain(std::string_view text, size_t offset, BpeMerges::Scratch* scratch, std::vector<int32_t>* out) const;

  std::unique_ptr<Pretokenizer> pretokenizer_;
  BpeMerges merges_;
  SpecialTokens always_;   // user-defined: these cut any text
  SpecialTokens special_;  // those and the control tokens: what parse_special cuts at
  int32_t byte_tokens_[256];
  std::string bytes_;  // the bytes of all tokens, in a row
  std::vector<uint32_t> offsets_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> ends_;
  int32_t bos_ = -1, eos_ = -1, unknown_ = -1;
  bool add_bos_ = false;
  Hash256 text_id_;
};

Status ByteLevelBpe::check(const VocabSource& source) const {
  size_t count = source.tokens.size();
  if (count == 0) return error(Code::kCorrupt, Detail::kFormat, "vocabulary: tokenizer.ggml.tokens is empty");
  if (count > kVocabMax) return error(Code::kLimit, Detail::kNone, "vocabulary: %zu tokens, the limit is %u", count, kVocabMax);
  if (!source.types.empty() && source.types.size() != count) {
    return error(Code::kCorrupt, Detail::kFormat, "vocabulary: %zu tokens but %zu token types", count, source.types.size());
  }
  for (size_t i = 0; i < source.types.size(); ++i) {
    int64_t type = source.types[i];
    if (type < kNormal || type > kByte) {
      return error(Code::kCorrupt, Detail::kFormat, "token %zu: type %lld, expected 1 to 6", i, static_cast<long long>(type));
    }
    if (type == kByte) return error(Code::kUnsupported, Detail::kNone, "token %zu: a byte token (type 6) in a byte-level vocabulary", i);
  }
  const std::pair<const char*, int64_t> ids[] = {
      {"bos", source.bos}, {"eos", source.eos}, {"eot", source.eot}, {"unknown", source.unknown}, {"padding", source.padding}};
  for (auto [name, id] : ids) {
    if (id < -1 || id >= static_cast<int64_t>(count)) {
      return error(Code::kCorrupt, Detail::kFormat, "vocabulary: %s token id %lld, but there are %zu tokens", name,
                   static_cast<long long>(id), count);
    }
  }
  if (source.add_space_prefix) {  // writers and readers of such files disagree whether byte-level text gets the space
    return error(Code::kUnsupported, Detail::kNone, "tokenizer.ggml.add_space_prefix with tokenizer.ggml.model \"gpt2\" is not supported");
  }
  return Status::ok();
}

// Fills the bytes, the types and the special tokens; `index` maps the spelling of every token.
Status ByteLevelBpe::index_tokens(const VocabSource& source, TokenIndex* index) {
  index->reserve(source.tokens.size());
  offsets_.push_back(0);
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    std::string_view spelling = source.tokens[i];
    int64_t type = source.types.empty() ? int64_t{kNormal} : source.types[i];
    auto id = static_cast<int32_t>(i);
    if (find_invalid_utf8(spelling) != std::string_view::npos)
      return error(Code::kCorrupt, Detail::kFormat, "token %zu: not valid UTF-8", i);
    if (!spelling.empty()) {  // an empty one only keeps its id; nothing encodes to it
      auto [at, fresh] = index->emplace(spelling, id);
      if (!fresh) {
        return error(Code::kCorrupt, Detail::kFormat, "token %zu: \"%.*s\" is token %d already", i, printable(spelling), spelling.data(),
                     at->second);
      }
      if (type == kUserDefined) always_.add(spelling, id);
      if (type == kUserDefined || type == kControl || type == kUnknown) special_.add(spelling, id);
    }
    size_t begin = bytes_.size();
    bool plain = type == kNormal || type == kUnused;
    if (!plain || !decode_symbols(spelling, &bytes_)) {  // added tokens are spelled as they are
      bytes_.resize(begin);
      bytes_.append(spelling);
    }
    if (bytes_.size() > UINT32_MAX) return error(Code::kLimit, Detail::kNone, "vocabulary: the tokens have more than 4 GiB");
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    types_.push_back(static_cast<uint8_t>(type));
  }
  return Status::ok();
}

void ByteLevelBpe::find_ends(const VocabSource& source) {
  auto add = [this](int64_t id) {
    if (id >= 0 && !is_end(static_cast<int32_t>(id))) ends_.push_back(static_cast<int32_t>(id));
  };
  add(source.eos);
  add(source.eot);
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    bool named = types_[i] == kControl && std::find(std::begin(kEndTokens), std::end(kEndTokens), source.tokens[i]) != std::end(kEndTokens);
    if (named) add(static_cast<int64_t>(i));
  }
}

void ByteLevelBpe::identify(const VocabSource& source) {
  Hasher hasher;
  hasher.add_string("kvrt text 1").add_string(source.model).add_string(source.pre);
  hasher.add_u64(source.tokens.size());
  for (size_t i = 0; i < source.tokens.size(); ++i) hasher.add_string(source.tokens[i]).add_u64(types_[i]);
  hasher.add_u64(source.merges.size());
  for (std::string_view merge : source.merges) hasher.add_string(merge);
  for (int64_t id : {source.bos, source.eos, source.eot, source.unknown, source.padding}) hasher.add_u64(static_cast<uint64_t>(id));
  hasher.add_u64(source.add_bos).add_u64(source.add_eos).add_u64(source.add_space_prefix);
  text_id_ = hasher.finish();
}

Status ByteLevelBpe::init(const VocabSource& source) {
  KVRT_ASSIGN(pretokenizer_, Pretokenizer::create(source.pre));
  KVRT_TRY(check(source));
  TokenIndex index;
  KVRT_TRY(index_tokens(source, &index));
  KVRT_TRY(merges_.build(source.merges, index));
  for (int b = 0; b < 256; ++b) {
    std::string symbol;
    append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &symbol);
    auto at = index.find(symbol);
    byte_tokens_[b] = at == index.end() ? -1 : at->second;
  }
  bos_ = static_cast<int32_t>(source.bos);
  eos_ = static_cast<int32_t>(source.eos);
  add_bos_ = source.add_bos && bos_ >= 0;
  // A byte that no token spells becomes the unknown token, but never a control token (many files name end-of-text there):
  // plain text must not be able to end a turn.
  if (source.unknown >= 0 && types_[static_cast<size_t>(source.unknown)] == kUnknown) unknown_ = static_cast<int32_t>(source.unknown);
  find_ends(source);
  identify(source);
  return Status::ok();
}

Status ByteLevelBpe::encode_plain(std::string_view text, size_t offset, BpeMerges::Scratch* scratch, std::vector<int32_t>* out) const {
  std::vector<std::string_view> pieces;
  KVRT_TRY(pretokenizer_->split(text, &pieces));
  std::vector<int32_t> ids;
  for (std::string_view piece : pieces) {
    ids.clear();
    for (const char& c : piece) {
      int32_t id = byte_tokens_[static_cast<uint8_t>(c)];
      if (id < 0) id = unknown_;
      if (id < 0) {
        return error(Code::kInvalid, Detail::kNone, "text: the vocabulary has no token for byte 0x%02x at byte %zu",
                     static_cast<uint8_t>(c), offset + static_cast<size_t>(&c - text.data()));
      }
      ids.push_back(id);
    }
    merges_.apply(&ids, scratch);
    out->insert(out->end(), ids.begin(), ids.end());
  }
  return Status::ok();
}

Status ByteLevelBpe::encode(std::string_view text, bool parse_special, std::vector<int32_t>* out) const {
  if (text.size() > kTextBytesMax)
    return error(Code::kLimit, Detail::kNone, "text: %zu bytes, the limit is %zu", text.size(), kTextBytesMax);
  size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos) return error(Code::kInvalid, Detail::kNone, "text: invalid UTF-8 at byte %zu", bad);
  const SpecialTokens& cuts = parse_special ? special_ : always_;
  BpeMerges::Scratch scratch;
  size_t before = out->size();
  size_t at = 0;
  while (at < text.size()) {
    SpecialTokens::Match match;
    if (!cuts.empty()) match = cuts.find(text, at);
    size_t end = match.id >= 0 ? match.begin : text.size();
    Status status = encode_plain(text.substr(at, end - at), at, &scratch, out);
    if (!status.is_ok()) {
      out->resize(before);
      return status;
    }
    if (match.id >= 0) out->push_back(match.id);
    at = match.id >= 0 ? match.end : text.size();
  }
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const VocabSource& source) {
  if (source.model != "gpt2") {
    return error(Code::kUnsupported, Detail::kNone, "tokenizer \"%.*s\" (tokenizer.ggml.model) is not supported", printable(source.model),
                 source.model.data());
  }
  auto tokenizer = std::make_unique<ByteLevelBpe>();
  KVRT_TRY(tokenizer->init(source));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace kvrt
