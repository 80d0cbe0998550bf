#include "runtime/text/tokenizer/vocabulary.h"

#include <algorithm>
#include <bit>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/markers.h"

namespace kvrt {

void TokenIndex::reserve(size_t tokens) { slots_.resize(std::bit_ceil(std::max<size_t>(tokens * 2, 2))); }

size_t TokenIndex::slot_of(std::string_view bytes, uint64_t hash) const {
  size_t mask = slots_.size() - 1;
  for (size_t at = (hash >> 20) & mask;; at = (at + 1) & mask) {
    const Entry& e = slots_[at];
    if (e.id < 0 || (e.tag == static_cast<uint16_t>(hash) && std::string_view(e.data, e.size) == bytes)) return at;
  }
}

bool TokenIndex::insert(std::string_view bytes, int32_t id) {
  static_assert(kTokenBytesMax <= UINT16_MAX);
  KVRT_CHECK(bytes.size() <= kTokenBytesMax);
  const uint64_t hash = hash_bytes(bytes);
  Entry& e = slots_[slot_of(bytes, hash)];
  if (e.id >= 0) return false;
  e = {bytes.data(), static_cast<uint16_t>(bytes.size()), static_cast<uint16_t>(hash), id};
  longest_ = std::max(longest_, bytes.size());
  return true;
}

int32_t TokenIndex::find(std::string_view bytes) const {
  return bytes.size() > longest_ ? -1 : slots_[slot_of(bytes, hash_bytes(bytes))].id;
}

Status VocabTokenizer::check(const VocabSource& source) const {
  size_t count = source.tokens.size();
  if (count == 0) return error(Code::kCorrupt, Detail::kFormat, "vocabulary: tokenizer.ggml.tokens is empty");
  if (count > kVocabMax) return error(Code::kLimit, Detail::kNone, "vocabulary: %zu tokens, the limit is %u", count, kVocabMax);
  if (!source.types.empty() && source.types.size() != count) {
    return error(Code::kCorrupt, Detail::kFormat, "vocabulary: %zu tokens but %zu token types", count, source.types.size());
  }
  for (size_t i = 0; i < count; ++i) {
    if (!source.types.empty() && (source.types[i] < kNormal || source.types[i] > kByte)) {
      return error(Code::kCorrupt, Detail::kFormat, "token %zu: type %lld, expected 1 to 6", i, static_cast<long long>(source.types[i]));
    }
    if (source.tokens[i].size() > kTokenBytesMax) {
      return error(Code::kLimit, Detail::kNone, "token %zu: %zu bytes, the limit is %zu", i, source.tokens[i].size(), kTokenBytesMax);
    }
    if (find_invalid_utf8(source.tokens[i]) != std::string_view::npos)
      return error(Code::kCorrupt, Detail::kFormat, "token %zu: not valid UTF-8", i);
  }
  const std::pair<const char*, int64_t> ids[] = {{"bos", source.bos},         {"eos", source.eos},         {"eot", source.eot},
                                                 {"eom", source.eom},         {"fim_pad", source.fim_pad}, {"fim_rep", source.fim_rep},
                                                 {"fim_sep", source.fim_sep}, {"unknown", source.unknown}, {"padding", source.padding}};
  for (auto [name, id] : ids) {
    if (id < -1 || id >= static_cast<int64_t>(count)) {
      return error(Code::kCorrupt, Detail::kFormat, "vocabulary: %s token id %lld, but there are %zu tokens", name,
                   static_cast<long long>(id), count);
    }
  }
  return Status::ok();
}

Status VocabTokenizer::add_token(std::string_view bytes, uint8_t type) {
  bytes_.append(bytes);
  if (bytes_.size() > UINT32_MAX) return error(Code::kLimit, Detail::kNone, "vocabulary: the tokens have more than 4 GiB");
  offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  types_.push_back(type);
  return Status::ok();
}

Status VocabTokenizer::finish(const VocabSource& source) {
  bos_ = static_cast<int32_t>(source.bos);
  eos_ = static_cast<int32_t>(source.eos);
  add_bos_ = source.add_bos.value_or(add_bos_) && bos_ >= 0;
  // Many files name a control token (end of text, say) as the unknown one: plain text must not be able to end a turn.
  if (source.unknown >= 0 && types_[static_cast<size_t>(source.unknown)] == kUnknown) unknown_ = static_cast<int32_t>(source.unknown);
  if (!source.corrected.empty()) warning_ += (warning_.empty() ? "" : "; ") + source.corrected;
  find_ends(source);
  identify(source);
  return Status::ok();
}

void VocabTokenizer::find_ends(const VocabSource& source) {
  auto add = [this](int64_t id) {
    if (id >= 0 && !is_end(static_cast<int32_t>(id))) ends_.push_back(static_cast<int32_t>(id));
  };
  int64_t end = -1;
  bool call = false, turn = false;
  for (size_t i = 0; i < source.tokens.size(); ++i) {
    std::string_view token = source.tokens[i];
    bool special = types_[i] == kControl || types_[i] == kUserDefined;
    if (!special || !ends_turn(token)) continue;
    call |= token == "<|call|>" || token == "<|calls|>";
    turn |= token == "<|return|>" || token == "<|flush|>";
    if (token == "<|end|>") {
      end = static_cast<int64_t>(i);
    } else {
      add(static_cast<int64_t>(i));
    }
  }
  if (!call || !turn) add(end);  // in the formats that have those, it ends a message of a turn that goes on
  for (int64_t id : {source.eos, source.eot, source.eom, source.fim_pad, source.fim_rep, source.fim_sep}) add(id);
}

void VocabTokenizer::identify(const VocabSource& source) {
  Hasher hasher;
  hasher.add_string("kvrt text 2").add_string(source.model).add_string(source.pre);
  hasher.add_u64(source.tokens.size());
  for (size_t i = 0; i < source.tokens.size(); ++i) hasher.add_string(source.tokens[i]).add_u64(types_[i]);
  hasher.add_u64(source.scores.size());
  for (float score : source.scores) hasher.add_u64(std::bit_cast<uint32_t>(score));
  hasher.add_u64(source.merges.size());
  for (std::string_view merge : source.merges) hasher.add_string(merge);
  hasher.add_string(source.charsmap);
  for (int64_t id :
       {source.bos, source.eos, source.eot, source.eom, source.fim_pad, source.fim_rep, source.fim_sep, source.unknown, source.padding}) {
    hasher.add_u64(static_cast<uint64_t>(id));
  }
  for (auto flag : {source.add_bos, source.add_eos, source.add_space_prefix, source.remove_extra_whitespaces}) {
    hasher.add_u64(flag ? *flag : 2u);
  }
  if (source.lowercase || source.strip_accents) {  // else as before there were these
    for (auto flag : {source.lowercase, source.strip_accents}) hasher.add_u64(flag ? *flag : 2u);
  }
  text_id_ = hasher.finish();
}

bool VocabTokenizer::is_end(int32_t id) const { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }

std::string_view VocabTokenizer::piece(int32_t id, bool special) const {
  KVRT_CHECK(id >= 0 && static_cast<size_t>(id) < types_.size());
  bool hidden = type_of(id) == kControl || type_of(id) == kUnknown;
  return hidden && !special ? std::string_view() : bytes_of(id);
}

std::string_view VocabTokenizer::piece_after(int32_t previous, int32_t id, bool special) const {
  std::string_view bytes = piece(id, special);
  bool text = type_of(id) != kControl && type_of(id) != kUnknown;
  if (space_prefix_ && text && opens(previous) && bytes.starts_with(' ')) bytes.remove_prefix(1);
  return bytes;
}

std::string VocabTokenizer::decode(std::span<const int32_t> ids, bool special, int32_t previous) const {
  std::string text;
  for (int32_t id : ids) {
    text.append(piece_after(previous, id, special));
    previous = id;
  }
  return text;
}

Status VocabTokenizer::encode(std::string_view text, bool parse_special, std::vector<int32_t>* out, int32_t previous,
                              uint64_t* dropped) const {
  if (text.size() > kTextBytesMax)
    return error(Code::kLimit, Detail::kNone, "text: %zu bytes, the limit is %zu", text.size(), kTextBytesMax);
  const SpecialTokens& cuts = parse_special ? special_ : cuts_;
  auto scratch = make_scratch(text.size());
  size_t before = out->size();
  size_t at = 0;
  while (at < text.size()) {
    SpecialTokens::Match match;
    if (!cuts.empty()) match = cuts.find(text, at);
    size_t end = match.id >= 0 ? match.begin : text.size();
    if (end > at) {
      Status status = encode_run(text.substr(at, end - at), opens(previous), scratch.get(), out);
      if (!status.is_ok()) {
        out->resize(before);
        return status;
      }
      if (out->size() > before) previous = out->back();
    }
    if (match.id >= 0) out->push_back(previous = match.id);
    at = match.id >= 0 ? match.end : text.size();
  }
  if (dropped != nullptr) *dropped = scratch->dropped;
  return Status::ok();
}

}  // namespace kvrt
