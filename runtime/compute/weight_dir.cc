#include "runtime/compute/weight_dir.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/base/paths.h"

namespace kvrt {
namespace {

constexpr uint64_t kBytesMaxDefault = 20ull << 30, kFreeBytesMin = 1ull << 30;
constexpr uint64_t kWaitNs = 30'000'000'000, kWaitNsPerKib = 20'000;  // 50 MB/s: a slow disk beside a busy machine's half a minute

using Ull = unsigned long long;

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// Follows the XDG base directory specification, which ignores relative paths. The home itself is never made.
void find_user_dir(WeightCache* cache) {
  const std::string xdg = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (xdg.starts_with('/')) {
    cache->dir = xdg + "/kvrt/weights";
  } else if (home.starts_with('/')) {
    cache->dir = home + "/.cache/kvrt/weights";
  }
  cache->asked = false;
  cache->parents = 2;
}

// A file that another machine removes ends the process that has it mapped, and nobody asked for that.
Status check_fs(const WeightCache& cache, const std::string& path) {
  if (cache.asked) return {};
  KVRT_ASSIGN(const FsInfo fs, cache.env->fs_info(path));
  if (!fs.is_network) return {};
  return error(Code::kUnsupported, Detail::kNone, "%s: on %s, which other machines may write", path.c_str(), fs.type.c_str());
}

// The directory that can be written: the cache's own, else the first above it that is there, in which the others can be made.
Result<std::string> writable_part(const WeightCache& cache) {
  std::string path = cache.dir;
  for (uint32_t above = 0;; ++above, path = parent_of(path)) {
    auto info = cache.env->dir_info(path);
    if (info.status().code() == Code::kNotFound && above <= cache.parents) continue;
    if (!info.is_ok()) return info.take_status();
    if (above == 0) KVRT_TRY(check_cache_dir(cache));
    if (!info->owned && !cache.asked) {  // sudo's caller, say, whose directory must not get files of root's
      return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: belongs to another user", path.c_str());
    }
    if (!info->writable) return error(Code::kIo, Detail::kReadOnly, "%s: cannot be written", path.c_str());
    KVRT_TRY(check_fs(cache, path));
    return path;
  }
}

Status make_dirs(const WeightCache& cache) {
  KVRT_ASSIGN(const std::string there, writable_part(cache));
  std::vector<std::string> missing;
  for (std::string path = cache.dir; path != there; path = parent_of(path)) missing.push_back(path);
  for (auto path = missing.rbegin(); path != missing.rend(); ++path) KVRT_TRY(cache.env->make_dir(*path));
  return check_cache_dir(cache);
}

bool is_ours(const std::string& name, std::string_view suffix) {
  constexpr size_t kKey = 2 * sizeof(Hash256);
  return name.size() > kKey && name.ends_with(suffix) && name.find_first_not_of("0123456789abcdef") == kKey && name[kKey] == '.';
}

struct Entry {
  std::string path;
  FileInfo info;
};

// Files of packed weights, the least recently used first. Files that killed writers left go to `litter`, if that is asked for.
Result<std::vector<Entry>> list_weights(const WeightCache& cache, std::vector<std::string>* litter) {
  KVRT_ASSIGN(const std::vector<std::string> names, cache.env->list_dir(cache.dir));
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const std::string path = cache.dir + "/" + name;
    if (litter && is_ours(name, kWeightTempSuffix)) litter->push_back(path);
    if (!is_ours(name, kWeightSuffix)) continue;
    auto info = cache.env->file_info(path);
    if (info.is_ok()) entries.push_back({path, *info});  // else removed meanwhile, or not ours
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.info.modified_unix_ms < b.info.modified_unix_ms; });
  return entries;
}

uint64_t bytes_max_of(const WeightCache& cache, const FsInfo& fs) {
  return cache.bytes_max ? cache.bytes_max : std::min(kBytesMaxDefault, fs.total_bytes / 10);
}
uint64_t free_bytes_min(const FsInfo& fs) { return std::min(kFreeBytesMin, fs.total_bytes / 20); }

// True while a process maps it. A process that wants to map it meanwhile goes without the lock.
bool in_use(const WeightCache& cache, const std::string& path) {
  auto lock = cache.env->open_lock(path, false);
  return !lock.is_ok() || !(*lock)->acquire(LockMode::kExclusive).is_ok();
}

}  // namespace

