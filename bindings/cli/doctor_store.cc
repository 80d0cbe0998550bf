// kvrt doctor: the directory of a store. It is read, and an unnamed file is written to see what fsync costs; nothing is left in it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bindings/cli/doctor.h"

namespace cli {

namespace {

enum class Trust { kLocal, kPasses, kNetwork };  // kPasses: its files do not last

struct FileSystem {
  uint32_t magic;
  const char* name;
  Trust trust;
};
constexpr FileSystem kFileSystems[] = {
    {0xEF53, "ext2/3/4", Trust::kLocal},   {0x58465342, "xfs", Trust::kLocal},      {0x9123683E, "btrfs", Trust::kLocal},
    {0x2FC12FC1, "zfs", Trust::kLocal},    {0xF2F52010, "f2fs", Trust::kLocal},     {0x2011BAB0, "exfat", Trust::kLocal},
    {0x4d44, "vfat", Trust::kLocal},       {0x794C7630, "overlay", Trust::kPasses}, {0x01021994, "tmpfs", Trust::kPasses},
    {0x858458F6, "ramfs", Trust::kPasses}, {0x6969, "nfs", Trust::kNetwork},        {0x517B, "smb", Trust::kNetwork},
    {0xFF534D42, "cifs", Trust::kNetwork}, {0xFE534D42, "smb2", Trust::kNetwork},   {0x01021997, "9p", Trust::kNetwork},
    {0x65735546, "fuse", Trust::kNetwork}, {0x5346414F, "afs", Trust::kNetwork},    {0x00C36400, "ceph", Trust::kNetwork},
    {0x73757245, "coda", Trust::kNetwork},
};

// Below this floor a disk that others use too is nearly full.
uint64_t space_floor(uint64_t total) { return std::min<uint64_t>(uint64_t{1} << 30, total / 20); }

void file_system(Report& out, const std::string& directory) {
  struct statfs fs {};
  if (statfs(directory.c_str(), &fs) != 0)
    return out.fail(KVRT_IO, "filesystem", fmt::format("cannot find the file system of {}: {}", directory, std::strerror(errno)));
  const auto magic = static_cast<uint32_t>(fs.f_type);
  const auto* known = std::find_if(std::begin(kFileSystems), std::end(kFileSystems), [&](const FileSystem& f) { return f.magic == magic; });
  if (known == std::end(kFileSystems)) {
    out.warn("filesystem", fmt::format("type 0x{:x}, which kvrt does not know: is it local?", magic));
  } else if (known->trust == Trust::kNetwork) {
    out.fail(KVRT_UNSUPPORTED, "filesystem",
             fmt::format("{}: reached over a network or through another process, where locks and renames are not "
                         "dependable; a store is refused there: use a local disk",
                         known->name));
  } else if (known->trust == Trust::kPasses) {
    out.warn("filesystem",
             fmt::format("{}: its files are lost {}", known->name,
                         magic == 0x794C7630 ? "with the container; mount a volume for the store" : "at the next boot; use a disk"));
  } else {
    out.ok("filesystem", known->name);
  }
  const auto block = static_cast<uint64_t>(fs.f_bsize);
  const uint64_t free = fs.f_bavail * block, total = fs.f_blocks * block, floor = space_floor(total);
  const std::string space = fmt::format("{} free of {}", human_bytes(free), human_bytes(total));
  const std::string limit = fmt::format("the floor of {} (1 GiB, or 5 % of the file system where that is less)", human_bytes(floor));
  if (free < floor) {
    out.warn("space", fmt::format("{}, below {}: free some, or put the store elsewhere", space, limit));
  } else {
    out.ok("space", fmt::format("{}, above {}", space, limit));
  }
  constexpr uint64_t kFilesOfASave = 8;
  if (fs.f_files > 0 && fs.f_ffree < kFilesOfASave)
    out.warn("space", fmt::format("{} free on the file system (df -i): remove files there", counted(fs.f_ffree, "inode")));
}

// The cost of one fsync of 4 KiB, on a file without a name.
void fsync_cost(Report& out, const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const auto not_measured = [&](int error) { out.warn("fsync", fmt::format("not measured: {}", std::strerror(error))); };
  if (fd < 0) return not_measured(errno);
  char page[4096] = {};
  double worst = 0, sum = 0;
  constexpr int kRuns = 8;
  int done = 0;
  for (; done < kRuns; ++done) {
    const auto start = now();
    if (pwrite(fd, page, sizeof page, done * 4096L) != sizeof page || fsync(fd) != 0) break;
    sum += ms_since(start);
    worst = std::max(worst, ms_since(start));
  }
  const int error = errno;
  close(fd);
  if (done < kRuns && (error == ENOSPC || error == EDQUOT)) return not_measured(error);
  if (done < kRuns) return out.fail(KVRT_IO, "fsync", fmt::format("{}: {}", directory, std::strerror(error)));
  const std::string text = fmt::format("{:.2f} ms on average, {:.2f} at worst", sum / kRuns, worst);
  if (sum / kRuns > 50) {
    out.warn("fsync", text + ": a save waits for several of these; a faster disk, or --durability process, helps");
  } else {
    out.ok("fsync", text);
  }
}

// The fault of one file or folder of a store, or "" where there is none.
std::string complaint(const struct stat& st) {
  if (S_ISLNK(st.st_mode)) return "is a symbolic link; kvrt follows none: put the file itself there";
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return "is neither a file nor a folder: remove it";
  if (st.st_uid != geteuid()) return fmt::format("belongs to user {}: chown it", st.st_uid);
  if (S_ISREG(st.st_mode) && st.st_nlink > 1) return "has a second name (a hard link): remove one of them";
  const mode_t expected = S_ISDIR(st.st_mode) ? 0700 : 0600, mode = st.st_mode & 07777;
  return mode & ~expected ? fmt::format("has mode {:03o}: chmod {:o}", mode, expected) : "";
}

// True: kvrt opens no such file.
bool refused(const struct stat& st) {
  return !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) || st.st_uid != geteuid() || (st.st_mode & 022) ||
         (S_ISREG(st.st_mode) && st.st_nlink > 1);
}

void files(Report& out, const std::string& root) {
  constexpr uint64_t kShown = 8;
  uint64_t seen = 0, bad = 0;
  bool fatal = false;  // among those that are not shown
  std::error_code error;
  // Symbolic links to folders are not followed.
  auto it = std::filesystem::recursive_directory_iterator(root, std::filesystem::directory_options::none, error);
  for (; !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (it.depth() == 0 && it->path().filename() == "lost+found") {  // the file system's, where the store is a mount point
      it.disable_recursion_pending();
      continue;
    }
    struct stat st {};
    if (lstat(it->path().c_str(), &st) != 0) continue;  // removed meanwhile
    ++seen;
    const std::string wrong = complaint(st);
    if (wrong.empty()) continue;
    if (++bad > kShown) {
      fatal |= refused(st);
      continue;
    }
    const std::string text = fmt::format("{} {}", it->path().string(), wrong);
    if (refused(st)) {
      out.fail(KVRT_INVALID, "files", text);
    } else {
      out.warn("files", text);
    }
  }
  if (error) return out.fail(KVRT_IO, "files", fmt::format("{}: {}", root, error.message()));
  if (bad > kShown) {
    const std::string more = fmt::format("{} more like these: ls -lR {}", bad - kShown, in_quotes(root));
    fatal ? out.fail(KVRT_INVALID, "files", more) : out.warn("files", more);
  }
  if (!bad) out.ok("files", fmt::format("{} files and folders, open to this user alone (modes 600 and 700)", seen));
}

// Processes that hold a lock on the file, by the kernel's list; a process of another container may be missing there.
std::vector<std::string> holders(const std::string& path) {
  std::vector<std::string> found;
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0) return found;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    int pid = 0;
    unsigned device_major = 0, device_minor = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &device_major, &device_minor, &inode) != 4) continue;
    // Some file systems (btrfs, overlay) have another device number here than in stat, an anonymous one.
    if (inode != st.st_ino || (device_major && makedev(device_major, device_minor) != st.st_dev)) continue;
    std::string name = "a process";
    std::ifstream comm(fmt::format("/proc/{}/comm", pid));
    std::getline(comm, name);
    found.push_back(pid > 0 ? fmt::format("{} (process {})", name, pid) : "a process of another container");
  }
  return found;
}

