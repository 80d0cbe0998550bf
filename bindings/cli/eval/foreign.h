// Foreign: predictions of another program beside those of the model, as llama-perplexity writes them (--kl-divergence-base). Such a file
// has the tokens of a text, cut into windows, and a row of predictions at each position of a window's second half.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/cli/eval/record.h"
#include "bindings/cli/eval/told.h"

namespace cli::eval {

// A file: "_logits_", u32 tokens a window, i32 tokens of the vocabulary, i32 windows, i32 tokens [windows][tokens a window]; then a row for
// each position from the middle of a window to its last but one: f32 step, f32 least, u16 [vocabulary, and one more if that is odd].
class ForeignFile {
 public:
  static kvrt_status open(const std::string& name, const std::string& path, ForeignFile* out);
  // CORRUPT: the row has no probabilities.
  kvrt_status read(uint32_t window, uint32_t row, Told* out);

  std::string name, path, sha256;
  uint32_t context = 0, vocabulary = 0, windows = 0;
  std::vector<int32_t> tokens;                             // of all windows
  uint32_t first() const { return context / 2; }           // position of a window's first row
  uint32_t rows() const { return context - 1 - first(); }  // of a window

 private:
  kvrt_status refuse(kvrt_status status, const std::string& why) const;
  kvrt_status read_header(uint64_t size);
  uint64_t row_bytes() const { return 2 * sizeof(float) + (uint64_t{vocabulary} + vocabulary % 2) * sizeof(uint16_t); }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

// The text that all files of --foreign have.
class ForeignText {
 public:
  // Complains of files that have not the same text.
  kvrt_status open(const EvalFlags& flags);
  bool empty() const { return files_.empty(); }
  const std::vector<ForeignFile>& files() const { return files_; }
  const ForeignFile* own_base() const { return own_ < files_.size() ? &files_[own_] : nullptr; }
  uint32_t context() const { return empty() ? 0 : files_[0].context; }
  uint32_t windows() const { return empty() ? 0 : files_[0].windows; }
  uint64_t rows() const { return empty() ? 0 : files_[0].tokens.size(); }  // to compute for a configuration
  std::string identity() const;                                            // of names and contents
  std::string tokens_sha256() const;
  // Complains of a model with another vocabulary, or a shorter context.
  kvrt_status check(const Model& model) const;

  // Readings number their flips from a window's first row on. A window's rows of each file beside the base's; then beside those of
  // own_base(), if there is one, by the same order of files. CANCELLED: Ctrl-C came. A failure leaves its position in `place`.
  kvrt_status read(const Model& base, uint32_t window, Place* place, std::vector<Reading>* by_base, std::vector<Reading>* by_own);
  // A window's rows of a candidate beside the base's.
  kvrt_status read(const Model& base, const Model& candidate, uint32_t window, Place* place, Reading* out) const;

 private:
  kvrt_status refuse(const ForeignFile& file, const std::string& why) const;
  std::vector<int32_t> window_of(const Model& model, uint32_t window) const;
  std::vector<ForeignFile> files_;
  size_t own_ = SIZE_MAX;
};

}  // namespace cli::eval
