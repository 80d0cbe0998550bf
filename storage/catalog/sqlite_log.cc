#include "storage/catalog/sqlite_log.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>

#include "storage/catalog/sqlite_bytes.h"

namespace kvrt {

namespace {

constexpr size_t kPageBytes = 4096, kHeaderBytes = 32, kFrameHeaderBytes = 24;
// A header: magic, version, page size, sequence; then its salts and its checksum. A frame: page, pages of the database after a commit (else
// 0), salts, checksum, content. The checksum of a frame covers its first 8 bytes and its content.
constexpr size_t kHeaderSalts = 16, kHeaderSum = 24, kFrameSalts = 8, kFrameSum = 16, kSummedOfFrame = 8;
constexpr uint32_t kMagic = 0x377f0682;  // one more where the sums take big-endian words

using Header = std::array<uint8_t, kHeaderBytes>;
using Frame = std::array<uint8_t, kFrameHeaderBytes + kPageBytes>;

// The running checksum, over pairs of words.
struct Sum {
  bool big_endian = false;
  uint32_t a = 0, b = 0;

  void add(std::span<const uint8_t> bytes) {
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      a += word(&bytes[i]) + b;
      b += word(&bytes[i + 4]) + a;
    }
  }
  Sum with(const Frame& frame) const {
    Sum sum = *this;
    sum.add(std::span(frame).first(kSummedOfFrame));
    sum.add(std::span(frame).subspan(kFrameHeaderBytes));
    return sum;
  }
  bool is(const uint8_t* stored) const { return be32(stored) == a && be32(stored + 4) == b; }
  uint64_t value() const { return uint64_t{a} << 32 | b; }

  uint32_t word(const uint8_t* p) const {
    return big_endian ? be32(p) : uint32_t{p[3]} << 24 | uint32_t{p[2]} << 16 | uint32_t{p[1]} << 8 | p[0];
  }
};

// The running sum behind a header that is right; none otherwise.
std::optional<Sum> check_header(const Header& header) {
  Sum sum;
  sum.big_endian = (be32(header.data()) & 1) != 0;
  sum.add(std::span(header).first(kHeaderSum));
  const bool right = (be32(header.data()) & ~1u) == kMagic && be32(&header[8]) == kPageBytes && sum.is(&header[kHeaderSum]);
  return right ? std::optional(sum) : std::nullopt;
}

// Each bit of a frame that alone explains the difference to the stored sum: a sum is linear in its words, modulo 2^32.
std::vector<LogBit> find_bits(const Frame& frame, const Sum& computed) {
  std::vector<LogBit> bits;
  const auto add = [&](size_t at, uint32_t bit) { bits.push_back({at, static_cast<uint8_t>(frame[at] ^ 1u << bit)}); };
  const uint64_t sums = be64(&frame[kFrameSum]) ^ computed.value();
  if (std::popcount(sums) == 1) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(sums));
    add(kFrameSum + 7 - bit / 8, bit % 8);
  }
  const uint32_t a = be32(&frame[kFrameSum]) - computed.a, b = be32(&frame[kFrameSum + 4]) - computed.b;
  // The change of the final sums when the first, or the second, word of a pair is larger by 1.
  uint32_t first_a = 1, first_b = 1, second_a = 0, second_b = 1;
  for (size_t end = kSummedOfFrame + kPageBytes; end > 0; end -= 8) {
    for (size_t half = 0; half < 2; half++) {
      const size_t summed = end - 8 + 4 * half, at = summed < kSummedOfFrame ? summed : summed - kSummedOfFrame + kFrameHeaderBytes;
      const uint32_t word = computed.word(&frame[at]);
      for (uint32_t bit = 0; bit < 32; bit++) {
        const uint32_t value = uint32_t{1} << bit, change = (word & value) != 0 ? 0 - value : value;
        if ((half == 0 ? first_a : second_a) * change != a || (half == 0 ? first_b : second_b) * change != b) continue;
        add(at + (computed.big_endian ? 3 - bit / 8 : bit / 8), bit % 8);
      }
    }
    first_a += first_b, first_b += first_a;
    second_a += second_b, second_b += second_a;
  }
  return bits;
}

