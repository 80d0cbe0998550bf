#include "storage/store/migrate.h"

#include <algorithm>
#include <vector>

#include "storage/catalog/catalog_db.h"
#include "storage/segment/segment.h"

namespace kvrt {

namespace {

Status copy_bytes(const File& from, File* to) {
  KVRT_ASSIGN(const uint64_t size, from.size());
  std::vector<uint8_t> part(std::min<uint64_t>(size, 1u << 20));
  for (uint64_t at = 0; at < size; at += part.size()) {
    part.resize(static_cast<size_t>(std::min<uint64_t>(part.size(), size - at)));
    KVRT_TRY(from.pread(at, part));
    KVRT_TRY(to->append(part));
  }
  return to->sync();
}

// Copies a catalog without a log. No connection of this process may have it open: closing our descriptor would free that one's locks.
// `made`: the backup is this one; else it is as before.
Status back_up(Env* env, const std::string& root, bool* made) {
  const std::string backup = root + "/" + kCatalogBackup;
  SegmentId unique;
  env->random(unique.bytes);
  const std::string tmp = root + "/tmp/" + unique.hex() + ".old";
  Status copied = [&]() -> Status {
    KVRT_ASSIGN(auto from, env->open_read(root + "/catalog.db"));
    KVRT_ASSIGN(auto to, env->create_new(tmp));
    return copy_bytes(*from, to.get());
  }();
  if (copied.is_ok()) {  // the one before goes when the new one is on the disk
    Status removed = env->remove_file(backup);
    if (!removed.is_ok() && removed.code() != Code::kNotFound) copied = std::move(removed);
  }
  if (copied.is_ok()) copied = env->rename_new(tmp, backup);
  *made = copied.is_ok();
  if (copied.is_ok()) return env->sync_dir(root);
  (void)env->remove_file(tmp).is_ok();
  return copied;
}

}  // namespace

Status migrate_catalog(Env* env, const std::string& root, const std::optional<StoreId>& known) {
  const std::string path = root + "/catalog.db";
  CatalogDb::OpenMode mode;
  mode.oldest = kCatalogSchemaOldest;
  {
    CatalogDb catalog;
    mode.check = true;  // a damaged catalog is not migrated
    Status opened = catalog.open(path, mode);
    if (!opened.is_ok()) {
      (void)catalog.close(false).is_ok();  // its log may be a newer kvrt's
      return opened;
    }
    KVRT_ASSIGN(const int64_t schema, catalog.schema());
    KVRT_TRY(catalog.checkpoint(true));
    KVRT_TRY(catalog.close(true));
    if (schema == kCatalogSchema) return {};  // only the log had the new schema
  }
  StoreId id;
  env->random(id.bytes);
  CatalogDb catalog;
  mode.check = false;
  bool backed_up = false;
  Status migrated = back_up(env, root, &backed_up);
  if (migrated.is_ok()) migrated = catalog.open(path, mode);
  if (migrated.is_ok()) migrated = catalog.migrate(known.value_or(id));
  if (migrated.is_ok()) {
    KVRT_TRY(catalog.checkpoint(true));  // every kvrt finds the new schema in the file's header
    return catalog.close(true);
  }
  (void)catalog.close(true).is_ok();
  if (backed_up && migrated.code() == Code::kNoSpace)
    (void)env->remove_file(root + "/" + kCatalogBackup).is_ok();  // nothing has changed, so the copy only takes space
  return migrated;
}

}  // namespace kvrt
