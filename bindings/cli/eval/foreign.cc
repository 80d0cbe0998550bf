#include "bindings/cli/eval/foreign.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bindings/cli/eval/files.h"
#include "bindings/cli/eval/row_reader.h"

namespace cli::eval {

namespace {

constexpr std::string_view kForeignMagic = "_logits_";
constexpr uint64_t kForeignHeader = 8 + 3 * sizeof(uint32_t);
constexpr uint32_t kContextMost = 1u << 20, kVocabularyMost = 1u << 22,
                   kWindowsMost = 1u << 20;  // the product of their bytes fits into 64 bits

bool read_bytes(std::FILE* file, void* to, size_t size) { return std::fread(to, 1, size, file) == size; }

// Flips are numbered from a window's first row on.
void note_row(const Told& base, const Told& other, Reading* out) {
  if (base.best != other.best) out->flips.push_back(out->divergence.size());
  out->divergence.push_back(divergence(base, other));
}

}  // namespace

kvrt_status ForeignFile::refuse(kvrt_status status, const std::string& why) const {
  return complain(status, fmt::format("--foreign: {}: {}", in_quotes(path), why));
}

kvrt_status ForeignFile::open(const std::string& name, const std::string& path, ForeignFile* out) {
  out->name = name;
  out->path = path;
  out->file_.reset(std::fopen(path.c_str(), "rbe"));
  if (!out->file_) return out->refuse(errno == ENOENT ? KVRT_NOT_FOUND : KVRT_IO, std::strerror(errno));
  if (std::fseek(out->file_.get(), 0, SEEK_END) != 0) return out->refuse(KVRT_IO, std::strerror(errno));
  const auto size = static_cast<uint64_t>(std::max<long>(std::ftell(out->file_.get()), 0));
  std::rewind(out->file_.get());
  if (kvrt_status s = out->read_header(size)) return s;
  uint64_t bytes = 0;
  return sha256_of_model(path, &out->sha256, &bytes);
}

// Sizes are held against the file's before anything is allocated.
kvrt_status ForeignFile::read_header(uint64_t size) {
  char magic[8];
  uint32_t numbers[3] = {};
  if (!read_bytes(file_.get(), magic, sizeof magic) || std::string_view(magic, sizeof magic) != kForeignMagic)
    return refuse(KVRT_CORRUPT, "no file of llama-perplexity --kl-divergence-base: it begins with other bytes than \"_logits_\"");
  if (!read_bytes(file_.get(), numbers, sizeof numbers)) return refuse(KVRT_CORRUPT, "the file ends within its header");
  context = numbers[0], vocabulary = numbers[1], windows = numbers[2];
  if (context < 4 || context > kContextMost || vocabulary < 2 || vocabulary > kVocabularyMost || windows < 1 || windows > kWindowsMost) {
    return refuse(KVRT_CORRUPT,
                  fmt::format("it says {} windows of {} tokens, of a vocabulary of {}: 1 to {}, 4 to {} and 2 to {} are expected", windows,
                              context, vocabulary, kWindowsMost, kContextMost, kVocabularyMost));
  }
  const uint64_t wanted = kForeignHeader + windows * (uint64_t{context} * sizeof(int32_t) + rows() * row_bytes());
  if (size != wanted) {
    return refuse(KVRT_CORRUPT,
                  fmt::format("{} windows of {} tokens, of a vocabulary of {}, take {} bytes; the file has {}{}", windows, context,
                              vocabulary, wanted, size, size < wanted ? ": it was cut, or is still being written" : ""));
  }
  tokens.resize(uint64_t{windows} * context);
  if (!read_bytes(file_.get(), tokens.data(), tokens.size() * sizeof(int32_t))) return refuse(KVRT_IO, "cannot read its tokens");
  const auto off = std::find_if(tokens.begin(), tokens.end(), [&](int32_t t) { return t < 0 || static_cast<uint32_t>(t) >= vocabulary; });
  if (off == tokens.end()) return KVRT_OK;
  return refuse(KVRT_CORRUPT, fmt::format("token {} is {}, of a vocabulary of {}", off - tokens.begin(), *off, vocabulary));
}

kvrt_status ForeignFile::read(uint32_t window, uint32_t row, Told* out) {
  const uint64_t at = kForeignHeader + tokens.size() * sizeof(int32_t) + (uint64_t{window} * rows() + row) * row_bytes();
  float ends[2];
  std::vector<uint16_t> values(vocabulary);
  if (std::fseek(file_.get(), static_cast<long>(at), SEEK_SET) != 0 || !read_bytes(file_.get(), ends, sizeof ends) ||
      !read_bytes(file_.get(), values.data(), values.size() * sizeof(uint16_t)))
    return refuse(KVRT_IO, fmt::format("cannot read the row of position {} of window {}", first() + row, window));
  if (told_of(ends[0], ends[1], values, out)) return KVRT_OK;
  return refuse(KVRT_CORRUPT, fmt::format("the row of position {} of window {} has no probabilities: its step is {}, its least log {}",
                                          first() + row, window, ends[0], ends[1]));
}

kvrt_status ForeignText::refuse(const ForeignFile& file, const std::string& why) const {
  return complain(KVRT_INCOMPATIBLE, fmt::format("--foreign: {} {}", in_quotes(file.path), why));
}

kvrt_status ForeignText::open(const EvalFlags& flags) {
  for (const std::string& one : flags.foreign) {
    const size_t sign = one.find('=');
    const std::string name = one.substr(0, sign);
    if (sign == one.npos || name.empty() || sign + 1 == one.size())
      return complain(KVRT_INVALID, fmt::format("--foreign: NAME=FILE is expected, found {}", in_quotes(one)));
    const auto same = [&](const ForeignFile& file) { return file.name == name; };
    if (std::any_of(files_.begin(), files_.end(), same))
      return complain(KVRT_INVALID, fmt::format("--foreign: {} is named twice", in_quotes(name)));
    if (name == flags.foreign_base) own_ = files_.size();
    if (kvrt_status s = ForeignFile::open(name, one.substr(sign + 1), &files_.emplace_back())) return s;
  }
  if (!flags.foreign_base.empty() && !own_base())
    return complain(KVRT_INVALID, fmt::format("--foreign-base: {} is no NAME of --foreign", in_quotes(flags.foreign_base)));
  for (const ForeignFile& file : files_) {
    if (file.context != files_[0].context || file.vocabulary != files_[0].vocabulary || file.tokens != files_[0].tokens) {
      return refuse(file, fmt::format("has {} windows of {} tokens, {} has {} of {}, or other tokens: one text for all files is expected",
                                      file.windows, file.context, in_quotes(files_[0].path), files_[0].windows, files_[0].context));
    }
  }
  return KVRT_OK;
}

std::string ForeignText::identity() const {
  std::string all;
  for (const ForeignFile& file : files_) all += fmt::format("{} {}\n", file.sha256, file.name);
  return all + (own_base() ? own_base()->name : "");
}

std::string ForeignText::tokens_sha256() const {
  const std::vector<int32_t>& tokens = files_[0].tokens;
  return sha256({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)});
}