class Scanner {
 public:
  Scanner(const File& log, const File* database, bool all) : log_(log), database_(database), commits_least_(all ? 1 : 2) {}

  Result<LogScan> scan() {
    KVRT_ASSIGN(const uint64_t size, log_.size());
    if (size < kHeaderBytes + sizeof(Frame)) return std::move(scan_);
    KVRT_TRY(log_.pread(0, header_));
    KVRT_TRY(log_.pread(kHeaderBytes, frame_));
    auto sum = check_header(header_);
    if (!sum) sum = mend_header();
    if (!sum) take_frames_alone();
    if (sum) sum_ = *sum;
    uint64_t number = 1;
    for (uint64_t at = kHeaderBytes; at + sizeof(Frame) <= size; at += sizeof(Frame), number++) KVRT_TRY(take_frame(at, number));
    return std::move(scan_);
  }

 private:
  // Puts right the one bit that makes the header's checksum right, and the first frame one of this header's. None: no bit does.
  std::optional<Sum> mend_header() {
    const Header found = header_;
    for (size_t i = 0; i < kHeaderBytes * 8; i++) {
      header_ = found;
      header_[i / 8] ^= static_cast<uint8_t>(1u << i % 8);
      const auto sum = check_header(header_);
      if (!sum || be64(&frame_[kFrameSalts]) != be64(&header_[kHeaderSalts]) || !sum->with(frame_).is(&frame_[kFrameSum])) continue;
      flipped_.push_back({i / 8, header_[i / 8]});
      return sum;
    }
    return std::nullopt;
  }

  // The header is lost: its salts are taken from the first frame. No sum proves that frame.
  void take_frames_alone() {
    std::memcpy(&header_[kHeaderSalts], &frame_[kFrameSalts], 8);
    first_damaged_ = 1;
  }

  Status take_frame(uint64_t at, uint64_t number) {
    KVRT_TRY(log_.pread(at, std::span(frame_).first(kFrameHeaderBytes)));
    const uint64_t salts = be64(&frame_[kFrameSalts]) ^ be64(&header_[kHeaderSalts]);
    if (std::popcount(salts) > 1) {  // most often a frame of the log's last use
      if (first_damaged_ == 0) first_damaged_ = number;
      return {};
    }
    KVRT_TRY(log_.pread(at + kFrameHeaderBytes, std::span(frame_).subspan(kFrameHeaderBytes)));
    const Sum computed = sum_.with(frame_);
    bool right = salts == 0 && (computed.is(&frame_[kFrameSum]) || (other_ && other_->with(frame_).is(&frame_[kFrameSum])));
    other_.reset();
    if (!right && first_damaged_ == 0) {
      KVRT_ASSIGN(right, look_for_bit(at, salts, computed));
    }
    right = right && be32(frame_.data()) != 0;
    if ((!right || unclear_) && first_damaged_ == 0) first_damaged_ = number;
    // Behind damage a frame's sum continues the one that is stored in the frame before.
    sum_.a = be32(&frame_[kFrameSum]);
    sum_.b = be32(&frame_[kFrameSum + 4]);
    if (!right) return {};
    uncommitted_.push_back({be32(frame_.data()), at + kFrameHeaderBytes});
    newest_[be32(frame_.data())] = at + kFrameHeaderBytes;
    const uint32_t pages_now = be32(&frame_[4]);
    if (pages_now != 0) commit(pages_now);
    return {};
  }

