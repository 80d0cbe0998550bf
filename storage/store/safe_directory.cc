#include "storage/store/safe_directory.h"

namespace kvrt {

Status check_place(Env* env, const std::string& root, bool* writable) {
  KVRT_ASSIGN(DirInfo dir, env->dir_info(root));
  if (!dir.owned || dir.others_can_write) {
    return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: %s", root.c_str(),
                 dir.owned ? "group or others can write it; a store's directory is its owner's alone (chmod 700)"
                           : "belongs to another user; a store is its owner's alone: run as that user, or name another directory");
  }
  *writable = dir.writable;
  KVRT_ASSIGN(FsInfo fs, env->fs_info(root));
  if (fs.is_network) {
    return error(Code::kUnsupported, Detail::kNone, "%s: on a network file system (%s), whose locks and renames cannot be trusted",
                 root.c_str(), fs.type.c_str());
  }
  return {};
}

Status check_directories(Env* env, const std::string& root) {
  for (const char* name : {"/tmp", "/segs"}) {
    Status status = env->list_dir(root + name).take_status();
    if (!status.is_ok() && status.code() != Code::kNotFound) return status;
  }
  return {};
}

}  // namespace kvrt
