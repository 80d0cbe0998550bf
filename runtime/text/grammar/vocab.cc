#include "runtime/text/grammar/vocab.h"

#include <algorithm>
#include <array>

#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

namespace {

// Characters of a token of plain text, or 0.
uint32_t plain_length(std::string_view bytes) {
  uint32_t count = 0;
  while (!bytes.empty()) {
    const char first = bytes.front();
    if (first >= 0x20 && first < 0x7F && first != '"' && first != '\\') {
      if (++count > kPlainRunMax) return 0;
      bytes.remove_prefix(1);
      continue;
    }
    const CodePoint c = read_code_point(bytes);
    if (c.size == 0 || ++count > kPlainRunMax || !plain_text().contains(c.value)) return 0;
    bytes.remove_prefix(c.size);
  }
  return count;
}

void set_bit(std::vector<uint64_t>* mask, int32_t token) { (*mask)[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64); }

// Sorts by bytes, then by id. Most comparisons end within the first eight bytes, which are kept beside.
void sort_by_text(const GrammarVocab::Impl& v, std::vector<int32_t>* tokens) {
  std::vector<std::pair<uint64_t, int32_t>> keyed;
  keyed.reserve(tokens->size());
  for (int32_t token : *tokens) {
    const std::string_view text = v.text(token);
    uint64_t key = 0;
    for (size_t i = 0; i < 8; ++i) key = key << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
    keyed.emplace_back(key, token);
  }
  std::sort(keyed.begin(), keyed.end(), [&v](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    const int order = v.text(a.second).compare(v.text(b.second));
    return order != 0 ? order < 0 : a.second < b.second;
  });
  for (size_t i = 0; i < keyed.size(); ++i) (*tokens)[i] = keyed[i].second;
}

// `sorted` by their bytes; `length` in characters of a token, for `longest`.
template <class Length>
TokenTrie make_trie(const GrammarVocab::Impl& v, std::vector<int32_t> sorted, Length length) {
  TokenTrie trie;
  std::vector<uint32_t> path;  // the nodes that the last token went through
  std::string_view last;
  auto leave = [&](size_t depth) {
    while (path.size() > depth) {
      const uint32_t at = path.back();
      TokenTrie::Node& node = trie.nodes[at];
      node.next = static_cast<uint32_t>(trie.nodes.size());
      path.pop_back();
      if (path.empty()) continue;
      trie.nodes[path.back()].longest = std::max(trie.nodes[path.back()].longest, node.longest);
      trie.below[path.back()] |= trie.below[at] | byte_kind(node.byte);
    }
  };
  for (uint32_t n = 0; n < sorted.size(); ++n) {
    const std::string_view text = v.text(sorted[n]);
    const size_t shared = static_cast<size_t>(std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    leave(shared);
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({0, n, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(text[i]), 0});
      trie.below.push_back(0);
    }
    trie.nodes[path.back()].longest = static_cast<uint8_t>(length(sorted[n]));
    trie.depth_max = std::max(trie.depth_max, static_cast<uint32_t>(text.size()));
    last = text;
  }
  leave(0);
  trie.nodes.push_back({0, static_cast<uint32_t>(sorted.size()), 0, 0, 0});
  trie.nodes.shrink_to_fit();
  trie.tokens = std::move(sorted);
  return trie;
}

}  // namespace

uint64_t byte_kind(uint8_t byte) {
  static const std::array<uint8_t, 256> kKinds = [] {
    std::array<uint8_t, 256> kinds{};
    uint8_t next = 10;
    for (size_t b = 0; b < 256; ++b) {
      const bool small = b >= 'a' && b <= 'z', digit = b >= '0' && b <= '9', capital = b >= 'A' && b <= 'Z', line = b >= '\t' && b <= '\r';
      kinds[b] = b >= 0xF0 ? 0 : b >= 0xE0 ? 1 : b >= 0xC0 ? 2 : b >= 0x80 ? 3 : small ? 4 : digit ? 5 : capital ? 6 : line ? 7 : 8;
      if (b >= ' ' && b < 0x7F && kinds[b] == 8) kinds[b] = next++;  // each mark of its own
    }
    return kinds;
  }();
  return uint64_t{1} << kKinds[byte];
}

std::shared_ptr<const GrammarVocab> GrammarVocab::make(const Tokenizer& tokenizer) {
  auto v = std::make_unique<Impl>();
  v->tokens = tokenizer.vocab_size();
  v->end_mask.assign(v->words(), 0);
  v->offsets.push_back(0);
  v->ordinary_mask.assign(v->words(), 0);
  std::vector<int32_t>& texts = v->texts;
  for (int32_t id = 0; id < static_cast<int32_t>(v->tokens); ++id) {
    const bool end = tokenizer.is_end(id), unused = tokenizer.is_unused(id);
    if (end) set_bit(&v->end_mask, id);
    const std::string_view spelled = tokenizer.piece(id, true);
    if (!end && !unused && !spelled.empty()) set_bit(&v->ordinary_mask, id);
    // A token that a reader of the answer would not see is no text; nor is one longer than any word.
    const std::string_view text = end || unused || tokenizer.is_control(id) ? std::string_view() : tokenizer.piece(id, false);
    if (!text.empty() && text.size() <= UINT16_MAX) {
      v->bytes.append(text);
      texts.push_back(id);
    } else if (!spelled.empty()) {
      v->hidden.try_emplace(std::string(spelled), id);
    }
    v->offsets.push_back(static_cast<uint32_t>(v->bytes.size()));
  }
  sort_by_text(*v, &texts);
  v->plain_masks.assign(kPlainRunMax + 1, std::vector<uint64_t>(v->words(), 0));
  std::vector<uint8_t> lengths(v->tokens, 0);
  std::vector<int32_t> plain, other;
  for (int32_t token : texts) {
    const uint32_t length = plain_length(v->text(token));
    lengths[static_cast<size_t>(token)] = static_cast<uint8_t>(length);
    if (length) set_bit(&v->plain_masks[length], token);
    (length ? plain : other).push_back(token);
  }
  for (uint32_t n = 1; n <= kPlainRunMax; ++n) {
    for (size_t i = 0; i < v->words(); ++i) v->plain_masks[n][i] |= v->plain_masks[n - 1][i];
  }
  v->plain = make_trie(*v, std::move(plain), [&](int32_t t) { return lengths[static_cast<size_t>(t)]; });
  v->other = make_trie(*v, std::move(other), [&](int32_t) { return 0; });
  return std::make_shared<const GrammarVocab>(std::move(v));
}

uint32_t GrammarVocab::tokens() const { return impl_->tokens; }

int32_t GrammarVocab::find(std::string_view text) const {
  const auto hidden = impl_->hidden.find(text);
  if (hidden != impl_->hidden.end()) return hidden->second;
  const auto at = std::ranges::lower_bound(impl_->texts, text, {}, [&](int32_t id) { return impl_->text(id); });
  return at != impl_->texts.end() && impl_->text(*at) == text ? *at : -1;
}

GrammarVocab::GrammarVocab(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
GrammarVocab::~GrammarVocab() = default;

}  // namespace kvrt
