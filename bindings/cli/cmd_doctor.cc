// kvrt doctor: checks this machine, and says how to mend each fault. It prints a line per check: ok, warn or fail.
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include "bindings/cli/doctor.h"

namespace cli {

std::string last_message() { return in_options(kvrt::last_error().message); }

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> split(const std::string& text, char separator = ',') {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part.substr(std::min(part.find_first_not_of(' '), part.size())));
  return parts;
}

void kernels(Report& out, const kvrt_runtime_props& props) {
  out.ok("kernels", fmt::format("{} in use, arithmetic {}", props.isa, props.numerics));
  for (const std::string& table : split(props.isa_tables)) {
    if (table.find("differs") != std::string::npos) {
      out.fail(KVRT_INTERNAL, "kernels", table + ": kvrt does not use it; please report the CPU's model (lscpu)");
    } else {
      out.ok("kernels", table);
    }
  }
}

// SQLite 3.7.0 to 3.51.2: two connections that write and fold the log in at the same time can lose a commit (the WAL-reset bug).
void libraries(Report& out, const kvrt_runtime_props& props) {
  for (const std::string& library : split(props.libraries)) {
    int major = 0, minor = 0, patch = 0;
    const bool sqlite = std::sscanf(library.c_str(), "sqlite %d.%d.%d", &major, &minor, &patch) == 3;
    const int version = major * 1000000 + minor * 1000 + patch;
    if (sqlite && version >= 3007000 && version < 3051003) {
      out.ok("library", library + "; its WAL reset is safe here: kvrt writes and folds the log in under one lock");
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
  out.ok("threads",
         fmt::format("{}; {} online, {} in the affinity mask", counted(props.threads, "compute thread"), counted(online, "CPU"), allowed));
  const std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  double limit = 0, period = 0;
  if (std::sscanf(quota.c_str(), "%lf %lf", &limit, &period) == 2 && period > 0) {
    const std::string text = fmt::format("the cgroup allows {:.2f} CPUs", limit / period);
    if (limit / period + 0.01 < props.threads) {
      out.warn("threads", text + fmt::format(", fewer than the threads: run with --threads {:.0f}", std::max(1.0, limit / period)));
    } else {
      out.ok("threads", text);
    }
  }
}

// Opens CUDA as a runtime does: only that shows that it works. A machine without CUDA has no fault.
void cuda(Report& out, ModelFlags flags) {
  flags.device = "cuda";
  const std::string driver = first_line("/proc/driver/nvidia/version");
  const Result<Runtime> runtime = Runtime::open(runtime_options(flags));
  if (kvrt_status s = runtime.status().code()) {
    const std::string why = fmt::format("{} ({})", last_message(), kvrt_status_name(s));
    if (s != KVRT_UNSUPPORTED) return out.fail(s, "cuda", why);
    if (driver.empty() && flags.cuda_library.empty())
      return out.ok("cuda", "the CPU computes; no NVIDIA driver is loaded, which a GPU needs");
    return out.warn("cuda", fmt::format("not usable: {}; {}", why,
                                        driver.empty() ? "no NVIDIA driver is loaded" : "the NVIDIA driver is loaded: " + driver));
  }
  const Result<kvrt_runtime_props> props = runtime->info();
  if (kvrt_status s = props.status().code()) return out.fail(s, "cuda", fmt::format("{} ({})", last_message(), kvrt_status_name(s)));
  out.ok("cuda", fmt::format("device {} works: {}, {}, arithmetic {}, {} free of {}; --device cuda uses it, one device per runtime",
                             flags.device_index, props->device_name, props->isa, props->numerics, human_bytes(props->device_memory_free),
                             human_bytes(props->device_memory)));
  for (const std::string& line : split(props->devices, '\n')) {
    if (line.rfind("no cuBLASLt", 0) == 0) {
      out.warn("cuda", "prompts are slower than they need be: " + line);
    } else {
      out.ok("cuda", line);
    }
  }
}

void memory(Report& out) {
  uint64_t total = 0, available = 0;
  bool known = false;  // without /proc (a chroot, a build's sandbox) the kernel tells the total alone
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %llu", &kib) == 1) total = kib * 1024;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu", &kib) == 1) available = kib * 1024, known = true;
  }
  struct sysinfo info = {};
  if (total == 0 && sysinfo(&info) == 0) total = uint64_t{info.totalram} * info.mem_unit;
  const std::string cap = first_line("/sys/fs/cgroup/memory.max"), used = first_line("/sys/fs/cgroup/memory.current");
  if (!cap.empty() && cap != "max") {
    const uint64_t left = std::strtoull(cap.c_str(), nullptr, 10) -
                          std::min(std::strtoull(cap.c_str(), nullptr, 10), std::strtoull(used.c_str(), nullptr, 10));
    available = known ? std::min(available, left) : left;
    known = true;
  }
  if (!known) return out.ok("memory", fmt::format("{}; how much is free is unknown: /proc/meminfo does not say it", human_bytes(total)));
  const std::string text = fmt::format("{} free of {}", human_bytes(available), human_bytes(total));
  if (available < (uint64_t{1} << 29)) {
    out.warn("memory", text + ": little for a model and its KV; close other programs, or use a smaller model");
  } else {
    out.ok("memory", text);
  }
}

