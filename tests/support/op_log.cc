#include "tests/support/op_log.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_set>

#include "runtime/base/hash.h"

namespace kvrt::test {

namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

Disk Disk::of(const std::string& root) {
  Disk disk;
  for (auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = fs::relative(entry.path(), root).string();
    if (entry.is_directory()) {
      disk.dirs_.insert(name);
    } else {
      std::ifstream in(entry.path(), std::ios::binary);
      const int file = static_cast<int>(disk.files_.size());
      disk.names_[name] = file;
      disk.files_[file] = std::vector<uint8_t>(std::istreambuf_iterator<char>(in), {});
    }
  }
  return disk;
}

void Disk::write_to(const std::string& root) const {
  fs::remove_all(root);
  fs::create_directory(root);
  fs::permissions(root, fs::perms::owner_all);
  for (const std::string& dir : dirs_) {  // sorted: parents first
    if (fs::exists(root + "/" + parent_of(dir))) fs::create_directory(root + "/" + dir);
  }
  for (auto& [name, file] : names_) {
    const std::vector<uint8_t>& bytes = files_.at(file);
    std::ofstream out(root + "/" + name, std::ios::binary);  // a directory that is lost has lost its files
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

uint64_t Disk::hash() const {
  Hasher all;
  for (const std::string& dir : dirs_) all.add_string(dir);
  for (auto& [name, file] : names_) {
    const Checksum128 sum = checksum128(files_.at(file));
    all.add_string(name).add_u64(files_.at(file).size()).add_u64(sum.low).add_u64(sum.high);
  }
  uint64_t low;
  std::copy_n(all.finish().bytes.data(), sizeof low, reinterpret_cast<uint8_t*>(&low));
  return low;
}

PowerCut::PowerCut(Disk before, const std::string& root, std::vector<DiskOp> ops) : stable_(std::move(before)) {
  std::map<std::string, int> names = stable_.names_;  // as every process saw them
  std::map<std::string, int> opened = names;          // a file that is open keeps the name that it had then
  int files = static_cast<int>(stable_.files_.size());
  const auto relative = [&](std::string* path) {
    if (*path == root) return path->clear(), true;
    if (path->compare(0, root.size() + 1, root + "/") != 0) return false;
    path->erase(0, root.size() + 1);
    return true;
  };
  for (DiskOp& op : ops) {
    if (!relative(&op.path) || (!op.to.empty() && !relative(&op.to))) continue;
    Step step{std::move(op)};
    const std::string& path = step.op.path;
    if (step.op.kind == DiskOp::Kind::kCreate) {
      names[path] = opened[path] = step.file = files++;
      stable_.files_[step.file];
    } else if (auto known = names.find(path); known != names.end()) {
      step.file = known->second;
      if (step.op.kind == DiskOp::Kind::kRename) names[step.op.to] = opened[step.op.to] = step.file;
      if (step.op.kind == DiskOp::Kind::kRename || step.op.kind == DiskOp::Kind::kUnlink) names.erase(known);
    } else if (auto open = opened.find(path); open != opened.end()) {
      step.file = open->second;
    }
    steps_.push_back(std::move(step));
  }
}

bool PowerCut::made_durable_by(const Step& step, const Step& sync) const {
  using Kind = DiskOp::Kind;
  if (step.op.kind == Kind::kWrite || step.op.kind == Kind::kTruncate) return sync.op.kind != Kind::kSyncDir && sync.file == step.file;
  return sync.op.kind == Kind::kSyncDir && sync.op.path == parent_of(step.op.kind == Kind::kRename ? step.op.to : step.op.path);
}

void PowerCut::apply(const Step& step, Part part, Disk* disk) {
  const DiskOp& op = step.op;
  switch (op.kind) {
    case DiskOp::Kind::kMakeDir:
      disk->dirs_.insert(op.path);
      break;
    case DiskOp::Kind::kCreate:
      disk->names_[op.path] = step.file;
      break;
    case DiskOp::Kind::kWrite: {
      std::vector<uint8_t>& bytes = disk->files_[step.file];
      const size_t unit = part == Part::kPage ? 4096 : 512, half = op.data.size() / 2 / unit * unit;
      const size_t n = part == Part::kSector || part == Part::kPage ? half : op.data.size();
      if (bytes.size() < op.offset + n) bytes.resize(op.offset + n);
      if (part == Part::kZeros) {
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(op.offset), n, uint8_t{0});
      } else {
        std::copy_n(op.data.begin(), n, bytes.begin() + static_cast<ptrdiff_t>(op.offset));
      }
      break;
    }
    case DiskOp::Kind::kTruncate:
      disk->files_[step.file].resize(op.offset);
      break;
    case DiskOp::Kind::kRename:
      disk->names_.erase(op.path);
      disk->names_[op.to] = step.file;
      break;
    case DiskOp::Kind::kUnlink:
      if (auto entry = disk->names_.find(op.path); entry != disk->names_.end() && entry->second == step.file) disk->names_.erase(entry);
      break;
    case DiskOp::Kind::kSync:
    case DiskOp::Kind::kSyncDir:
    case DiskOp::Kind::kSyncLost:
      break;
  }
}

// Which of the pending operations arrive.
std::vector<PowerCut::Outcome> PowerCut::outcomes(size_t exhaustive, std::mt19937_64* random) const {
  const size_t n = pending_.size();
  std::vector<Outcome> all;
  const auto add = [&](const std::function<bool(size_t)>& arrives, size_t odd, Part part) {
    Outcome o;
    for (size_t i = 0; i < n; ++i) {
      if (arrives(i)) o.arrived.push_back({pending_[i], i == odd ? part : Part::kWhole});
    }
    all.push_back(std::move(o));
  };
  const auto add_whole = [&](const std::function<bool(size_t)>& arrives) { add(arrives, n, Part::kWhole); };
  add_whole([](size_t) { return true; });
  add_whole([](size_t) { return false; });
  if (n <= exhaustive) {
    for (uint64_t set = 1; set + 1 < uint64_t{1} << n; ++set) add_whole([&](size_t i) { return set >> i & 1; });
  } else {
    for (size_t k = 0; k < n; ++k) {
      add_whole([&](size_t i) { return i < k; });
      add_whole([&](size_t i) { return i != k; });
      add_whole([&](size_t i) { return i == k; });
      const uint64_t set = (*random)();
      add_whole([&](size_t i) { return set >> i % 64 & 1; });
    }
  }
  for (size_t k = 0; k < n; ++k) {
    if (steps_[pending_[k]].op.kind != DiskOp::Kind::kWrite) continue;
    for (Part part : {Part::kSector, Part::kPage, Part::kZeros}) add([](size_t) { return true; }, k, part);
    for (Part part : {Part::kSector, Part::kZeros}) add([&](size_t i) { return i <= k; }, k, part);
  }
  return all;
}

void PowerCut::visit_parts(size_t done, size_t exhaustive, std::mt19937_64* random,
                           const std::function<void(size_t, const Disk&)>& visit) const {
  std::unordered_set<uint64_t> seen;
  std::vector<Outcome> all = outcomes(exhaustive, random);
  if (all.size() > states_max) std::shuffle(all.begin() + 2, all.end(), *random);  // all and none always
  for (const Outcome& outcome : all) {
    if (seen.size() >= states_max) return;
    Disk disk = stable_;
    for (const Chosen& chosen : outcome.arrived) apply(steps_[chosen.step], chosen.part, &disk);
    if (seen.insert(disk.hash()).second) visit(done, disk);
  }
}

void PowerCut::explore(size_t first, size_t exhaustive, uint64_t seed, const std::function<void(size_t, const Disk&)>& visit) {
  std::mt19937_64 random(seed);
  for (size_t done = 0;; ++done) {
    if (done >= first) visit_parts(done, exhaustive, &random, visit);
    if (done == steps_.size()) return;
    const Step& step = steps_[done];
    const bool lost = step.op.kind == DiskOp::Kind::kSyncLost;
    if (step.op.kind != DiskOp::Kind::kSync && step.op.kind != DiskOp::Kind::kSyncDir && !lost) {
      pending_.push_back(done);
      continue;
    }
    std::vector<size_t> rest;
    for (size_t i : pending_) {
      if (made_durable_by(steps_[i], step)) {
        if (!lost) apply(steps_[i], Part::kWhole, &stable_);
      } else {
        rest.push_back(i);
      }
    }
    pending_ = std::move(rest);
  }
}

}  // namespace kvrt::test
