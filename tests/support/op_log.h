// A store's operations on its disk, and the disks after a power cut. FaultEnv and the SQLite shim write the log; PowerCut plays it back.
//
// The disk keeps synced data: of a file its data after a sync of the file, of a directory its entries after a sync of the directory. Of
// the rest it keeps any part: POSIX promises no order. A write may arrive by half (cut at a sector) or as zeros (size before data).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kvrt::test {

struct DiskOp {
  // kSyncLost: of a file, failed. Data written to it and not synced before never reaches the disk, whatever is synced later.
  enum class Kind { kMakeDir, kCreate, kWrite, kTruncate, kSync, kSyncDir, kRename, kUnlink, kSyncLost };
  Kind kind;
  std::string path, to;       // absolute; `to` of a rename
  uint64_t offset = 0;        // of a write; the size of a truncation
  std::vector<uint8_t> data;  // of a write
};

// Thread-safe.
class OpLog {
 public:
  void add(DiskOp op) {
    std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return ops_.size();
  }
  std::vector<DiskOp> take() {
    std::lock_guard lock(mutex_);
    return std::move(ops_);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<DiskOp> ops_;
};

// A directory tree as a value. Files are known by number, so that their data and their names can arrive apart.
class Disk {
 public:
  static Disk of(const std::string& root);       // as it lies there
  void write_to(const std::string& root) const;  // replaces the tree that is there
  uint64_t hash() const;

 private:
  friend class PowerCut;
  std::set<std::string> dirs_;        // relative to the root
  std::map<std::string, int> names_;  // likewise
  std::map<int, std::vector<uint8_t>> files_;
};

class PowerCut {
 public:
  // The tree before the log, and the operations since. Paths outside `root` are left out.
  PowerCut(Disk before, const std::string& root, std::vector<DiskOp> ops);

  // Calls visit(ops done, disk) for each disk that a power cut may leave behind operation first, first + 1, ... end: every part of the
  // unsynced operations if those are up to `exhaustive`; else none, all, each prefix, all but one, only one, and some at random. The same
  // disk comes once for each count.
  void explore(size_t first, size_t exhaustive, uint64_t seed, const std::function<void(size_t done, const Disk& disk)>& visit);
  size_t size() const { return steps_.size(); }
  size_t states_max = SIZE_MAX;  // for each count of operations done: beyond all and none a random choice of them

 private:
  enum class Part { kWhole, kSector, kPage, kZeros };  // of a write
  struct Step {
    DiskOp op;
    int file = -1;
  };
  struct Chosen {
    size_t step;
    Part part;
  };
  struct Outcome {
    std::vector<Chosen> arrived;  // in order
  };
  std::vector<Outcome> outcomes(size_t exhaustive, std::mt19937_64* random) const;
  bool made_durable_by(const Step& step, const Step& sync) const;
  static void apply(const Step& step, Part part, Disk* disk);
  void visit_parts(size_t done, size_t exhaustive, std::mt19937_64* random, const std::function<void(size_t, const Disk&)>& visit) const;

  Disk stable_;                  // all that is synced
  std::vector<size_t> pending_;  // steps done and not synced
  std::vector<Step> steps_;
};

}  // namespace kvrt::test
