// kvrt doctor: what works on this machine and what to do about the rest. One line each: ok, warn or fail.
#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

class Report {
 public:
  void ok(std::string_view what, const std::string& text) { line("ok", "\x1b[32m", what, text); }
  void warn(std::string_view what, const std::string& text) { line("warn", "\x1b[33m", what, text); }
  void fail(std::string_view what, const std::string& text) {
    line("fail", "\x1b[31m", what, text);
    failed_ = true;
  }
  bool failed() const { return failed_; }

 private:
  static void line(std::string_view mark, std::string_view on, std::string_view what, const std::string& text) {
    const bool c = colour(stdout);
    fmt::print("{}{:<4}{}  {:<12} {}\n", c ? on : "", mark, c ? "\x1b[0m" : "", what, text);
  }
  bool failed_ = false;
};

std::string last_message() {
  auto error = sized<kvrt_error>();
  kvrt_last_error(&error);
  return error.message;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part.substr(std::min(part.find_first_not_of(' '), part.size())));
  return parts;
}

void kernels(Report& out, const kvrt_runtime_props& props) {
  out.ok("kernels", fmt::format("{} in use, arithmetic {}", props.isa, props.numerics));
  for (const std::string& table : split(props.isa_tables)) {
    if (table.find("differs") != std::string::npos) {
      out.fail("kernels", table + ": not used; please report the CPU's model (lscpu)");
    } else {
      out.ok("kernels", table);
    }
  }
}

void libraries(Report& out, const kvrt_runtime_props& props) {
  for (const std::string& library : split(props.libraries)) {
    int major = 0, minor = 0, patch = 0;
    if (std::sscanf(library.c_str(), "sqlite %d.%d.%d", &major, &minor, &patch) == 3 && major * 1000000 + minor * 1000 + patch < 3051003) {
      out.ok("library",
             library + ": older than 3.51.3, whose WAL reset can lose a commit; kvrt serialises its writers, so it cannot happen here");
    } else {
      out.ok("library", library);
    }
  }
}

void processors(Report& out, const kvrt_runtime_props& props) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  out.ok("threads", fmt::format("{} compute threads; {} CPUs online, {} in the affinity mask", props.threads, online, allowed));
  const std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  double limit = 0, period = 0;
  if (std::sscanf(quota.c_str(), "%lf %lf", &limit, &period) == 2 && period > 0) {
    const std::string text = fmt::format("cgroup allows {:.2f} CPUs", limit / period);
    if (limit / period + 0.01 < props.threads) {
      out.warn("threads", text + fmt::format(", fewer than the threads: run with --threads {:.0f}", std::max(1.0, limit / period)));
    } else {
      out.ok("threads", text);
    }
  }
}

void memory(Report& out) {
  uint64_t total = 0, available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %llu", &kib) == 1) total = kib * 1024;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu", &kib) == 1) available = kib * 1024;
  }
  const std::string cap = first_line("/sys/fs/cgroup/memory.max"), used = first_line("/sys/fs/cgroup/memory.current");
  if (!cap.empty() && cap != "max") {
    const uint64_t left = std::strtoull(cap.c_str(), nullptr, 10) -
                          std::min(std::strtoull(cap.c_str(), nullptr, 10), std::strtoull(used.c_str(), nullptr, 10));
    available = std::min(available, left);
  }
  const std::string text = fmt::format("{} free of {}", human_bytes(available), human_bytes(total));
  if (available < (uint64_t{1} << 29)) {
    out.warn("memory", text + ": little for a model and its KV; close something, or use a smaller model");
  } else {
    out.ok("memory", text);
  }
}

void file_system(Report& out, const std::string& directory) {
  struct statfs fs {};
  if (statfs(directory.c_str(), &fs) != 0) return out.fail("store", fmt::format("statfs {}: {}", directory, std::strerror(errno)));
  const uint64_t free = static_cast<uint64_t>(fs.f_bavail) * fs.f_bsize;
  const std::string space = human_bytes(free) + " free";
  if (free < (uint64_t{1} << 28)) {
    out.warn("space", space + ": little for KV; free some, or put the store elsewhere");
  } else {
    out.ok("space", space);
  }
  switch (static_cast<uint32_t>(fs.f_type)) {
    case 0xEF53:
      return out.ok("filesystem", "ext2/3/4");
    case 0x58465342:
      return out.ok("filesystem", "xfs");
    case 0x9123683E:
      return out.ok("filesystem", "btrfs");
    case 0x2FC12FC1:
      return out.ok("filesystem", "zfs");
    case 0x794C7630:
      return out.warn("filesystem", "overlay: in a container it goes away with it; mount a volume for the store");
    case 0x01021994:
      return out.warn("filesystem", "tmpfs: gone after a reboot; use a directory on a disk");
    case 0x6969:
    case 0xFF534D42:
    case 0xFE534D42:
      return out.fail("filesystem", "a network file system, where locks and WAL are not dependable: use a local disk");
    default:
      return out.ok("filesystem", fmt::format("type 0x{:x}", static_cast<uint32_t>(fs.f_type)));
  }
}