void company(Report& out, const std::string& root) {
  const auto open_in = holders(root + "/lock");
  if (!open_in.empty()) {
    for (const std::string& process : open_in) out.ok("open", process + " has it open");
    return;
  }
  out.ok("open", "no other process has it open");
  std::error_code error;
  uint64_t left = 0;
  for (auto it = std::filesystem::directory_iterator(root + "/tmp", error); !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    ++left;
  }
  const auto log = std::filesystem::file_size(root + "/catalog.db-wal", error);
  const bool has_log = !error && log > 0;
  if (!left && !has_log) return out.ok("leftovers", "none: it was closed cleanly");
  if (has_log)
    out.warn("leftovers", fmt::format("a log of {} that is not in the catalog yet: the next open for writing merges it", human_bytes(log)));
  if (left) out.warn("leftovers", fmt::format("{} in tmp: the next open for writing removes them", counted(left, "unfinished file")));
}

// A database whose journal mode another program changed can be read, and opening it for writing refuses it.
void catalog(Report& out, const std::string& root) {
  char head[20] = {};
  std::ifstream(root + "/catalog.db", std::ios::binary).read(head, sizeof head);
  if (!std::string_view(head, sizeof head).starts_with("SQLite format 3") || (head[18] == 2 && head[19] == 2)) return;
  out.fail(KVRT_CORRUPT, "store",
           fmt::format("another program changed the journal mode of {}/catalog.db, WAL: nothing can be saved; run `kvrt store repair {}`",
                       root, in_quotes(root)));
}