  // True if the frame is right but for one bit. The bit is put right in frame_ where it is certain which one it is.
  Result<bool> look_for_bit(uint64_t at, uint64_t salts, const Sum& computed) {
    std::vector<LogBit> bits;
    if (salts == 0) {
      bits = find_bits(frame_, computed);
    } else if (computed.is(&frame_[kFrameSum])) {
      const auto bit = static_cast<size_t>(std::countr_zero(salts));
      const size_t byte = kFrameSalts + 7 - bit / 8;
      bits.push_back({byte, static_cast<uint8_t>(frame_[byte] ^ 1u << bit % 8)});
    }
    if (bits.empty()) return false;
    if (bits.size() > 1) {
      KVRT_ASSIGN(const bool of_sum, keep_of_sum(at, computed, &bits));
      if (!of_sum) KVRT_TRY(keep_likely(&bits));
    }
    unclear_ = scan_.unclear = bits.size() != 1;
    if (unclear_) {
      other_ = computed;
      return true;
    }
    frame_[bits[0].offset] = bits[0].byte;
    flipped_.push_back({at + bits[0].offset, bits[0].byte});
    return true;
  }

  // Keeps a bit of the stored sum, if the next frame continues the computed one. False: it does not, or this is the last.
  Result<bool> keep_of_sum(uint64_t at, const Sum& computed, std::vector<LogBit>* bits) {
    const auto in_sum = [](const LogBit& bit) { return bit.offset >= kFrameSum && bit.offset < kFrameHeaderBytes; };
    const auto found = std::find_if(bits->begin(), bits->end(), in_sum);
    if (found == bits->end()) return false;
    Frame next;
    Status read = log_.pread(at + sizeof(Frame), next);
    if (read.code() == Code::kCorrupt) return false;
    KVRT_TRY(std::move(read));
    if (!computed.with(next).is(&next[kFrameSum])) return false;
    *bits = {LogBit(*found)};
    return true;
  }

  // Keeps those bits that make a byte as it was before this frame.
  Status keep_likely(std::vector<LogBit>* bits) {
    std::array<uint8_t, kPageBytes> before;
    const uint32_t page = be32(frame_.data());
    const auto earlier = newest_.find(page);
    Status read;
    if (earlier != newest_.end()) {
      read = log_.pread(earlier->second, before);
    } else if (database_ != nullptr && page != 0) {
      read = database_->pread((page - 1) * uint64_t{kPageBytes}, before);
      if (read.code() == Code::kCorrupt) return {};  // a new page
    } else {
      return {};
    }
    KVRT_TRY(std::move(read));
    std::erase_if(*bits,
                  [&](const LogBit& bit) { return bit.offset < kFrameHeaderBytes || before[bit.offset - kFrameHeaderBytes] != bit.byte; });
    return {};
  }

  // One commit behind damage may be a torn one's own, which was never reported. Where there is a second, the first was on the disk.
  void commit(uint32_t pages_now) {
    const bool beyond = first_damaged_ != 0;
    if (beyond && ++commits_beyond_ < commits_least_) return;
    if (beyond) {
      scan_.damaged_frame = first_damaged_;
      scan_.commits_lost = commits_beyond_;
    }
    scan_.pages.insert(scan_.pages.end(), uncommitted_.begin(), uncommitted_.end());
    uncommitted_.clear();
    scan_.flipped = flipped_;
    scan_.database_pages = pages_now;
  }

  const File& log_;
  const File* database_;
  Header header_{};
  Frame frame_{};
  Sum sum_;
  std::optional<Sum> other_;  // the running sum if the flipped bit is in the stored sum
  LogScan scan_;
  std::vector<LogBit> flipped_;
  std::vector<LoggedPage> uncommitted_;
  std::unordered_map<uint32_t, uint64_t> newest_;  // page -> offset of its newest content
  uint64_t commits_least_, first_damaged_ = 0, commits_beyond_ = 0;
  bool unclear_ = false;
};

}  // namespace

Result<LogScan> scan_log(const File& log, const File* database, bool all) { return Scanner(log, database, all).scan(); }

}  // namespace kvrt
