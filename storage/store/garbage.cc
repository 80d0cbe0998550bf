#include "storage/store/garbage.h"

namespace kvrt {

namespace {

// True if the file is not there any more.
bool remove_counted(Env* env, Log* log, const std::string& path, RemovedFiles* removed) {
  uint64_t bytes = 0;
  if (removed != nullptr) {
    auto file = env->open_read(path);
    auto size = file.is_ok() ? (*file)->size() : Result<uint64_t>(file.take_status());
    if (size.is_ok()) bytes = *size;
  }
  Status status = env->remove_file(path);
  if (status.code() == Code::kNotFound) return true;
  if (!status.is_ok()) {
    logf(log, LogLevel::kWarn, "store: %s", status.message().c_str());
    return false;
  }
  if (removed != nullptr) {
    removed->count++;
    removed->bytes += bytes;
  }
  return true;
}

}  // namespace

size_t empty_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files, uint64_t until_ns,
                   RemovedFiles* removed) {
  std::vector<SegmentId> gone;
  for (const SegmentId& id : catalog->settled_trash()) {
    if (!gone.empty() && env->now_ns() >= until_ns) break;
    if (remove_counted(env, log, id.path(root), removed)) gone.push_back(id);
    files->forget(id);  // an open file keeps its space
  }
  if (gone.empty()) return 0;
  Status cleared = catalog->clear_trash(gone);
  if (cleared.is_ok()) return gone.size();
  logf(log, LogLevel::kWarn, "store: trash: %s", cleared.message().c_str());
  return 0;
}

void flush_trash(Env* env, Log* log, const std::string& root, Catalog* catalog, SegmentCache* files) {
  const Impatient at_once = catalog->impatient();
  for (;;) {
    auto trash = catalog->trash();
    if (!trash.is_ok() || trash->empty()) return;
    Status settled = catalog->settle();
    if (!settled.is_ok()) return logf(log, LogLevel::kWarn, "store: trash: %s", settled.message().c_str());
    (void)catalog->set_durability(Durability::kProcess).is_ok();  // that a name is cleared need not wait
    if (empty_trash(env, log, root, catalog, files, UINT64_MAX, nullptr) == 0) return;
  }
}

Result<std::vector<std::string>> segment_directories(Env* env, const std::string& root) {
  std::vector<std::string> directories{"tmp"};
  auto names = env->list_dir(root + "/segs");
  if (!names.is_ok()) {
    if (names.status().code() == Code::kNotFound) return directories;
    return names.take_status();
  }
  for (const std::string& name : *names) directories.push_back("segs/" + name);
  return directories;
}

Status remove_orphans(Env* env, Log* log, const std::string& root, const std::string& directory, Catalog* catalog, RemovedFiles* removed) {
  KVRT_ASSIGN(auto names, env->list_dir(root + "/" + directory));
  for (const std::string& name : names) {
    const std::string path = root + "/" + directory + "/" + name;
    SegmentId id;
    const bool segment = directory != "tmp";
    if (segment && !parse_segment_name(name, &id)) continue;
    if (segment) {
      KVRT_ASSIGN(bool known, catalog->names_segment(id));
      if (known) continue;
    }
    auto lease = env->open_lock(path, false);
    if (lease.is_ok() && !(*lease)->acquire(LockMode::kExclusive).is_ok()) continue;  // a save is writing it
    if (segment) {
      KVRT_ASSIGN(bool committed, catalog->names_segment(id));  // meanwhile
      if (committed) continue;
    }
    (void)remove_counted(env, log, path, removed);
  }
  return {};
}

void collect_garbage(Env* env, Log* log, const std::string& root, Catalog* catalog, bool segments) {
  auto directories = segments ? segment_directories(env, root) : Result<std::vector<std::string>>(std::vector<std::string>{"tmp"});
  if (!directories.is_ok()) return;
  for (const std::string& directory : *directories) (void)remove_orphans(env, log, root, directory, catalog, nullptr).is_ok();
}

}  // namespace kvrt
