// Opening a store's directory: is it ours, is it safe, may it be written. Decides everything before SQLite sees a byte.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog.h"
#include "storage/store.h"

namespace kvrt {

inline constexpr uint32_t kStoreLayout = 1;  // the number in FORMAT

struct StoreDirectory {
  std::string root;
  bool read_only = false;
  bool had_wal = false;            // the last writer was killed
  std::unique_ptr<FileLock> lock;  // null only where a lock file cannot be made: a read-only file system
};

// Checks the directory, makes and fills it if it is empty and may be, takes the lock. A directory that is refused is untouched.
Result<StoreDirectory> open_directory(Env* env, const std::string& path, const StoreOptions& options);

struct RemovedFiles {
  uint64_t count = 0, bytes = 0;
};

// The directories that hold segments, below the root: tmp, and those of segs/ that are there.
Result<std::vector<std::string>> segment_directories(Env* env, const std::string& root);
// Removes what no row names in one of them: all of tmp, segments without a row. No save may be running.
Status remove_orphans(Env* env, Log* log, const std::string& root, const std::string& directory, Catalog* catalog, RemovedFiles* removed);
// That of all of them, at open; a failure costs disk space, not the open. A row whose file is missing stays: the first read forgets it,
// and verify names it.
void collect_garbage(Env* env, Log* log, const std::string& root, Catalog* catalog);

// A file of kReserveBytes that is given up when a full disk leaves no room to remove a session, and made again when there is.
inline constexpr uint64_t kReserveBytes = 256u << 10;
bool make_reserve(Env* env, const std::string& root);  // false: no room for it
void give_up_reserve(Env* env, const std::string& root);

// Unlinks segments in the trash and clears it of them. What put them there must be on the disk: a power cut must not bring rows back
// whose files are gone. flush_trash sees to that first.
void empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, RemovedFiles* removed);
void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files);

}  // namespace kvrt
