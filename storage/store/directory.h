// Opens a store's directory: decides whether it is ours, safe and writable, before SQLite sees a byte.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/catalog/catalog.h"
#include "storage/catalog/catalog_file.h"
#include "storage/store/format_file.h"
#include "storage/values.h"

namespace kvrt {

struct StoreDirectory {
  std::string root;
  FormatFile format;
  bool read_only = false;
  bool writable = false;                 // the directory, whatever read_only says
  bool without_log = false;              // it is read without the catalog's log, for which there is no room
  Status no_log;                         // why it is read_only though a writer asked for it: there is no room for the catalog's log
  bool alone = false;                    // until share(): no other handle or process has it open, so this one may repair
  bool unclean = false;                  // alone, and there is a log: the last process was killed
  bool logged = false;                   // see CatalogProbe
  bool log_rows = false;                 // the log is not empty
  bool log_open = false;                 // the log and its index are there: a process has the store open, or was killed
  bool log_mended = false;               // bits of the log had flipped, and are put right
  std::string log_damage;                // why some commits in the log cannot be read; "": all can
  std::unique_ptr<FileLock> lock;        // shared while the store is open; null only where it cannot be had: a read-only file system
  std::unique_ptr<FileLock> write_lock;  // held while the catalog is written; null: read-only
};

// Checks the directory, takes the lock, and makes the store if the directory is empty and the options allow it. A refused one is untouched.
Result<StoreDirectory> open_directory(Env* env, const std::string& path, const StoreOptions& options);
// A store's directory for repair, whatever its catalog is. It is open here alone, else BUSY. A later kvrt's, or another program's, is
// refused untouched.
struct DamagedDirectory {
  StoreDirectory dir;
  CatalogProbe catalog;
  bool mended = false;  // a bit in the catalog's header was put right
};
Result<DamagedDirectory> open_damaged(Env* env, const std::string& path);

}  // namespace kvrt
