// A toy in the model's place: pure functions that define it, a runner that keeps its KV in the pool's blocks, its vocabulary, and an Env
// whose clock and random numbers are virtual. A reader of a wrong slot of KV gives other logits from there on.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine/engine.h"

namespace kvrt::test {

// SplitMix64: the random numbers of a seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint64_t below(uint64_t n) { return n ? next() % n : 0; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// The arithmetic of the toy: a sequence on its way, position by position. A position leaves a KV value in each group of layers, which
// depends on all that a row there sees of every group; so a value behind a window still counts, through those that came after it. A group of
// recurrent layers is one that sees everything, of which the fold of all values alone is kept.
class ToyState {
 public:
  explicit ToyState(std::span<const uint32_t> windows);                 // by group; 0: none
  uint64_t kv(uint32_t group, int32_t token, uint64_t position) const;  // of the next position
  void see(uint32_t group, uint64_t kv);                                // that position's KV
  uint64_t& folded(uint32_t group) { return groups_[group].all; }       // all KV seen
  uint64_t state() const;                                               // of the last position
 private:
  struct Group {
    uint32_t window = 0;
    uint64_t all = 0;           // of all positions
    std::deque<uint64_t> seen;  // the window's
    uint64_t fold(uint64_t positions) const;
  };
  std::vector<Group> groups_;
};
void toy_logits(uint64_t state, std::span<float> row);  // the prediction of the next token; a NaN once in a while

inline constexpr uint32_t kToyHeads = 2, kToyHeadDim = 2;
inline constexpr int32_t kToyBos = 0, kToyTurn = 1, kToyEnd = 2;
// By layer; layer_heads empty: kToyHeads of kToyHeadDim.
// Then come `recurrent` layers with such a state.
ModelDims toy_dims(uint32_t context, uint32_t vocab, std::vector<uint32_t> windows = {0, 0}, std::vector<Heads> layer_heads = {},
                   uint32_t recurrent = 0, RecurrentDims state = {});
std::vector<uint32_t> toy_windows(const KvGroups& kv);  // by group
struct ToyText {
  bool add_bos, spm;  // spm: a SentencePiece vocabulary, which puts a space before a text
};
Result<std::unique_ptr<Tokenizer>> toy_tokenizer(ToyText text);
extern const char* const kToyTemplate;

// Reads and writes a position's KV in unit `index` of a group's block, spread over every layer, head and half; false: its slots disagree.
bool toy_read_slot(const KvGroup& group, const uint8_t* unit, uint32_t index, uint32_t slot, uint64_t* value);
void toy_write_slot(const KvGroup& group, uint8_t* unit, uint32_t index, uint32_t slot, uint64_t value);

// Reads and writes a state, spread over all of a block's units; false: they disagree.
bool toy_read_state(const StateLayout& states, const uint8_t* pool, const int32_t* units, uint64_t* value);
void toy_write_state(const StateLayout& states, uint8_t* pool, const int32_t* units, uint64_t value);

// The process's files, a clock that only moves when something happens, and random numbers from a seed. Thread-safe.
class ToyEnv : public Env {
 public:
  explicit ToyEnv(uint64_t seed) : random_(seed) {}
  Result<std::unique_ptr<File>> open_read(const std::string& path) override { return base_->open_read(path); }
  Result<std::unique_ptr<File>> create_new(const std::string& path) override { return base_->create_new(path); }
  Result<std::unique_ptr<File>> open_append(const std::string& path) override { return base_->open_append(path); }
  Status make_dir(const std::string& path) override { return base_->make_dir(path); }
  Status rename_new(const std::string& from, const std::string& to) override { return base_->rename_new(from, to); }
  Status remove_file(const std::string& path) override { return base_->remove_file(path); }
  Status remove_dir(const std::string& path) override { return base_->remove_dir(path); }
  Status punch(const std::string& path, std::span<const FileRange> ranges) override { return base_->punch(path, ranges); }
  Status patch(const std::string& path, uint64_t offset, std::span<const uint8_t> bytes) override {
    return base_->patch(path, offset, bytes);
  }
  Status sync_dir(const std::string& path) override { return base_->sync_dir(path); }
  Result<std::vector<std::string>> list_dir(const std::string& path) override { return base_->list_dir(path); }
  Result<bool> exists(const std::string& path) override { return base_->exists(path); }
  Status check_file(const std::string& path) override { return base_->check_file(path); }
  Result<FileInfo> file_info(const std::string& path) override { return base_->file_info(path); }
  Status set_modified(const std::string& path, int64_t unix_ms) override { return base_->set_modified(path, unix_ms); }
  Result<DirInfo> dir_info(const std::string& path) override { return base_->dir_info(path); }
  Result<std::unique_ptr<FileLock>> open_lock(const std::string& path, bool create) override { return base_->open_lock(path, create); }
  Result<std::unique_ptr<MappedFile>> map_file(const FilePart& part, const std::string& what) override {
    return base_->map_file(part, what);
  }
  Result<FsInfo> fs_info(const std::string& path) override { return base_->fs_info(path); }
  uint64_t now_ns() override;
  uint64_t cpu_ns() override { return now_ns_ / 2; }  // as beside a busy process
  int64_t unix_ms() override { return 1'800'000'000'000 + static_cast<int64_t>(now_ns_ / 1'000'000); }
  void random(std::span<uint8_t> out) override;
  void advance(uint64_t ns) { now_ns_ += ns; }

 private:
  Env* base_ = posix_env();
  std::mutex mu_;
  Random random_;
  std::atomic<uint64_t> now_ns_{1'000'000'000};
};

class ToyRunner final : public ForwardPass {
 public:
  ToyRunner(KvGroups kv, uint32_t vocab, ToyEnv* env, uint64_t seed) : kv_(std::move(kv)), vocab_(vocab), env_(env), random_(seed) {}
  Status run(const Step& step, uint8_t* pool, float* logits, DrawnToken* drawn) override;
  uint64_t bytes() const override { return 0; }

  std::function<void(const Step&, uint8_t* pool)> before;  // called with every step before it runs
  std::atomic<uint64_t> faults{0};                         // KV that was missing, in pieces, or not this position's
  std::vector<uint64_t> salts;                             // by sequence of the step: what its KV is mixed with. Empty: nothing

 private:
  uint64_t read(const StepSeq& seq, uint32_t group, const uint8_t* pool, uint64_t position);
  void write(const StepSeq& seq, uint32_t group, uint8_t* pool, uint64_t position, uint64_t value);
  uint64_t read_state(const StepSeq& seq, const uint8_t* pool);

  const KvGroups kv_;
  uint32_t vocab_;
  ToyEnv* env_;
  Random random_;
  uint64_t row_ns_ = 50'000;
};

}  // namespace kvrt::test