// The directory of the weight cache, or the reason why it is not used.
void weight_cache(Report& out, const Runtime& runtime, const ModelFlags& flags) {
  if (flags.no_weight_cache) return out.ok("cache", "none: --no-weight-cache");
  const Result<kvrt_cache_props> cache = runtime.cache(model_options(flags));
  const kvrt_status s = cache.status().code();
  const char* named = std::getenv("KVRT_CACHE");
  if (s == KVRT_NOT_FOUND && named && !*named) return out.ok("cache", "none: KVRT_CACHE is empty");
  if (s)
    return out.warn("cache", fmt::format("weights are not cached: {} ({}); every process prepares them in its own memory", last_message(),
                                         kvrt_status_name(s)));
  const std::string text = fmt::format("{}: {} of weights, {} of {} at most", cache->directory, counted(cache->files, "file"),
                                       human_bytes(cache->bytes), human_bytes(cache->bytes_max));
  if (cache->bytes_free == 0) return out.warn("cache", text + "; the file system is too full to add more");
  if (cache->bytes > cache->bytes_max) return out.warn("cache", text + "; the next model takes the place of those used longest ago");
  out.ok("cache", fmt::format("{}; the file system has room for {} more", text, human_bytes(cache->bytes_free)));
}

}  // namespace

int cmd_doctor(const DoctorFlags& flags) {
  Report out(flags.json);
  out.ok("kvrt", fmt::format("{}, ABI {}", version_text(), kvrt_abi_version()));
  if (kvrt_abi_version() != KVRT_ABI_VERSION) {
    out.fail(KVRT_INCOMPATIBLE, "kvrt",
             fmt::format("this program was built for ABI {}: install the library that came with it", KVRT_ABI_VERSION));
  }
  const Result<Runtime> runtime = Runtime::open();
  if (kvrt_status s = runtime.status().code()) {
    out.fail(s, "runtime", fmt::format("{} ({})", last_message(), kvrt_status_name(s)));
    return finish(s);
  }
  const kvrt_runtime_props props = *runtime->info();
  kernels(out, props);
  processors(out, props);
  memory(out);
  cuda(out, flags.model);
  libraries(out, props);
  weight_cache(out, *runtime, flags.model);
  if (std::time(nullptr) < 1735689600)
    out.warn("clock", "it shows a time before 2025: the times in the store will be wrong; set the clock");
  if (!flags.directory.empty()) examine_store(out, *runtime, flags.directory);
  return finish(out.status());
}

}  // namespace cli
