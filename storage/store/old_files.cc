#include "storage/store/old_files.h"

#include <algorithm>

#include "storage/store/migrate.h"

namespace kvrt {

namespace {

Status add_file(Env* env, const std::string& path, OldFiles* old) {
  auto file = env->open_read(path);
  if (file.status().code() == Code::kNotFound) return {};
  KVRT_TRY(file.status().clone());
  KVRT_ASSIGN(const uint64_t bytes, (*file)->size());
  old->files.push_back(path);
  old->bytes += bytes;
  return {};
}

bool is_damaged(const std::string& name) {
  constexpr std::string_view kPrefix = "damaged-";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  return std::all_of(name.begin() + kPrefix.size(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<OldFiles> find_old_files(Env* env, const std::string& root) {
  OldFiles old;
  KVRT_ASSIGN(const auto names, env->list_dir(root));
  for (const std::string& name : names) {
    const std::string path = root + "/" + name;
    if (name == kCatalogBackup) KVRT_TRY(add_file(env, path, &old));
    if (!is_damaged(name)) continue;
    auto inside = env->list_dir(path);
    if (inside.status().code() == Code::kNotFound) continue;
    KVRT_TRY(inside.status().clone());
    for (const std::string& file : *inside) KVRT_TRY(add_file(env, path + "/" + file, &old));
    old.directories.push_back(path);
  }
  return old;
}

Result<uint64_t> remove_old_files(Env* env, const std::string& root) {
  KVRT_ASSIGN(const OldFiles old, find_old_files(env, root));
  const auto gone = [](Status status) { return status.code() == Code::kNotFound ? Status() : std::move(status); };
  for (const std::string& path : old.files) KVRT_TRY(gone(env->remove_file(path)));
  for (const std::string& path : old.directories) KVRT_TRY(gone(env->remove_dir(path)));
  if (!old.files.empty() || !old.directories.empty()) KVRT_TRY(env->sync_dir(root));
  return old.bytes;
}

}  // namespace kvrt
