#include "runtime/base/posix/fs_info.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>

#include "runtime/base/posix/path_place.h"

namespace kvrt {

namespace {

struct FsName {
  uint64_t magic;
  const char* name;
  bool network;
};
constexpr FsName kFsNames[] = {
    {EXT4_SUPER_MAGIC, "ext4", false},
    {XFS_SUPER_MAGIC, "xfs", false},
    {BTRFS_SUPER_MAGIC, "btrfs", false},
    {TMPFS_MAGIC, "tmpfs", false},
    {OVERLAYFS_SUPER_MAGIC, "overlay", false},
    {F2FS_SUPER_MAGIC, "f2fs", false},
    {0x2FC12FC1, "zfs", false},
    {MSDOS_SUPER_MAGIC, "vfat", false},
    {0x2011BAB0, "exfat", false},
    {RAMFS_MAGIC, "ramfs", false},
    {SQUASHFS_MAGIC, "squashfs", false},
    {ISOFS_SUPER_MAGIC, "iso9660", false},
    {NFS_SUPER_MAGIC, "nfs", true},
    {SMB_SUPER_MAGIC, "smb", true},
    {CIFS_SUPER_MAGIC, "cifs", true},
    {SMB2_SUPER_MAGIC, "smb2", true},
    {V9FS_MAGIC, "9p", true},
    {FUSE_SUPER_MAGIC, "fuse", true},
    {AFS_SUPER_MAGIC, "afs", true},
    {CEPH_SUPER_MAGIC, "ceph", true},
    {CODA_SUPER_MAGIC, "coda", true},
};

}  // namespace

Result<FsInfo> read_fs_info(const std::string& path) {
  struct statfs st;
  if (retry_eintr([&] { return ::statfs(path.c_str(), &st); }) != 0) return errno_error(errno, "%s: statfs", path.c_str());
  FsInfo info;
  auto magic = static_cast<uint64_t>(static_cast<uint32_t>(st.f_type));  // f_type is signed; the magics are 32 bits
  for (const FsName& known : kFsNames) {
    if (magic == (known.magic & 0xffffffffu)) {
      info.type = known.name;
      info.is_network = known.network;
    }
  }
  if (info.type.empty()) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(magic));
    info.type = text;
  }
  auto block = static_cast<uint64_t>(st.f_bsize);
  info.free_bytes = static_cast<uint64_t>(st.f_bavail) * block;
  info.total_bytes = static_cast<uint64_t>(st.f_blocks) * block;
  return info;
}

Status creation_error(const std::string& path, const char* what) {
  const int err = errno;
  struct statfs st;
  const bool full = err == ENOSPC && ::statfs(path.substr(0, path.rfind('/') + 1).c_str(), &st) == 0 && st.f_files > 0 && st.f_ffree == 0;
  if (!full) return errno_error(err, "%s: %s", path.c_str(), what);
  return Status::make(Code::kNoSpace, Detail::kNone, err,
                      path + ": " + what + ": the file system has no inode free for it: remove files there (df -i)");
}

}  // namespace kvrt
