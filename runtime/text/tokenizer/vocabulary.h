// VocabTokenizer: the base of all tokenizers: the tokens' bytes and types, special tokens, ends of a turn, decoding.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/tokenizer/hash_bytes.h"
#include "runtime/text/tokenizer/special_tokens.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

enum TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Token ids by the tokens' bytes. The bytes belong to its owner.
class TokenIndex {
 public:
  void reserve(size_t tokens);
  // false: these bytes are there already, and stay.
  bool insert(std::string_view bytes, int32_t id);
  int32_t find(std::string_view bytes) const;  // -1: none
  size_t longest() const { return longest_; }

 private:
  size_t slot_of(std::string_view bytes, uint64_t hash) const;

  struct Entry {
    const char* data = nullptr;
    uint16_t size = 0;  // kTokenBytesMax fits
    uint16_t tag = 0;   // bits of the hash: other bytes are hardly ever looked at
    int32_t id = -1;    // -1: free
  };
  std::vector<Entry> slots_;  // open addressing, at most half full
  size_t longest_ = 0;
};

// Immutable after init: any thread.
class VocabTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  Status encode(std::string_view text, bool parse_special, std::vector<int32_t>* out, int32_t previous, uint64_t* dropped) const override;
  bool spells(uint8_t byte) const override { return !byte_level_ || byte_tokens_[byte] >= 0 || unknown_ >= 0; }
  size_t special_at(std::string_view text) const override { return special_.match(text); }
  std::string_view piece(int32_t id, bool special) const override;
  std::string_view piece_after(int32_t previous, int32_t id, bool special) const override;
  std::string decode(std::span<const int32_t> ids, bool special, int32_t previous) const override;
  uint32_t vocab_size() const override { return static_cast<uint32_t>(types_.size()); }
  int32_t bos() const override { return bos_; }
  int32_t eos() const override { return eos_; }
  bool add_bos() const override { return add_bos_; }
  bool is_end(int32_t id) const override;
  bool is_control(int32_t id) const override { return types_[static_cast<size_t>(id)] == kControl; }
  bool is_unused(int32_t id) const override { return types_[static_cast<size_t>(id)] == kUnused; }
  const Hash256& text_id() const override { return text_id_; }
  const std::string& warning() const override { return warning_; }

 protected:
  // Working memory of one encode call.
  struct Scratch {
    virtual ~Scratch() = default;
    uint64_t dropped = 0;  // bytes without a token
  };
  // Encodes text that lies between special tokens. `opens`: it begins a text, or follows a control token.
  virtual Status encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const = 0;
  virtual std::unique_ptr<Scratch> make_scratch(size_t text_bytes) const = 0;

  // The checks that every vocabulary passes.
  Status check(const VocabSource& source) const;
  // Appends the bytes of the next token, and its type.
  Status add_token(std::string_view bytes, uint8_t type);
  void add_bos_default(bool add) { add_bos_ = add; }  // where the file does not say
  void add_bos_always() { add_bos_ = bos_ >= 0; }     // whatever it says; after finish
  // After all tokens: special ids, ends, text_id.
  Status finish(const VocabSource& source);
  bool opens(int32_t previous) const { return previous < 0 || types_[static_cast<size_t>(previous)] == kControl; }
  std::string_view bytes_of(int32_t id) const {
    auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  uint8_t type_of(int32_t id) const { return types_[static_cast<size_t>(id)]; }

  SpecialTokens cuts_;         // tokens that cut any text
  SpecialTokens special_;      // those and the control tokens: parse_special cuts at them
  int32_t byte_tokens_[256];   // -1: none
  int32_t unknown_ = -1;       // text without a token becomes this; never a control token
  bool byte_level_ = false;    // text is spelled byte by byte
  bool space_prefix_ = false;  // a space stands before the text where it opens
  std::string warning_;

 private:
  void find_ends(const VocabSource& source);
  void identify(const VocabSource& source);

  std::string bytes_;  // the bytes of all tokens, in a row
  std::vector<uint32_t> offsets_ = {0};
  std::vector<uint8_t> types_;
  std::vector<int32_t> ends_;
  int32_t bos_ = -1, eos_ = -1;
  bool add_bos_ = false;
  Hash256 text_id_;
};

// The tokenizers, each made of one tokenizer.ggml.model.
Result<std::unique_ptr<Tokenizer>> make_byte_level(const VocabSource& source);  // "gpt2"
Result<std::unique_ptr<Tokenizer>> make_spm(const VocabSource& source);         // "llama", "gemma4"
Result<std::unique_ptr<Tokenizer>> make_unigram(const VocabSource& source);     // "t5"
Result<std::unique_ptr<Tokenizer>> make_wordpiece(const VocabSource& source);   // "bert"

}  // namespace kvrt
