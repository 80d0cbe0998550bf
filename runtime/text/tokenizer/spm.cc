// SentencePiece's BPE ("llama": Llama 2, Mistral, Gemma, Phi-3): neighbours whose union is a piece merge, the best score first. And its
// relative with a list of merges ("gemma4"): the same pieces, spaces and byte tokens, but the list says what merges, and in which order.
#include <bit>
#include <unordered_map>

#include "runtime/base/utf8.h"
#include "runtime/text/tokenizer/bpe.h"
#include "runtime/text/tokenizer/piece_cache.h"
#include "runtime/text/tokenizer/spm_vocabulary.h"

namespace kvrt {

namespace {

// A part of the text, and its piece (-1: none).
struct Part {
  uint32_t begin, size;
  int32_t id;
  bool operator==(const Part&) const = default;
};

// The pairs of code points that stand side by side in some piece. Between others no merge can happen, so text is cut there and its parts
// merge on their own. A filter: it may say yes where the answer is no, which only makes a part longer.
class Joints {
 public:
  explicit Joints(size_t pieces)
      : bits_(std::bit_ceil(std::max<size_t>(pieces / 2, 64))), shift_(64 - 6 - std::countr_zero(bits_.size())) {}
  void add(char32_t left, char32_t right) {
    uint64_t h = hash(left, right);
    bits_[h >> 6] |= uint64_t{1} << (h & 63);
  }
  bool may_join(char32_t left, char32_t right) const {
    uint64_t h = hash(left, right);
    return bits_[h >> 6] >> (h & 63) & 1;
  }

 private:
  uint64_t hash(char32_t left, char32_t right) const {
    return ((static_cast<uint64_t>(left) << 32 | right) * 0x9E3779B97F4A7C15u) >> shift_;
  }
  std::vector<uint64_t> bits_;
  int shift_;
};

class Spm final : public SpmTokenizer {
 public:
  Status init(const VocabSource& source);

 private:
  struct Work final : Scratch {
    explicit Work(size_t text_bytes) : cache(text_bytes) {}
    PieceCache cache;
    std::string normalized;
    std::vector<Part> parts;
    std::vector<int32_t> ids;
    Merging<Part> merging;
    std::unordered_map<uint64_t, uint32_t> splits;  // unused pieces: from place and length to the size of the left part
    std::vector<Part> open;                         // parts of one, still to be taken apart
    static uint64_t key(uint32_t begin, uint32_t size) { return static_cast<uint64_t>(begin) << 32 | size; }
  };
  struct Rules {
    const Spm& spm;
    std::string_view text;
    Work* work;
    bool find(const Part& left, const Part& right, uint32_t* rank, Part* merged) const {
      uint32_t size = left.size + right.size;
      if (spm.by_merges_) {
        *merged = {left.begin, size, -1};
        return left.id >= 0 && right.id >= 0 && spm.merges_.find(left.id, right.id, rank, &merged->id);
      }
      int32_t id = spm.index_.find(text.substr(left.begin, size));
      if (id < 0) return false;
      if (spm.type_of(id) == kUnused) work->splits.insert_or_assign(Work::key(left.begin, size), left.size);
      *rank = spm.ranks_[static_cast<size_t>(id)];
      *merged = {left.begin, size, id};
      return true;
    }
  };

  std::unique_ptr<Scratch> make_scratch(size_t text_bytes) const override { return std::make_unique<Work>(text_bytes); }
  Status encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const override;
  void encode_piece(std::string_view piece, Work* work, size_t before, std::vector<int32_t>* out) const;
  void add_part(std::string_view piece, const Part& part, Work* work) const;

