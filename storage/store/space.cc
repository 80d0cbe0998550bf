#include "storage/store/space.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr uint64_t kFreeBytesMin = 1u << 30;
constexpr uint64_t kCommitBytes = 64u << 10;  // KV leaves these free in any case, for the log when the save commits
}  // namespace

Result<Space::Shortage> Space::shortage(Catalog* catalog, uint64_t kv, uint64_t manifest, uint64_t reserve) {
  using ull = unsigned long long;
  const char* root = store_->dir.root.c_str();
  Shortage shortage;
  if (disk_bytes_max_ != 0) {
    KVRT_ASSIGN(const uint64_t used, bytes_used(catalog));
    const uint64_t more = kv + manifest - std::min(manifest, catalog->db.free_bytes());  // free pages are in `used`
    if (used + more > disk_bytes_max_) {
      shortage.bytes = used + more - disk_bytes_max_;
      shortage.why = error(Code::kNoSpace, Detail::kNone,
                           "%s: %llu bytes used, %llu more wanted, disk_bytes_max is %llu: raise it, or remove sessions", root, ull{used},
                           ull{more}, ull{disk_bytes_max_});
    }
  }
  KVRT_ASSIGN(const FsInfo fs, store_->env->fs_info(store_->dir.root));
  const uint64_t keep = kv != 0 ? kept_free(fs) + reserve : 0;  // tokens may use the space that KV leaves free
  const uint64_t more = kv + manifest;
  if (fs.free_bytes < keep + more && keep + more - fs.free_bytes > shortage.bytes) {
    shortage.bytes = keep + more - fs.free_bytes;
    shortage.why = error(
        Code::kNoSpace, Detail::kNone,
        "%s: %llu bytes free on the file system, %llu more wanted, and %llu of them must stay free: free space there, or remove sessions",
        root, ull{fs.free_bytes}, ull{more}, ull{keep});
  }
  return shortage;
}

Result<uint64_t> Space::bytes_used(Catalog* catalog) {
  KVRT_ASSIGN(const uint64_t segments, catalog->segments.total_bytes());
  return segments + catalog->db.disk_bytes() + uncounted_bytes();
}

uint64_t Space::kept_free(const FsInfo& fs) const {
  return std::max(kCommitBytes, free_bytes_min_ != 0 ? free_bytes_min_ : std::min(kFreeBytesMin, fs.total_bytes / 20));
}

Result<uint64_t> Space::bytes_free(uint64_t used) {
  KVRT_ASSIGN(const FsInfo fs, store_->env->fs_info(store_->dir.root));
  const uint64_t free = fs.free_bytes - std::min(fs.free_bytes, kept_free(fs));
  return disk_bytes_max_ != 0 ? std::min(free, disk_bytes_max_ - std::min(disk_bytes_max_, used)) : free;
}

}  // namespace kvrt