kvrt_status ForeignText::check(const Model& model) const {
  if (empty()) return KVRT_OK;
  const ForeignFile& file = files_[0];
  const auto info = model.info();
  if (info->vocab_size != file.vocabulary)
    return refuse(file, fmt::format("is of a model with a vocabulary of {}, this one's has {}", file.vocabulary, info->vocab_size));
  if (file.context <= tokens_held(*info)) return KVRT_OK;
  return refuse(file,
                fmt::format("has windows of {} tokens, the model, or its pool, holds {}: raise --kv-bytes, or make it with a smaller -c",
                            file.context, tokens_held(*info)));
}

// llama-perplexity puts the model's BOS, if its file asks for one, in place of a window's first token.
std::vector<int32_t> ForeignText::window_of(const Model& model, uint32_t window) const {
  const ForeignFile& file = files_[0];
  const auto begin = file.tokens.begin() + static_cast<ptrdiff_t>(uint64_t{window} * file.context);
  std::vector<int32_t> tokens(begin, begin + file.context - 1);
  if (model.info()->add_bos && model.info()->bos_token >= 0) tokens[0] = model.info()->bos_token;
  return tokens;
}

kvrt_status ForeignText::read(const Model& base, uint32_t window, Place* place, std::vector<Reading>* by_base,
                              std::vector<Reading>* by_own) {
  by_base->assign(files_.size(), {});
  by_own->assign(own_base() ? files_.size() : 0, {});
  RowReader rows;
  if (kvrt_status s = rows.begin(base, window_of(base, window), "cannot compute the base's logits")) return s;
  for (;;) {
    std::span<const float> row;
    if (kvrt_status s = rows.next(&row, &place->position)) return s;
    if (row.empty()) return KVRT_OK;
    if (place->position < files_[0].first()) continue;
    const auto index = static_cast<uint32_t>(place->position - files_[0].first());
    const Told its = told_of(row);
    std::vector<Told> told(files_.size());
    for (size_t f = 0; f < files_.size(); ++f) {
      if (kvrt_status s = files_[f].read(window, index, &told[f])) return s;
      note_row(its, told[f], &(*by_base)[f]);
    }
    for (size_t f = 0; f < by_own->size(); ++f) note_row(told[own_], told[f], &(*by_own)[f]);
  }
}

kvrt_status ForeignText::read(const Model& base, const Model& candidate, uint32_t window, Place* place, Reading* out) const {
  RowReader its, mine;
  if (kvrt_status s = its.begin(base, window_of(base, window), "cannot compute the base's logits")) return s;
  if (kvrt_status s = mine.begin(candidate, window_of(base, window), "cannot compute logits")) return s;
  for (;;) {
    std::span<const float> of_base, row;
    if (kvrt_status s = its.next(&of_base, &place->position)) return s;
    if (kvrt_status s = mine.next(&row, &place->position)) return s;
    if (of_base.empty() || row.empty()) return KVRT_OK;
    if (place->position < files_[0].first()) continue;
    note_row(told_of(of_base), told_near(row), out);
  }
}

}  // namespace cli::eval
