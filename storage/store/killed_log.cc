#include "storage/store/killed_log.h"

#include "storage/catalog/sqlite_log.h"
#include "storage/segment/segment.h"

namespace kvrt {

Status check_killed_log(Env* env, StoreDirectory* dir, bool for_repair) {
  const std::string path = dir->root + "/catalog.db-wal";
  if (!dir->alone && !dir->read_only) return {};  // other processes use it, by its index
  auto file = env->open_read(path);
  if (!file.is_ok()) return file.status().code() == Code::kNotFound ? Status() : file.take_status();  // folded in meanwhile
  Result<std::unique_ptr<File>> database = std::unique_ptr<File>();
  if (dir->alone) database = env->open_read(dir->root + "/catalog.db");  // else closing it would free the locks of a handle in this process
  auto read = scan_log(**file, database.is_ok() ? database->get() : nullptr, for_repair);
  if (!read.is_ok()) return dir->alone || is_want(read.status()) ? read.take_status() : Status();  // or a writer cut it meanwhile
  const LogScan& scan = *read;
  if (dir->read_only && (scan.unclear || !scan.flipped.empty())) {
    return error(Code::kCorrupt, Detail::kCatalogCorrupt,
                 "%s: a bit has flipped: open the store once for writing, which mends it (kvrt store gc does)", path.c_str());
  }
  for (const LogBit& bit : scan.flipped) KVRT_TRY(env->patch(path, bit.offset, {&bit.byte, 1}));
  dir->log_mended = !scan.flipped.empty();
  if (scan.damaged_frame == 0) return {};
  dir->log_damage = "frame " + std::to_string(scan.damaged_frame) + " is damaged: it and " + std::to_string(scan.commits_lost) +
                    " commits from there on cannot be read";
  return {};
}

}  // namespace kvrt
