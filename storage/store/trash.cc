#include "storage/store/trash.h"

#include <vector>

namespace kvrt {

namespace {

// Unlinks a segment, and empties it: a process that has it open would keep its space. What reads there finds its row gone, or elsewhere.
bool remove_segment(Env* env, Log* log, const std::string& path, RemovedFiles* removed) {
  auto file = env->open_append(path);
  if (!remove_counted(env, log, path, removed)) return false;
  if (file.is_ok()) (void)(*file)->resize(0).is_ok();
  return true;
}

}  // namespace

size_t empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, uint64_t until_ns,
                   RemovedFiles* removed) {
  std::vector<SegmentId> gone;
  for (const SegmentId& id : catalog->segments.settled_trash()) {
    if (!gone.empty() && env->now_ns() >= until_ns) break;
    if (remove_segment(env, log, id.path(root), removed)) gone.push_back(id);
    files->forget(id);  // an open file keeps its space
  }
  if (gone.empty()) return 0;
  Status cleared = catalog->segments.clear_trash(gone);
  if (cleared.is_ok()) return gone.size();
  logf(log, LogLevel::kWarn, "store: trash: %s", cleared.message().c_str());
  return 0;
}

void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files) {
  const Impatient at_once = catalog->db.impatient();
  for (;;) {
    auto trash = catalog->segments.trash();
    if (!trash.is_ok() || trash->empty()) return;
    Status settled = catalog->db.settle();
    if (!settled.is_ok()) return logf(log, LogLevel::kWarn, "store: trash: %s", settled.message().c_str());
    (void)catalog->db.set_durability(Durability::kProcess).is_ok();  // taking a name from the trash need not wait
    if (empty_trash(env, log, root, catalog, files, UINT64_MAX, nullptr) == 0) return;
  }
}

}  // namespace kvrt
