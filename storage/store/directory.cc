#include "storage/store/directory.h"

#include "storage/store/killed_log.h"
#include "storage/store/locks.h"
#include "storage/store/migrate.h"
#include "storage/store/safe_directory.h"
#include "storage/store/survey.h"

namespace kvrt {

namespace {

// Only a writer that is alone may migrate an old catalog. Any other open is refused, and nothing has changed.
Status check_age(const CatalogProbe& catalog, const StoreDirectory& dir) {
  if (catalog.kind != CatalogProbe::Kind::kOld || (dir.alone && !dir.read_only)) return {};
  const char* path = dir.root.c_str();
  if (dir.read_only) {
    return error(
        Code::kIncompatible, Detail::kFormat,
        "%s: catalog schema %d of an older kvrt, this one reads %d: open the store once for writing, which migrates it; left untouched",
        path, catalog.schema, kCatalogSchema);
  }
  return error(Code::kBusy, Detail::kStoreLocked, "%s: catalog schema %d is to be migrated to %d, and another process has the store open",
               path, catalog.schema, kCatalogSchema);
}

// The numbers in the catalog's header have flipped bits: only a writer that is alone may mend them.
Status check_mendable(const StoreDirectory& dir) {
  if (dir.alone && !dir.read_only) return {};
  const char* text = "%s/catalog.db: a bit of the numbers in its header has flipped: %s";
  if (dir.read_only)
    return error(Code::kCorrupt, Detail::kCatalogCorrupt, text, dir.root.c_str(), "open the store once for writing, which mends it");
  return error(Code::kBusy, Detail::kStoreLocked, text, dir.root.c_str(),
               "another process has the store open; the first open after that mends it");
}

// Mends single flipped bits: in the log that a killed process left, and in the numbers of the catalog's header.
Status mend(Env* env, StoreDirectory* dir, Survey* now) {
  if (now->catalog.log_rows) KVRT_TRY(check_killed_log(env, dir, false));
  if (now->catalog.kind != CatalogProbe::Kind::kFlipped) return {};
  KVRT_TRY(check_mendable(*dir));
  KVRT_TRY(mend_catalog_numbers(dir->root + "/catalog.db"));
  KVRT_ASSIGN(*now, survey(env, dir->root));
  return {};
}

// Makes the parts of a store that are missing: its directories, and a catalog of this schema.
Status fill(Env* env, const StoreDirectory& dir, const Survey& now) {
  KVRT_TRY(env->make_dir(dir.root + "/tmp"));
  KVRT_TRY(env->make_dir(dir.root + "/segs"));
  if (now.empty) return create_catalog(env, dir.root);
  const bool old = now.catalog.kind == CatalogProbe::Kind::kOld || now.catalog.kind == CatalogProbe::Kind::kTorn;
  return old ? migrate_catalog(env, dir.root, now.format.id) : Status();
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<DamagedDirectory> open_damaged(Env* env, const std::string& path) {
  DamagedDirectory damaged;
  StoreDirectory& dir = damaged.dir;
  const std::string root = dir.root = without_slash(path);
  KVRT_ASSIGN(bool there, env->exists(root));
  if (!there) return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
  KVRT_TRY(check_place(env, root, &dir.writable));
  if (!dir.writable) return error(Code::kIo, Detail::kReadOnly, "%s: cannot be written", root.c_str());
  KVRT_ASSIGN(dir.format, read_format(env, root));
  const bool formatted = dir.format.kind != FormatFile::Kind::kMissing && dir.format.kind != FormatFile::Kind::kStrange;
  const std::string catalog = root + "/catalog.db";
  KVRT_ASSIGN(CatalogProbe probe, probe_catalog(env, catalog));
  KVRT_TRY(recognize_catalog(catalog, &probe));
  KVRT_TRY(check_format(dir.format, probe, root));
  KVRT_TRY(check_schema_known(probe, catalog));
  // Beside our FORMAT another application id is damage.
  if (probe.kind == CatalogProbe::Kind::kForeign && !formatted) return foreign_database(probe, catalog);
  KVRT_ASSIGN(bool segments, has_segments(env, root));
  if (probe.kind == CatalogProbe::Kind::kMissing && !formatted && !segments) {
    return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
  }
  KVRT_TRY(enter_alone(env, &dir));
  KVRT_TRY(env->make_dir(root + "/tmp"));
  KVRT_TRY(env->make_dir(root + "/segs"));
  KVRT_ASSIGN(damaged.catalog, probe_catalog(env, catalog));  // again: under the lock it stays as it is
  KVRT_TRY(recognize_catalog(catalog, &damaged.catalog));
  if (damaged.catalog.log_rows) KVRT_TRY(check_killed_log(env, &dir, true));
  damaged.mended = damaged.catalog.kind == CatalogProbe::Kind::kFlipped;
  if (damaged.mended) {
    KVRT_TRY(mend_catalog_numbers(catalog));
    KVRT_ASSIGN(damaged.catalog, probe_catalog(env, catalog));
  }
  KVRT_TRY(check_schema_known(damaged.catalog, catalog));
  if (damaged.catalog.kind == CatalogProbe::Kind::kOld) {
    return error(Code::kIncompatible, Detail::kFormat, "%s: catalog schema %d of an older kvrt: opening the store migrates it to %d",
                 catalog.c_str(), damaged.catalog.schema, kCatalogSchema);
  }
  return damaged;
}

Result<StoreDirectory> open_directory(Env* env, const std::string& path, const StoreOptions& options) {
  StoreDirectory dir;
  dir.root = without_slash(path);
  const std::string& root = dir.root;
  KVRT_ASSIGN(bool there, env->exists(root));
  if (!there) {
    if (options.must_exist || options.read_only) return error(Code::kNotFound, Detail::kNone, "%s: no store there", root.c_str());
    Status made = env->make_dir(root);
    if (made.code() == Code::kNotFound) return error(Code::kNotFound, Detail::kNone, "%s: its parent directory is missing", root.c_str());
    KVRT_TRY(std::move(made));
  }
  KVRT_TRY(check_place(env, root, &dir.writable));
  dir.read_only = options.read_only || !dir.writable;
  KVRT_ASSIGN(Survey before, survey(env, root));
  if (before.empty && (options.must_exist || dir.read_only)) {
    return error(Code::kNotFound, Detail::kNone, "%s: no store there, only an empty directory", root.c_str());
  }
  KVRT_TRY(enter(env, &dir));
  KVRT_TRY(check_directories(env, root));
  KVRT_ASSIGN(Survey now, survey(env, root));  // again: under the lock it stays as it is
  KVRT_TRY(mend(env, &dir, &now));
  KVRT_TRY(check_age(now.catalog, dir));
  if (dir.alone) {
    KVRT_TRY(fill(env, dir, now));
  } else if (now.empty) {
    return error(Code::kBusy, Detail::kStoreLocked, "%s: another process is making a store there", root.c_str());
  }
  dir.format = now.format;
  dir.logged = now.catalog.logged;
  dir.log_rows = now.catalog.log_rows;
  dir.log_open = now.catalog.log && now.catalog.index;
  dir.unclean = dir.alone && now.catalog.log;
  return dir;
}

}  // namespace kvrt
