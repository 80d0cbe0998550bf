// Opening a store's directory: is it ours, is it safe, may it be written. Decides everything before SQLite sees a byte.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/catalog_file.h"
#include "storage/store/format_file.h"
#include "storage/store/store.h"

namespace kvrt {

struct StoreDirectory {
  std::string root;
  FormatFile format;
  bool read_only = false;
  bool writable = false;                 // the directory, whatever read_only says
  bool alone = false;                    // no other handle or process has it open: time for repairs. Until share()
  bool unclean = false;                  // alone, and there is a log: the last one was killed
  bool log_rows = false;                 // with rows in it
  bool log_mended = false;               // bits of it had flipped; they are as they were
  std::string log_damage;                // why commits of it cannot be read; "": they can
  std::unique_ptr<FileLock> lock;        // shared as long as the store is open; null only where it cannot be had: a read-only file system
  std::unique_ptr<FileLock> write_lock;  // held by who writes the catalog; null: read-only
};

// Checks the directory, makes and fills it if it is empty and may be, takes the lock. A directory that is refused is untouched.
Result<StoreDirectory> open_directory(Env* env, const std::string& path, const StoreOptions& options);
// A store's directory whatever its catalog is, for repair: alone in it, or BUSY. What a later or another program made is refused untouched.
struct DamagedDirectory {
  StoreDirectory dir;
  CatalogProbe catalog;
  bool mended = false;  // the numbers in the catalog's header were
};
Result<DamagedDirectory> open_damaged(Env* env, const std::string& path);

}  // namespace kvrt