// The cost of one fsync of 4 KiB, on a file without a name: nothing is left in the directory.
void fsync_cost(Report& out, const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return out.warn("fsync", fmt::format("not measured: {}", std::strerror(errno)));
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
  if (done < kRuns) return out.fail("fsync", fmt::format("{}: {}", directory, std::strerror(error)));
  const std::string text = fmt::format("{:.2f} ms on average, {:.2f} at worst", sum / kRuns, worst);
  if (sum / kRuns > 50) {
    out.warn("fsync", text + ": a save waits for a few of these; a faster disk, or durability PROCESS, helps");
  } else {
    out.ok("fsync", text);
  }
}

void store(Report& out, kvrt_runtime* runtime, const std::string& path) {
  struct stat st {};
  std::string directory = path;
  if (stat(path.c_str(), &st) != 0) {
    const size_t slash = path.find_last_not_of('/') == std::string::npos ? 0 : path.rfind('/', path.find_last_not_of('/'));
    directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    if (stat(directory.c_str(), &st) != 0)
      return out.fail("store", fmt::format("{}: {}; make its parent first", path, std::strerror(errno)));
    out.ok("store", path + " does not exist yet; opening it makes it");
  } else if (!S_ISDIR(st.st_mode)) {
    return out.fail("store", path + " is not a directory: name another");
  } else if (st.st_uid != geteuid()) {
    out.fail("store", fmt::format("{} belongs to user {}: run as that user, or chown it", path, st.st_uid));
  } else if (st.st_mode & 022) {
    out.fail("store", fmt::format("{} can be written by others (mode {:o}): chmod 700 {}", path, st.st_mode & 07777, path));
  }
  if (access(directory.c_str(), W_OK) != 0) {
    out.warn("store", fmt::format("{} cannot be written: a store there is opened read-only", directory));
  }
  file_system(out, directory);
  if (access(directory.c_str(), W_OK) == 0) fsync_cost(out, directory);
  if (directory != path) return;
  auto options = sized<kvrt_store_options>();
  options.read_only = options.must_exist = 1;
  kvrt_store* raw = nullptr;
  const kvrt_status s = kvrt_store_open(runtime, path.data(), path.size(), &options, &raw);
  if (s == KVRT_NOT_FOUND) return out.ok("store", path + " holds no store yet");
  if (s == KVRT_BUSY) return out.warn("store", "another process has it open: " + last_message());
  if (s) return out.fail("store", fmt::format("{} ({})", last_message(), kvrt_status_name(s)));
  Store opened(raw);
  auto props = sized<kvrt_store_props>();
  kvrt_store_info(raw, &props);
  out.ok("store", fmt::format("format {}, {} sessions, {} on disk; `kvrt store verify {}` reads all of it", props.format, props.sessions,
                              human_bytes(props.disk_bytes), path));
}

}  // namespace

int cmd_doctor(const DoctorFlags& flags) {
  Report out;
  out.ok("kvrt",
         fmt::format("{}.{}.{}, ABI {}", kvrt_version() >> 16, kvrt_version() >> 8 & 255, kvrt_version() & 255, kvrt_abi_version()));
  if (kvrt_abi_version() != KVRT_ABI_VERSION) {
    out.fail("kvrt", fmt::format("this program was built for ABI {}: install the library that came with it", KVRT_ABI_VERSION));
  }
  Runtime runtime;
  kvrt_runtime* raw = nullptr;
  if (kvrt_status s = kvrt_runtime_open(nullptr, &raw)) {
    out.fail("runtime", fmt::format("{} ({})", last_message(), kvrt_status_name(s)));
    return finish(s);
  }
  runtime.reset(raw);
  auto props = sized<kvrt_runtime_props>();
  kvrt_runtime_info(raw, &props);
  kernels(out, props);
  processors(out, props);
  memory(out);
  libraries(out, props);
  if (std::time(nullptr) < 1735689600) out.warn("clock", "before 2025: the times in the store will be wrong; set the clock");
  if (!flags.directory.empty()) store(out, raw, flags.directory);
  return finish(out.failed() ? KVRT_INTERNAL : KVRT_OK);
}

}  // namespace cli