WeightCache find_cache(Env* env, Log* log, CacheChoice choice, const std::string& given, uint64_t bytes_max) {
  WeightCache cache{env, log, given, {}, bytes_max};
  const char* named = ::secure_getenv("KVRT_CACHE");
  if (choice == CacheChoice::kNone) {
    cache.dir.clear();
  } else if (given.empty() && named) {
    cache.dir = named;
  } else if (given.empty() && choice == CacheChoice::kUser) {
    find_user_dir(&cache);
    if (cache.dir.empty()) logf(log, LogLevel::kInfo, "weights are not cached: neither XDG_CACHE_HOME nor HOME names a directory");
  }
  cache.dir = canonical_path(cache.dir);
  return cache;
}

void log_cache(const WeightCache& cache, const char* what, const Status& status) {
  const bool damage = status.code() == Code::kCorrupt;
  logf(cache.log, cache.asked || damage ? LogLevel::kWarn : LogLevel::kInfo, "%s: %s", what, status.message().c_str());
}

// Others could plant weights in a directory that they can write.
Status check_cache_dir(const WeightCache& cache) {
  KVRT_ASSIGN(const DirInfo dir, cache.env->dir_info(cache.dir));
  if (dir.owned && !dir.others_can_write) return check_fs(cache, cache.dir);
  return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: %s", cache.dir.c_str(),
               dir.owned ? "group or others can write it; a cache directory is its owner's alone (chmod 700)"
                         : "belongs to another user; a cache directory is its owner's alone: name another one");
}

Result<CacheStat> stat_cache(const WeightCache& cache) {
  KVRT_ASSIGN(const std::string there, writable_part(cache));
  KVRT_ASSIGN(const FsInfo fs, cache.env->fs_info(there));
  CacheStat stat{0, 0, bytes_max_of(cache, fs), fs.free_bytes - std::min(fs.free_bytes, free_bytes_min(fs))};
  if (there != cache.dir) return stat;
  KVRT_ASSIGN(const std::vector<Entry> entries, list_weights(cache, nullptr));
  stat.files = entries.size();
  for (const Entry& entry : entries) stat.bytes += entry.info.bytes;
  return stat;
}

Result<std::unique_ptr<FileLock>> begin_writing(const WeightCache& cache, const std::string& path, uint64_t bytes,
                                                const std::function<Status()>& poll) {
  KVRT_TRY(make_dirs(cache));
  KVRT_ASSIGN(auto lock, cache.env->open_lock(cache.dir + "/.lock", true));
  const uint64_t until = cache.env->now_ns() + kWaitNs + bytes / 1024 * kWaitNsPerKib;
  for (;;) {
    Status status = lock->acquire(LockMode::kExclusive);
    KVRT_ASSIGN(const bool there, cache.env->exists(path));
    if (there) return std::unique_ptr<FileLock>();
    if (status.is_ok()) return lock;
    if (status.code() != Code::kBusy || cache.env->now_ns() > until) return status;
    KVRT_TRY(poll());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status make_room(const WeightCache& cache, uint64_t bytes) {
  std::vector<std::string> litter, going;
  KVRT_ASSIGN(const std::vector<Entry> entries, list_weights(cache, &litter));
  for (const std::string& path : litter) (void)cache.env->remove_file(path);
  KVRT_ASSIGN(const FsInfo fs, cache.env->fs_info(cache.dir));
  const uint64_t bytes_max = bytes_max_of(cache, fs), keep = free_bytes_min(fs);
  uint64_t used = 0, free = fs.free_bytes;
  for (const Entry& entry : entries) used += entry.info.bytes;
  for (const Entry& entry : entries) {
    if (used + bytes <= bytes_max && bytes + keep <= free) break;
    if (in_use(cache, entry.path)) continue;
    used -= entry.info.bytes;
    free += entry.info.bytes;
    going.push_back(entry.path);
  }
  if (used + bytes > bytes_max) {
    return error(Code::kLimit, Detail::kNone, "%s: %llu bytes are wanted, %llu are in use there, cache_bytes_max is %llu",
                 cache.dir.c_str(), Ull{bytes}, Ull{used}, Ull{bytes_max});
  }
  if (bytes + keep > free) {
    return error(Code::kNoSpace, Detail::kNone, "%s: %llu bytes are wanted, the file system can have %llu free, of which %llu stay so",
                 cache.dir.c_str(), Ull{bytes}, Ull{free}, Ull{keep});
  }
  for (const std::string& path : going) {
    Status removed = cache.env->remove_file(path);
    if (!removed.is_ok() && removed.code() != Code::kNotFound) return removed;
  }
  return {};
}

}  // namespace kvrt
