// Tokenizer: text <-> token ids, from a GGUF's vocabulary. Immutable after create: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace kvrt {

// tokenizer.ggml.*_token_id; -1: none.
struct SpecialIds {
  int64_t bos = -1, eos = -1, eot = -1, eom = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1, unknown = -1, padding = -1;
};

// The values of a GGUF's tokenizer.ggml.* keys; the engine fills it (text never sees a GGUF). create copies the views. An absent flag
// has the value that the model, or the pre-tokenizer's name, implies. Markers of turns that are typed as text are control tokens.
struct VocabSource : SpecialIds {
  std::string_view model;  // tokenizer.ggml.model: "gpt2", "llama", "gemma4", "t5", "bert"
  std::string_view pre;    // tokenizer.ggml.pre: "smollm", "gpt-2"; "" or "default" as GGUF means them
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;  // tokenizer.ggml.token_type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<float> scores;   // "llama" and "t5": the higher, the better
  std::vector<std::string_view> merges;
  std::string charsmap;  // tokenizer.ggml.precompiled_charsmap; "": none
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::optional<bool> lowercase, strip_accents;  // "bert": tokenizer.ggml.normalizer.*
  std::string corrected;                         // what create changed here; "": nothing
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(const VocabSource& source);
  virtual ~Tokenizer() = default;

  // parse_special: text that spells a control or user-defined token becomes that token; else only user-defined ones do. No BOS is added.
  // `previous`: the token that the text follows, -1: none; with add_space_prefix a space is put before a text that begins or follows a
  // control token. Bytes that are no valid UTF-8 become their byte tokens, and decode to themselves; SentencePiece's vocabularies without
  // byte tokens read each as U+FFFD. What has no token, and no unknown token to stand for it, is left out; `dropped`, if not null: so many
  // bytes. LIMIT: a longer text than kTextBytesMax.
  virtual Status encode(std::string_view text, bool parse_special, std::vector<int32_t>* out, int32_t previous,
                        uint64_t* dropped) const = 0;
  Status encode(std::string_view text, bool parse_special, std::vector<int32_t>* out, int32_t previous = -1) const {
    return encode(text, parse_special, out, previous, nullptr);
  }
  // The text that the tokens of `text` spell, with special ones, where the vocabulary's normalizer makes another of it (NFC).
  virtual std::string normalized(std::string text) const { return text; }
  // False: text with this byte loses it, but in the spelling of a control or user-defined token.
  virtual bool spells(uint8_t byte) const = 0;
  // The bytes of such a token's spelling at the beginning of `text`; 0: there is none.
  virtual size_t special_at(std::string_view text) const = 0;
  // The token's bytes (may be part of a code point); control tokens give "" unless `special`. id must be < vocab_size().
  virtual std::string_view piece(int32_t id, bool special) const = 0;
  // The same of a token that follows `previous` (-1: none): without the space that add_space_prefix put there.
  virtual std::string_view piece_after(int32_t previous, int32_t id, bool special) const = 0;
  virtual std::string decode(std::span<const int32_t> ids, bool special, int32_t previous) const = 0;
  std::string decode(std::span<const int32_t> ids, bool special) const { return decode(ids, special, -1); }

  virtual uint32_t vocab_size() const = 0;
  virtual int32_t bos() const = 0;  // -1: none
  virtual int32_t eos() const = 0;
  virtual bool add_bos() const = 0;
  virtual bool is_end(int32_t id) const = 0;  // ends a generation: eos, eot, eom, fim ends, and the end-of-turn tokens known by name
  virtual bool is_control(int32_t id) const = 0;
  virtual bool is_unused(int32_t id) const = 0;    // it fills the vocabulary up: a model never learned it
  virtual const Hash256& text_id() const = 0;      // all that decides which tokens a text has
  virtual const std::string& warning() const = 0;  // names the guesses that had to be made; "": none
};

// Holds back the bytes of an unfinished code point. One per generation.
class Utf8Stream {
 public:
  // Appends the piece; returns the whole code points now available (valid until the next call). Bytes that can never become
  // valid come out as U+FFFD.
  std::string_view push(std::string_view bytes);
  std::string_view finish();  // the bytes held, as U+FFFD
  bool pending() const { return !held_.empty(); }

 private:
  std::string held_, out_;
};

}  // namespace kvrt
