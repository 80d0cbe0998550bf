// Faults on demand: an Env and an SQLite VFS that share one counter of file operations, and make the Nth of them fail, or the last that
// this process ever does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/env.h"
#include "tests/support/op_log.h"

namespace kvrt::test {

enum class Fault {
  kNone,
  kIo,        // EIO, nothing done
  kNoSpace,   // ENOSPC; only operations that can need space fail with it
  kQuota,     // EDQUOT; likewise, but for syncs
  kShort,     // ENOSPC after half the work; only writes fail with it
  kKill,      // SIGKILL before the operation
  kTornKill,  // SIGKILL after half a write; only at writes
  kSyncLost,  // only syncs are counted: EIO, and the data is never on the disk (the kernel calls its pages clean)
};

// kAlloc: changes the disk and can need space; kWrite: of data, can be done by half; kSync: a full disk may show here.
enum class Op { kOther, kAlloc, kWrite, kSync };

// The plan of one run. Thread-safe. Operations are counted from arm() on; the first that can fail so, from the nth on, does.
class FaultPlan {
 public:
  void arm(Fault fault, uint64_t nth, bool sticky = false) {
    fault_ = fault;
    nth_ = nth;
    sticky_ = sticky;
    count_ = 0;
    fired_ = 0;
    first_ = 0;
  }
  void disarm() { fault_ = Fault::kNone; }
  // The log of the operations that succeed from now on; null: none.
  void record(OpLog* log) { log_ = log; }
  void done(DiskOp op) {
    if (OpLog* log = log_) log->add(std::move(op));
  }
  // Called before every sync, by the thread that syncs; set while nobody does.
  std::function<void()> on_sync;
  // Likewise before every read of a file by SQLite.
  std::function<void()> on_sqlite_read;
  uint64_t count() const { return count_; }
  uint64_t fired() const { return fired_; }
  uint64_t first() const { return first_; }  // operation that failed; 0: none

  // The fault of the operation that asks.
  Fault next(Op op);
  [[noreturn]] static void die();

 private:
  std::atomic<Fault> fault_{Fault::kNone};
  std::atomic<uint64_t> nth_{0}, count_{0}, fired_{0}, first_{0};
  std::atomic<bool> sticky_{false};
  std::atomic<OpLog*> log_{nullptr};
};

class FaultEnv final : public Env {
 public:
  FaultEnv(Env* base, FaultPlan* plan) : base_(base), plan_(plan) {}
  Result<std::unique_ptr<File>> open_read(const std::string& path) override;
  Result<std::unique_ptr<File>> create_new(const std::string& path) override;
  Result<std::unique_ptr<File>> open_append(const std::string& path) override;
  Status make_dir(const std::string& path) override;
  Status rename_new(const std::string& from, const std::string& to) override;
  Status remove_file(const std::string& path) override;
  Status remove_dir(const std::string& path) override;
  Status punch(const std::string& path, std::span<const FileRange> ranges) override;
  Status patch(const std::string& path, uint64_t offset, std::span<const uint8_t> bytes) override;
  Status sync_dir(const std::string& path) override;
  Result<std::vector<std::string>> list_dir(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Status check_file(const std::string& path) override;
  Result<FileInfo> file_info(const std::string& path) override;
  Status set_modified(const std::string& path, int64_t unix_ms) override;
  Result<DirInfo> dir_info(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> open_lock(const std::string& path, bool create) override;
  Result<std::unique_ptr<MappedFile>> map_file(const FilePart& part,
                                               const std::string& what) override {  // a model's: no fault of the store's
    return base_->map_file(part, what);
  }
  Result<FsInfo> fs_info(const std::string& path) override;
  uint64_t now_ns() override { return base_->now_ns() + (ticks_ += tick_ns); }
  uint64_t cpu_ns() override { return base_->cpu_ns(); }
  int64_t unix_ms() override { return base_->unix_ms() + unix_offset_ms; }
  void random(std::span<uint8_t> out) override;

  FsInfo* fs_override = nullptr;                           // the answer of fs_info, if set
  DirInfo* dir_override = nullptr;                         // the answer of dir_info, if set
  int64_t unix_offset_ms = 0;                              // the wall clock is so far off
  uint64_t tick_ns = 0;                                    // the monotonic clock runs so much faster, at every look
  std::function<void(const std::string& path)> on_create;  // before create_new
  std::function<void(const std::string& path)> on_open;    // before open_read
  std::function<Status(const std::string&path)> fail_create, fail_open, fail_lock;  // an error is the answer of create_new and its like
  bool no_holes = false;                                                            // punch is UNSUPPORTED
  uint64_t random_seed = 0;  // random() gives the same numbers again; 0: those of the system

 private:
  Env* base_;
  FaultPlan* plan_;
  std::atomic<uint64_t> ticks_{0}, randoms_{0};
};

// Makes every SQLite connection opened from now on count and fail with `plan` (null: none). The shim stays registered.
void set_sqlite_faults(FaultPlan* plan);

}  // namespace kvrt::test