// The folder in which a path would be made.
std::string parent_of(const std::string& path) {
  const auto end = path.find_last_not_of('/');
  const auto slash = end == std::string::npos ? 0 : path.rfind('/', end);
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// True: a folder whose modes must not change for a store. It is another user's, or shared, or holds other things.
bool is_for_others(const std::string& path, const struct stat& st) {
  struct stat format {};
  std::error_code unknown;
  const bool store = lstat((path + "/FORMAT").c_str(), &format) == 0;
  return (st.st_mode & S_ISVTX) || (!store && (st.st_uid != geteuid() || !std::filesystem::is_empty(path, unknown)));
}

// Checks the directory itself. False: there is no store to look at.
bool root_folder(Report& out, const std::string& path, const struct stat& st) {
  if (!S_ISDIR(st.st_mode)) {
    out.fail(KVRT_INVALID, "store", path + " is not a directory: name another path");
    return false;
  }
  if ((st.st_uid != geteuid() || (st.st_mode & 077)) && is_for_others(path, st)) {
    const std::string text =
        fmt::format("{} is not for a store alone (user {}, mode {:03o}): name a directory below it, such as {}{}store; kvrt makes it", path,
                    st.st_uid, st.st_mode & 07777, path, path.ends_with('/') ? "" : "/");
    if (st.st_uid != geteuid() || (st.st_mode & 022)) {
      out.fail(KVRT_INVALID, "store", text);
      return false;  // kvrt refuses it
    }
    out.warn("store", text);
  } else if (st.st_uid != geteuid()) {
    out.fail(KVRT_INVALID, "store", fmt::format("{} belongs to user {}: run as that user, or chown it", path, st.st_uid));
  } else if (st.st_mode & 022) {
    out.fail(KVRT_INVALID, "store",
             fmt::format("{} can be written by others (mode {:03o}): chmod 700 {}", path, st.st_mode & 07777, in_quotes(path)));
  } else if (st.st_mode & 077) {
    out.warn("store", fmt::format("{} can be read by others (mode {:03o}): chmod 700 {}", path, st.st_mode & 07777, in_quotes(path)));
  } else {
    out.ok("store", fmt::format("{} is open to this user alone (mode {:03o})", path, st.st_mode & 07777));
  }
  if (access(path.c_str(), W_OK) != 0) out.warn("store", fmt::format("{} cannot be written: a store there is opened read-only", path));
  return true;
}

void contents(Report& out, const Runtime& runtime, const std::string& path) {
  auto options = init<kvrt_store_options>();
  options.read_only = options.must_exist = 1;
  const Result<Store> store = Store::open(runtime, path, options);
  const kvrt_status s = store.status().code();
  if (s == KVRT_NOT_FOUND) return out.ok("store", path + " holds no store yet");
  if (s == KVRT_BUSY) return out.warn("store", "its contents were not examined: " + last_message());
  if (s) return out.fail(s, "store", fmt::format("{} ({})", last_message(), kvrt_status_name(s)));
  const Result<kvrt_store_props> props = store->info();
  if (kvrt_status e = props.status().code()) return out.fail(e, "store", fmt::format("{} ({})", last_message(), kvrt_status_name(e)));
  out.ok("store", fmt::format("format {}, {}, {} on disk; `kvrt store verify {}` reads all of it", props->format,
                              counted(props->sessions, "session"), human_bytes(props->disk_bytes), in_quotes(path)));
  for (const OldFile& old : old_files(path)) {
    out.warn("old", fmt::format("{}, {}, is of an earlier state and may hold removed sessions: `kvrt store gc --old {}` removes it",
                                old.name, human_bytes(old.bytes), in_quotes(path)));
  }
}

}  // namespace

void examine_store(Report& out, const Runtime& runtime, const std::string& path) {
  struct stat st {};
  const bool there = stat(path.c_str(), &st) == 0;
  const std::string directory = there ? path : parent_of(path);
  if (there) {
    if (!root_folder(out, path, st)) return;
  } else {
    if (stat(directory.c_str(), &st) != 0) {
      return out.fail(KVRT_NOT_FOUND, "store", fmt::format("{}: {}; make its parent first", path, std::strerror(errno)));
    }
    out.ok("store", path + " does not exist yet; opening it makes it");
  }
  file_system(out, directory);
  if (access(directory.c_str(), W_OK) == 0) fsync_cost(out, directory);
  if (!there) return;
  struct stat format {};
  if (lstat((path + "/FORMAT").c_str(), &format) == 0) {
    files(out, path);
    company(out, path);
    catalog(out, path);
  }
  contents(out, runtime, path);
}

}  // namespace cli
