#include "storage/store/survey.h"

#include <algorithm>

#include "storage/store/migrate.h"

namespace kvrt {

namespace {

constexpr const char* kOurNames[] = {
    "FORMAT", "catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-journal", kCatalogBackup, "segs",
    "tmp",    "lock",       "write.lock",     "reserve",        "reserve2",           "lost+found"};

}  // namespace

// Beside a catalog of ours a strange FORMAT is a damaged one; else the directory is another program's.
Status check_format(const FormatFile& format, const CatalogProbe& catalog, const std::string& root) {
  using Kind = CatalogProbe::Kind;
  const bool ours = catalog.kind == Kind::kOurs || catalog.kind == Kind::kOld || catalog.kind == Kind::kFlipped;
  if (format.kind != FormatFile::Kind::kStrange || ours) return {};
  return error(Code::kIncompatible, Detail::kOtherProgram, "%s/FORMAT: not the FORMAT of a kvrt store", root.c_str());
}

Result<bool> has_segments(Env* env, const std::string& root) {
  auto dirs = env->list_dir(root + "/segs");
  if (!dirs.is_ok()) {
    if (dirs.status().code() == Code::kNotFound) return false;
    return dirs.take_status();
  }
  for (const std::string& dir : *dirs) {
    auto files = env->list_dir(root + "/segs/" + dir);
    if (!files.is_ok() || !files->empty()) return true;
  }
  return false;
}

// Refuses a catalog of a later kvrt, or of one before the first release.
Status check_schema_known(const CatalogProbe& catalog, const std::string& path) {
  if (catalog.kind == CatalogProbe::Kind::kTooNew) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "%s: catalog schema %d, this kvrt knows up to %d; left untouched", path.c_str(),
                 catalog.schema, kCatalogSchema);
  }
  if (catalog.kind == CatalogProbe::Kind::kTooOld) {
    return error(Code::kIncompatible, Detail::kFormat,
                 "%s: catalog schema %d of a kvrt before the first release, this one reads %d to %d; left untouched", path.c_str(),
                 catalog.schema, kCatalogSchemaOldest, kCatalogSchema);
  }
  return {};
}

Status foreign_database(const CatalogProbe& catalog, const std::string& path) {
  return error(Code::kIncompatible, Detail::kOtherProgram, "%s: a database of another program (application id %08x); left untouched",
               path.c_str(), static_cast<unsigned>(catalog.application_id));
}

Result<Survey> survey(Env* env, const std::string& root) {
  Survey s;
  KVRT_ASSIGN(s.format, read_format(env, root));
  std::string path = root + "/catalog.db";
  KVRT_ASSIGN(s.catalog, probe_catalog(env, path));
  KVRT_TRY(recognize_catalog(path, &s.catalog));
  KVRT_TRY(check_format(s.format, s.catalog, root));
  KVRT_TRY(check_schema_known(s.catalog, path));
  if (s.catalog.kind == CatalogProbe::Kind::kForeign) return foreign_database(s.catalog, path);
  if (s.catalog.kind == CatalogProbe::Kind::kCorrupt) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt,
                 "%s: not a catalog any more (its header is damaged): repair the store (kvrt store repair); left untouched", path.c_str());
  }
  if (s.catalog.kind != CatalogProbe::Kind::kMissing) {
    s.empty = false;
    return s;
  }
  KVRT_ASSIGN(bool segments, has_segments(env, root));
  if (s.format.kind != FormatFile::Kind::kMissing || segments) {  // FORMAT is written after the catalog, so there was one
    return error(Code::kCorrupt, Detail::kCatalogMissing,
                 "%s: missing, though %s; a new one would lose its sessions: put it back, or repair the store (kvrt store repair)",
                 path.c_str(), segments ? "segs/ has data" : "FORMAT says that this was a store");
  }
  KVRT_ASSIGN(auto names, env->list_dir(root));
  for (const std::string& name : names) {
    if (std::find(std::begin(kOurNames), std::end(kOurNames), name) == std::end(kOurNames)) {
      return error(Code::kIncompatible, Detail::kOtherProgram, "%s: not empty and no kvrt store (it has %s); left untouched", root.c_str(),
                   name.c_str());
    }
  }
  return s;
}

}  // namespace kvrt
