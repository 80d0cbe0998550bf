// SentencePiece's Unigram ("t5"): the pieces whose scores have the greatest sum. The sums are rounded where SentencePiece rounds them, so
// that ties fall the same way.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/spm_vocabulary.h"

namespace kvrt {

namespace {

constexpr float kUnknownPenalty = 10;
constexpr float kSumMax = 100'000;

// All pieces by their bytes: one look per byte of text.
class ByteTrie {
 public:
  ByteTrie() : slots_(2), values_(1, -1) {}
  void add(std::string_view bytes, int32_t value) {
    uint32_t node = 0;
    for (char c : bytes) node = child_or_new(node, static_cast<unsigned char>(c));
    values_[node] = value;
  }
  // 0: no child.
  uint32_t child(uint32_t node, unsigned char byte) const {
    uint64_t key = key_of(node, byte);
    for (size_t at = slot_of(key);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == key) return slots_[at].node;
      if (slots_[at].key == 0) return 0;
    }
  }
  int32_t value(uint32_t node) const { return values_[node]; }

 private:
  struct Slot {
    uint64_t key = 0;  // 0: free
    uint32_t node = 0;
  };
  static uint64_t key_of(uint32_t node, unsigned char byte) { return (static_cast<uint64_t>(node) << 8 | byte) + 1; }
  size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u >> 20) & (slots_.size() - 1); }
  void put(Slot slot) {
    size_t at = slot_of(slot.key);
    while (slots_[at].key != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
  uint32_t child_or_new(uint32_t node, unsigned char byte) {
    if (uint32_t next = child(node, byte)) return next;
    auto fresh = static_cast<uint32_t>(values_.size());
    values_.push_back(-1);
    if (values_.size() * 2 > slots_.size()) {
      std::vector<Slot> old(slots_.size() * 2);
      old.swap(slots_);
      for (const Slot& slot : old) {
        if (slot.key != 0) put(slot);
      }
    }
    put({key_of(node, byte), fresh});
    return fresh;
  }

  std::vector<Slot> slots_;  // open addressing, at most half full
  std::vector<int32_t> values_;
};

class Unigram final : public SpmTokenizer {
 public:
  Status init(const VocabSource& source);

 private:
  // The best way to the bytes before a place: its last piece (-1: none), where that begins, and the sum of scores.
  struct Best {
    int32_t id = -1;
    uint32_t begin = kNowhere;
    float score = 0;
  };
  struct Work final : Scratch {
    std::string normalized;
    std::vector<Best> best;
    std::vector<uint32_t> ends;
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;

  std::unique_ptr<Scratch> make_scratch(size_t) const override { return std::make_unique<Work>(); }
  Status encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const override;
  void search(std::string_view text, std::vector<Best>* best) const;

  ByteTrie trie_;
  float unknown_score_ = 0;
};

Status Unigram::init(const VocabSource& source) {
  KVRT_TRY(init_pieces(source, {.add_bos = false}));
  float lowest = std::numeric_limits<float>::max();
  for (int32_t id = 0; id < static_cast<int32_t>(vocab_size()); ++id) {
    std::string_view bytes = bytes_of(id);
    if (type_of(id) == kNormal) lowest = std::min(lowest, scores_[static_cast<size_t>(id)]);
    if (type_of(id) == kUserDefined) {  // better than any other way, a longer one more so; U+2581 counts with its three bytes
      auto length = bytes.size() + 2 * static_cast<size_t>(std::count(bytes.begin(), bytes.end(), ' '));
      scores_[static_cast<size_t>(id)] = static_cast<float>(0.1 * (static_cast<double>(length) - 1));
    }
    if (type_of(id) != kUnused && indexed_[static_cast<size_t>(id)]) trie_.add(bytes, id);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  return {};
}

void Unigram::search(std::string_view text, std::vector<Best>* best) const {
  best->assign(text.size() + 1, Best{});
  size_t reached = 0;
  for (size_t begin = 0; begin < text.size();) {
    Best* b = best->data();
    if (std::abs(b[begin].score) > kSumMax) {  // only differences count: a long text must not eat the digits
      const float sum = b[begin].score;
      for (size_t i = begin; i <= reached; ++i) {
        if (i == begin || b[i].begin != kNowhere) b[i].score -= sum;
      }
    }
    const float here = b[begin].score;
    auto offer = [&](size_t end, int32_t id, float score) {
      reached = std::max(reached, end);
      if (b[end].begin == kNowhere || score > b[end].score) b[end] = {id, static_cast<uint32_t>(begin), score};
    };
    size_t size = std::max<size_t>(1, read_code_point(text.substr(begin)).size);
    bool single = false;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size();) {
      node = trie_.child(node, static_cast<unsigned char>(text[at]));
      if (node == 0) break;
      ++at;
      int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(at, id, scores_[static_cast<size_t>(id)] + here);
      single |= at - begin == size;
    }
    if (!single) offer(begin + size, -1, unknown_score_ + here);
    begin += size;
  }
}

Status Unigram::encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const {
  auto* work = static_cast<Work*>(scratch);
  KVRT_ASSIGN(const std::string_view all, normalizer_.apply(text, space_prefix_ && opens, user_, &work->normalized));
  search(all, &work->best);
  work->ends.clear();
  for (size_t end = all.size(); end > 0; end = work->best[end].begin) work->ends.push_back(static_cast<uint32_t>(end));
  size_t before = out->size();
  for (auto end = work->ends.rbegin(); end != work->ends.rend(); ++end) {
    const Best& b = work->best[*end];
    std::string_view piece = all.substr(b.begin, *end - b.begin);
    if (b.id >= 0) {
      out->push_back(b.id);
    } else {
      work->dropped += add_unknown(piece, before, out);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_unigram(const VocabSource& source) {
  auto tokenizer = std::make_unique<Unigram>();
  KVRT_TRY(tokenizer->init(source));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace kvrt
