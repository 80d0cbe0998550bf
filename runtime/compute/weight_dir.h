// The directory of the weight cache: which one it is, who writes there, how much may lie in it, and what goes to make room.
//
// In it lie `<key>.kvrtw` (weight_file.h), whose modification time is when it was last mapped, `.lock`, which its writer holds, and what a
// killed writer left, which the next one removes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/compute/backend.h"

namespace kvrt {

inline constexpr std::string_view kWeightSuffix = ".kvrtw", kWeightTempSuffix = ".kvrtw.tmp";

enum class CacheChoice : uint32_t { kDefault, kNone, kUser };

// The cache by a caller's choice: `given`, else what KVRT_CACHE names, else the user's directory if it may be that one. An empty dir: none.
// Of a program with more rights than its user the environment is not read.
WeightCache find_cache(Env* env, Log* log, CacheChoice choice, const std::string& given, uint64_t bytes_max);

// `status` is why the cache did not serve; `what` came of it.
void log_cache(const WeightCache& cache, const char* what, const Status& status);

// The directory is the user's alone, and of this machine if nobody asked for it. NOT_FOUND where there is none.
Status check_cache_dir(const WeightCache& cache);

struct CacheStat {
  uint64_t files = 0, bytes = 0;
  uint64_t bytes_max = 0;
  uint64_t bytes_free = 0;  // of the file system, beyond what always stays free
};
// An error says why nothing can be kept there. A directory that can be made is an empty one.
Result<CacheStat> stat_cache(const WeightCache& cache);

// The right to write, which one at a time has, in a directory that is made where it is missing. Waits as long as another may take for
// `bytes`, BUSY after that. Null: `path` is there now.
Result<std::unique_ptr<FileLock>> begin_writing(const WeightCache& cache, const std::string& path, uint64_t bytes,
                                                const std::function<Status()>& poll);

// By who may write: removes what killed writers left and, the least recently used first, what nobody maps, until there is room for `bytes`.
// Where that cannot be, nothing else is removed: LIMIT, or NO_SPACE.
Status make_room(const WeightCache& cache, uint64_t bytes);

}  // namespace kvrt
