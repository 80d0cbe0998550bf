// Summary: what a record says of a configuration, and how that differs from the base.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/cli/eval/cases/case.h"
#include "bindings/cli/eval/data.h"
#include "bindings/cli/eval/numbers.h"
#include "bindings/cli/eval/record.h"

namespace cli::eval {

// The size of a run.
struct Size {
  uint64_t seed = 1;
  uint32_t tokens_max = 4096;         // of a case
  uint32_t decodes = 4;               // long answers
  uint32_t decode_tokens = 512;       // tokens of each
  std::vector<std::string> axes;      // names
  std::vector<std::string> programs;  // likewise
  std::vector<std::string> data;      // of files of --data: likewise
  uint32_t times = 1;                 // cases of an axis: so many times its default
  bool has(const std::string& axis) const { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }
};

// A score and how much it is above the base's, by pairs of answers to one question.
struct Score {
  std::string name;
  Mean score, difference;
};

struct AxisSummary {
  Score score;
  std::vector<Score> parts;  // of answers that have several
  double chance = 0;         // below 0: nobody knows
  bool at_chance = false;    // the base is: only the agreement tells anything
  Mean agreement;            // the share of answers that are the base's, letter by letter
};

// How well a text of --data is predicted.
struct TextSummary {
  std::string name;
  uint64_t bytes = 0, words = 0, windows = 0;
  Mean bits_per_byte, difference;  // n: tokens. The base's are subtracted token by token
  double nats = 0;                 // of all tokens: minus the log of the text's probability
};
// exp of the nats of each byte or word; nothing: a double has no room for it.
std::optional<double> perplexity(const TextSummary& text, uint64_t pieces);

// Of predictions beside others, position by position.
struct Divergences {
  Mean mean;                           // KL(the others || these), in nats
  double per_mille_999 = 0, most = 0;  // 99.9 % of positions have no more
  Mean flips;                          // the share of positions whose best token is another
};

// What predicts the text of --foreign: a candidate, or a file.
struct ForeignSummary {
  std::string name;
  bool foreign = false;
  Divergences to_base;                // the run's base
  std::optional<Divergences> to_own;  // the file that --foreign-base names
};

struct Summary {
  std::string configuration;
  uint64_t bytes_per_token = 0, rows = 0;
  std::vector<AxisSummary> axes;
  std::vector<TextSummary> texts;
  Mean divergence;            // KL(base || this), in nats, where tokens of long answers are predicted
  double divergence_999 = 0;  // 99.9 % of positions have no more
  double divergence_most = 0;
  Mean divergence_log10;                   // of the decimal logarithms: what a typical position has, whatever a few cost
  Mean text_divergence;                    // of each position of the long text and the answer to it
  double text_divergence_999 = 0;          // likewise
  Mean text_divergence_log10;              // likewise
  std::string text_tokens_sha256;          // of these tokens, as 32-bit numbers in
                                           // little-endian order
  Mean flips;                              // the share of positions whose best token is another
  std::vector<double> divergence_by_part;  // means of eighths of the long answers, by position
  Mean first_difference;                   // tokens of a long answer before it leaves the base's
  Mean repetition;                         // the share of runs of eight tokens of an answer that it had before
  Mean length;                             // of a long answer, in lengths of the base's
};

Summary summarize(const Size& size, const std::vector<DataFile>& data, const Record& record, const std::string& base,
                  const std::string& configuration);
// The same of what --data has.
void summarize_data(const std::vector<DataFile>& data, const Measured& base, const Measured& measured, Summary* out);
// A reading of each window: they stand under numbers from `first` on. Rows that lie near each other count as one case of an interval.
Divergences divergences_of(const Measured& measured, uint32_t first, uint32_t windows);
// The name under which a record has what a file of --foreign predicts beside the file that --foreign-base names.
inline std::string to_own(const std::string& name) { return name + " to its own"; }
inline uint32_t first_window(const Size& size) { return size.decodes + 1; }  // the number of a reading
// Of pairs of answers to one question; nothing where they are no pairs.
Mean difference(const std::vector<double>& base, const std::vector<double>& values, std::span<const uint32_t> cases);
bool at_chance(const Mean& base, double chance);

uint32_t cases_of(const Size& size, const Axis& axis);

}  // namespace cli::eval
