#include "storage/store/orphans.h"

namespace kvrt {

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
      KVRT_ASSIGN(bool known, catalog->segments.is_named(id));
      if (known) continue;
    }
    auto lease = env->open_lock(path, false);
    if (lease.is_ok() && !(*lease)->acquire(LockMode::kExclusive).is_ok()) continue;  // a save is writing it
    // Whether a save writes it is not known where its lock cannot be asked for. No save writes to an unsafe file.
    if (!lease.is_ok() && lease.status().detail() != Detail::kUnsafeDirectory) continue;
    if (segment) {
      KVRT_ASSIGN(bool committed, catalog->segments.is_named(id));  // since the first look
      if (committed) continue;
    }
    (void)remove_counted(env, log, path, removed);
  }
  return {};
}

void remove_all_orphans(Env* env, Log* log, const std::string& root, Catalog* catalog, bool segments) {
  auto directories = segments ? segment_directories(env, root) : Result<std::vector<std::string>>(std::vector<std::string>{"tmp"});
  if (!directories.is_ok()) return;
  for (const std::string& directory : *directories) (void)remove_orphans(env, log, root, directory, catalog, nullptr).is_ok();
}

}  // namespace kvrt
