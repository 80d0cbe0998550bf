// Byte-level BPE ("gpt2"): a pre-tokenizer cuts the text into pieces, the bytes of a piece are merged by rank.
#include "runtime/text/tokenizer/bpe.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/piece_cache.h"
#include "runtime/text/tokenizer/pretokenizer.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "runtime/text/unicode/nfc.h"

namespace kvrt {

namespace {

class ByteLevelBpe final : public VocabTokenizer {
 public:
  Status init(const VocabSource& source);
  std::string normalized(std::string text) const override;

 private:
  struct Work final : Scratch {
    explicit Work(size_t text_bytes) : cache(text_bytes) {}
    PieceCache cache;
    Pieces pieces, more_pieces;
    std::vector<int32_t> ids;
    BpeMerges::Scratch merging;
    std::string composed;
  };

  std::unique_ptr<Scratch> make_scratch(size_t text_bytes) const override { return std::make_unique<Work>(text_bytes); }
  Status encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const override;
  Status encode_valid(std::string_view text, Work* work, std::vector<int32_t>* out) const;
  Status index_tokens(const VocabSource& source, TokenIndex* spellings);

  std::unique_ptr<Pretokenizer> pretokenizer_;
  BpeMerges merges_;
  TokenIndex whole_;  // tokens that a piece may be as it is; empty unless the pre-tokenizer's name asks for it
};

// Fills the bytes, the types and the special tokens; `spellings` maps the spelling of every token.
Status ByteLevelBpe::index_tokens(const VocabSource& source, TokenIndex* spellings) {
  spellings->reserve(source.tokens.size());
  std::string bytes;
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    std::string_view spelling = source.tokens[i];
    auto type = source.types.empty() ? kNormal : static_cast<TokenType>(source.types[i]);
    auto id = static_cast<int32_t>(i);
    if (type == kByte) return error(Code::kUnsupported, Detail::kNone, "token %zu: a byte token (type 6) in a byte-level vocabulary", i);
    if (!spelling.empty()) {  // an empty one only keeps its id; nothing encodes to it
      if (!spellings->insert(spelling, id)) {
        return error(Code::kCorrupt, Detail::kFormat, "token %zu: \"%.*s\" is token %d already", i,
                     static_cast<int>(std::min<size_t>(spelling.size(), 64)), spelling.data(), spellings->find(spelling));
      }
      if (type == kUserDefined) cuts_.add(spelling, id);
      if (type == kUserDefined || type == kControl || type == kUnknown) special_.add(spelling, id);
    }
    bytes.clear();
    bool plain = type == kNormal || type == kUnused;
    if (!plain || !decode_symbols(spelling, &bytes)) bytes = spelling;  // added tokens are spelled as they are
    KVRT_TRY(add_token(bytes, type));
  }
  return Status::ok();
}

Status ByteLevelBpe::init(const VocabSource& source) {
  byte_level_ = true;
  KVRT_ASSIGN(pretokenizer_, Pretokenizer::create(source.pre));
  if (source.pre.empty() || source.pre == "default") {
    warning_ = "tokenizer.ggml.pre does not name a pre-tokenizer: text is cut in GGUF's default way, which may not be the model's";
  }
  KVRT_TRY(check(source));
  if (source.add_space_prefix.value_or(false)) {  // writers and readers of such files disagree whether byte-level text gets the space
    return error(Code::kUnsupported, Detail::kNone, "tokenizer.ggml.add_space_prefix with tokenizer.ggml.model \"gpt2\" is not supported");
  }
  TokenIndex spellings;
  KVRT_TRY(index_tokens(source, &spellings));
  KVRT_TRY(merges_.build(source.merges, spellings));
  for (int b = 0; b < 256; ++b) {
    std::string symbol;
    append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &symbol);
    byte_tokens_[b] = spellings.find(symbol);
  }
  if (pretokenizer_->ignores_merges()) {
    whole_.reserve(source.tokens.size());
    std::string bytes;
    for (int32_t id = 0; id < static_cast<int32_t>(source.tokens.size()); ++id) {
      bool spelled = decode_symbols(source.tokens[static_cast<size_t>(id)], &bytes);  // else its bytes are spelled by other tokens
      if (spelled && type_of(id) == kNormal && !bytes_of(id).empty()) (void)whole_.insert(bytes_of(id), id);
    }
  }
  add_bos_default(pretokenizer_->adds_bos());
  return finish(source);
}

Status ByteLevelBpe::encode_valid(std::string_view text, Work* work, std::vector<int32_t>* out) const {
  work->pieces.clear();
  if (pretokenizer_->composes()) text = to_nfc(text, &work->composed);
  KVRT_TRY(pretokenizer_->split(text, &work->more_pieces, &work->pieces));
  std::vector<int32_t>& ids = work->ids;
  for (std::string_view piece : work->pieces) {
    PieceCache::Slot* slot = work->cache.slot(piece);
    if (slot != nullptr && PieceCache::holds(*slot, piece)) {
      out->insert(out->end(), slot->ids, slot->ids + slot->count);
      continue;
    }
    ids.clear();
    const uint64_t dropped = work->dropped;
    int32_t whole = pretokenizer_->ignores_merges() ? whole_.find(piece) : -1;
    if (whole >= 0) {
      ids.push_back(whole);
    } else {
      for (char c : piece) {
        int32_t id = byte_tokens_[static_cast<uint8_t>(c)];
        if (id < 0) id = unknown_;
        if (id >= 0) {
          ids.push_back(id);
        } else {
          ++work->dropped;
        }
      }
      merges_.apply(&ids, &work->merging);
    }
    if (slot != nullptr && work->dropped == dropped) PieceCache::fill(slot, piece, ids);
    out->insert(out->end(), ids.begin(), ids.end());
  }
  return Status::ok();
}

// As encode_run cuts it.
std::string ByteLevelBpe::normalized(std::string text) const {
  if (!pretokenizer_->composes()) return text;
  std::string out, scratch;
  for (size_t at = 0; at < text.size();) {
    const SpecialTokens::Match match = special_.find(text, at);
    std::string_view run = std::string_view(text).substr(at, (match.id >= 0 ? match.begin : text.size()) - at);
    while (!run.empty()) {
      const size_t valid = std::min(find_invalid_utf8(run), run.size());
      out += to_nfc(run.substr(0, valid), &scratch);
      if (valid < run.size()) out += run[valid];
      run.remove_prefix(std::min(valid + 1, run.size()));
    }
    if (match.id < 0) break;
    out.append(text, match.begin, match.end - match.begin);
    at = match.end;
  }
  return out;
}

// Bytes that are no valid UTF-8 are their byte tokens; the text between them is encoded as if it stood alone.
Status ByteLevelBpe::encode_run(std::string_view text, bool, Scratch* scratch, std::vector<int32_t>* out) const {
  size_t at = 0;
  while (at < text.size()) {
    std::string_view rest = text.substr(at);
    size_t valid = std::min(find_invalid_utf8(rest), rest.size());
    KVRT_TRY(encode_valid(rest.substr(0, valid), static_cast<Work*>(scratch), out));
    at += valid;
    if (valid == rest.size()) break;
    int32_t id = byte_tokens_[static_cast<uint8_t>(text[at])];
    if (id >= 0) {
      out->push_back(id);
    } else {
      ++scratch->dropped;
    }
    ++at;
  }
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_byte_level(const VocabSource& source) {
  auto tokenizer = std::make_unique<ByteLevelBpe>();
  KVRT_TRY(tokenizer->init(source));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace kvrt
