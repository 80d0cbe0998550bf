// The directory of the weight cache: its choice, its writers, its size, and the files that go to make room.
//
// It holds files `<key>.kvrtw` (weight_file.h), each with the time when it was last mapped as its modification time; `.lock`, which the
// writer holds; and files that a killed writer left, which the next writer removes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/compute/backend.h"

namespace kvrt {

inline constexpr std::string_view kWeightSuffix = ".kvrtw", kWeightTempSuffix = ".kvrtw.tmp";

enum class CacheChoice : uint32_t { kDefault, kNone, kUser };

// The cache by a caller's choice: `given`, else the one that KVRT_CACHE names, else the user's directory if it may be that one. An empty
// dir: none. A program with more rights than its user does not read the environment.
WeightCache find_cache(Env* env, Log* log, CacheChoice choice, const std::string& given, uint64_t bytes_max);

// `status` is the reason why the cache did not serve, `what` the consequence.
void log_cache(const WeightCache& cache, const char* what, const Status& status);

// The directory is the user's alone, and of this machine if nobody asked for it. NOT_FOUND where there is none.
Status check_cache_dir(const WeightCache& cache);

struct CacheStat {
  uint64_t files = 0, bytes = 0;
  uint64_t bytes_max = 0;
  uint64_t bytes_free = 0;  // the file system's, without the part that always stays free
};
// An error says why nothing can be kept there. A directory that can be made is an empty one.
Result<CacheStat> stat_cache(const WeightCache& cache);

// The right to write, which one writer at a time has, in a directory that is made where it is missing. Waits as long as another may take
// for `bytes`, BUSY after that. Null: `path` is there now.
Result<std::unique_ptr<FileLock>> begin_writing(const WeightCache& cache, const std::string& path, uint64_t bytes,
                                                const std::function<Status()>& poll);

// The writer calls it. Removes files that killed writers left and, the least recently used first, files that nobody maps, until there is
// room for `bytes`. Where there cannot be room, only the files of killed writers go: LIMIT, or NO_SPACE.
Status make_room(const WeightCache& cache, uint64_t bytes);

}  // namespace kvrt
