// Runtime: the device, its threads, the environment and the log. Its models share them. It runs one step at a time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/turn_lock.h"
#include "runtime/compute/backend.h"
#include "runtime/engine/resources/autosaver.h"
#include "storage/repair/repair.h"
#include "storage/store/store.h"

namespace kvrt {

enum class DeviceChoice : uint32_t { kCpu, kCuda, kAuto };  // kAuto: CUDA where it opens, else the CPU

struct RuntimeOptions {
  uint32_t threads = 0;  // 0: usable_cpus()
  std::string isa;       // of the CPU; "": the best
  DeviceChoice device = DeviceChoice::kCpu;
  CudaOptions cuda = {};
};

// Thread-safe. The backend computes for who holds step_mutex(): the leader of a step. What Backend calls "any thread" needs no lock.
class Runtime {
 public:
  static Result<std::shared_ptr<Runtime>> open(const RuntimeOptions& options, std::unique_ptr<Log> log, Env* env = posix_env());

  Env* env() const { return env_; }
  Log* log() const { return log_.get(); }
  Backend* backend() const { return backend_.get(); }
  const std::optional<std::string>& cuda_devices() const { return cuda_devices_; }  // describe_cuda's text; none: the backend is the CPU's
  uint32_t threads() const { return threads_; }
  Status set_threads(uint32_t threads);  // 0: usable_cpus(). Takes effect with the next step
  // One open store per directory: a second open of it gives the first one, as long as that lives and is what the path leads to.
  Result<std::shared_ptr<Store>> open_store(const std::shared_ptr<Runtime>& self, const std::string& path, const StoreOptions& options);
  // The store's Autosaver. It starts with the first session that asks for it, and ends with the last.
  Result<std::shared_ptr<Autosaver>> autosaver(const Store* store);
  // BUSY while any runtime or process has it open.
  Result<RepairReport> repair_store(const std::string& path, const RepairWatch& watch);
  TurnLock& step_mutex() { return step_mutex_; }

 private:
  struct OpenStore;
  Runtime() = default;
  std::unique_ptr<Log> log_;
  Env* env_ = nullptr;
  std::atomic<uint32_t> threads_{1};
  std::unique_ptr<Backend> backend_;
  std::optional<std::string> cuda_devices_;
  TurnLock step_mutex_;
  Mutex stores_mu_;
  Condition store_closed_;
  std::map<std::string, std::weak_ptr<OpenStore>> stores_ KVRT_GUARDED_BY(stores_mu_);  // by canonical path
  std::map<const Store*, std::weak_ptr<Autosaver>> savers_ KVRT_GUARDED_BY(stores_mu_);
};

}  // namespace kvrt
