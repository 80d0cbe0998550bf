// The names that sessions of this process have open for saving, where other processes see them: marks of the file `lock`. FORMAT.md, "Several
// processes".
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "runtime/base/mutex.h"
#include "storage/store/stored_sessions.h"

namespace kvrt {

// Thread-safe.
class OpenNames {
 public:
  explicit OpenNames(FileLock* lock) : lock_(lock) {}   // null: others neither see nor are seen
  void set_salt(const Hash256& salt) { salt_ = salt; }  // the catalog's, before the first name
  std::unique_ptr<StoredSessions::OpenName> open(std::string_view domain, std::string_view name);
  int32_t other_process(std::string_view domain, std::string_view name);
  bool open_here(std::string_view domain, std::string_view name);  // by a session of this process

 private:
  class Mark;
  uint64_t byte_of(std::string_view domain, std::string_view name) const;
  void renew() KVRT_REQUIRES(mutex_);
  FileLock* const lock_;
  Hash256 salt_;
  Mutex mutex_;
  std::map<uint64_t, uint64_t> open_ KVRT_GUARDED_BY(mutex_);  // sessions by byte
  uint64_t taken_ KVRT_GUARDED_BY(mutex_) = 0;                 // the lock's marks_taken() when all of them were there
};

}  // namespace kvrt
