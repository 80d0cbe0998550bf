// SpmTokenizer: the base of the SentencePiece families: pieces with scores, U+2581 for a space, byte tokens, the normalizer.
#pragma once

#include "runtime/text/tokenizer/normalizer.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace kvrt {

class SpmTokenizer : public VocabTokenizer {
 protected:
  // What a kind of tokenizer does where the file does not say; and whether it goes by scores.
  struct Defaults {
    bool add_bos, space_prefix = true, scores = true;
  };
  // Fills all but the search for pieces.
  Status init_pieces(const VocabSource& source, Defaults defaults);
  // Adds the tokens of a character without a piece: its byte tokens, or the unknown token (one for several in a row). The count of bytes
  // that have neither.
  uint64_t add_unknown(std::string_view text, size_t before, std::vector<int32_t>* out) const;

  TokenIndex index_;           // normal, unused and user-defined pieces, a space for U+2581
  std::vector<bool> indexed_;  // [id]: index_ finds the piece
  SpecialTokens user_;         // user-defined pieces: found before all others
  std::vector<float> scores_;
  SpmNormalizer normalizer_;
  bool byte_fallback_ = false;

 private:
  Status add_piece(const VocabSource& source, size_t i);
};

}  // namespace kvrt