  bool by_merges_ = false;
  BpeMerges merges_;
  std::vector<uint32_t> ranks_;  // a piece's rank: the higher the score, the lower
  int32_t ascii_[128];           // pieces of one such character
  Joints joints_{0};
};

Status Spm::init(const VocabSource& source) {
  by_merges_ = source.model == "gemma4";
  KVRT_TRY(init_pieces(source, {.add_bos = true, .space_prefix = !by_merges_, .scores = !by_merges_}));
  if (by_merges_) {
    TokenIndex spellings;
    spellings.reserve(source.tokens.size());
    for (size_t i = 0; i < source.tokens.size(); ++i) (void)spellings.insert(source.tokens[i], static_cast<int32_t>(i));
    KVRT_TRY(merges_.build(source.merges, spellings));
    add_bos_always();  // early files say that there is none
  }
  joints_ = Joints(source.tokens.size());
  for (int c = 0; c < 128; ++c) {
    char byte = static_cast<char>(c);
    ascii_[c] = index_.find({&byte, 1});
  }
  for (int32_t id = 0; id < static_cast<int32_t>(vocab_size()); ++id) {
    if (!by_merges_) {
      auto bits = std::bit_cast<uint32_t>(scores_[static_cast<size_t>(id)] + 0.0f);  // -0 is 0
      ranks_.push_back(bits >> 31 ? bits : ~(bits | 0x80000000));
    }
    std::string_view bytes = bytes_of(id);
    if (!indexed_[static_cast<size_t>(id)]) continue;
    char32_t before = 0;
    for (bool first = true; !bytes.empty(); first = false) {
      CodePoint point = read_code_point(bytes);
      if (!first) joints_.add(before, point.value);
      before = point.value;
      bytes.remove_prefix(point.size);
    }
  }
  return {};
}

// An unused piece stands for the parts that it was merged from.
void Spm::add_part(std::string_view piece, const Part& part, Work* work) const {
  std::vector<Part>& open = work->open;
  open.assign(1, part);
  while (!open.empty()) {
    const Part p = open.back();
    open.pop_back();
    const bool unused = p.id >= 0 && type_of(p.id) == kUnused;
    const auto split = unused ? work->splits.find(Work::key(p.begin, p.size)) : work->splits.end();
    if (split != work->splits.end()) {
      const uint32_t left = split->second, right = p.size - left, middle = p.begin + left;
      open.push_back({middle, right, index_.find(piece.substr(middle, right))});
      open.push_back({p.begin, left, index_.find(piece.substr(p.begin, left))});
    } else if (p.id >= 0) {
      work->ids.push_back(p.id);
    } else {
      work->dropped += add_unknown(piece.substr(p.begin, p.size), 0, &work->ids);
    }
  }
}

void Spm::encode_piece(std::string_view piece, Work* work, size_t before, std::vector<int32_t>* out) const {
  auto append = [&](const int32_t* ids, size_t count) {
    // Unknown characters in a row are one token, also across pieces.
    bool again = count && ids[0] == unknown_ && unknown_ >= 0 && out->size() > before && out->back() == unknown_;
    out->insert(out->end(), ids + again, ids + count);
  };
  PieceCache::Slot* slot = work->cache.slot(piece);
  if (slot != nullptr && PieceCache::holds(*slot, piece)) {
    return append(slot->ids, slot->count);
  }
  const uint64_t dropped = work->dropped;
  work->parts.clear();
  work->ids.clear();
  work->splits.clear();
  for (size_t at = 0; at < piece.size();) {
    auto first = static_cast<unsigned char>(piece[at]);
    uint32_t size = first < 0x80 ? 1 : read_code_point(piece.substr(at)).size;
    work->parts.push_back({static_cast<uint32_t>(at), size, first < 0x80 ? ascii_[first] : index_.find(piece.substr(at, size))});
    at += size;
  }
  work->merging.apply(Rules{*this, piece, work}, &work->parts);
  for (const Part& part : work->parts) add_part(piece, part, work);
  if (slot != nullptr && work->dropped == dropped) PieceCache::fill(slot, piece, work->ids);
  append(work->ids.data(), work->ids.size());
}

Status Spm::encode_run(std::string_view text, bool opens, Scratch* scratch, std::vector<int32_t>* out) const {
  auto* work = static_cast<Work*>(scratch);
  KVRT_ASSIGN(const std::string_view all, normalizer_.apply(text, space_prefix_ && opens, user_, &work->normalized));
  size_t before = out->size(), begin = 0, at = 0;  // begin: of the piece that grows
  auto flush = [&](size_t end) {
    if (end > begin) encode_piece(all.substr(begin, end - begin), work, before, out);
  };
  char32_t last = 0;
  while (at < all.size()) {
    int32_t user = -1;
    std::string_view rest = all.substr(at);
    auto first = static_cast<unsigned char>(rest[0]);
    if (size_t size = user_.may_begin(first) ? user_.match(rest, &user) : 0) {
      flush(at);
      out->push_back(user);
      begin = at += size;
      continue;
    }
    CodePoint point = first < 0x80 ? CodePoint{first, 1} : read_code_point(rest);
    if (point.size == 0) {
      flush(at);
      out->push_back(byte_tokens_[first]);
      begin = ++at;
      continue;
    }
    if (at > begin && !joints_.may_join(last, point.value)) {
      flush(at);
      begin = at;
    }
    last = point.value;
    at += point.size;
  }
  flush(at);
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_spm(const VocabSource& source) {
  auto tokenizer = std::make_unique<Spm>();
  KVRT_TRY(tokenizer->init(source));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace kvrt
