#include "runtime/engine/resources/runtime.h"

#include "runtime/base/cpus.h"
#include "runtime/base/limits.h"
#include "runtime/base/paths.h"

namespace kvrt {

namespace {
Status check_threads(uint32_t threads) {
  if (threads <= kThreadsMax) return {};
  return error(Code::kLimit, Detail::kNone, "threads is %u, at most %u are supported", threads, kThreadsMax);
}
}  // namespace

Result<std::shared_ptr<Runtime>> Runtime::open(const RuntimeOptions& options, std::unique_ptr<Log> log, Env* env) {
  KVRT_TRY(check_threads(options.threads));
  std::shared_ptr<Runtime> runtime(new Runtime);
  runtime->env_ = env;
  runtime->log_ = std::move(log);
  runtime->threads_ = options.threads ? options.threads : usable_cpus();
  if (options.device != DeviceChoice::kCpu) {
    CudaOptions cuda = options.cuda;
    if (!cuda.library.empty()) cuda.library = canonical_path(cuda.library);  // a path, not a name to be searched for
    auto opened = open_cuda(cuda, runtime->log_.get());
    if (opened.is_ok()) {
      runtime->backend_ = std::move(opened).value();
      runtime->backend_->set_threads(runtime->threads_);
      auto devices = describe_cuda(cuda);
      runtime->cuda_devices_ = devices.is_ok() ? *devices : devices.status().message();
      return runtime;
    }
    if (options.device == DeviceChoice::kCuda) return opened.take_status();
    logf(runtime->log_.get(), LogLevel::kInfo, "the CPU computes, not CUDA: %s", opened.status().message().c_str());
  }
  KVRT_ASSIGN(runtime->backend_, open_cpu({runtime->threads_, options.isa}, runtime->log_.get()));
  return runtime;
}

Status Runtime::set_threads(uint32_t threads) {
  KVRT_TRY(check_threads(threads));
  threads_ = threads ? threads : usable_cpus();  // the next step uses them
  return {};
}

// A store with the runtime that it needs: a session may keep the store longer than every handle does, and the store writes to the log.
struct Runtime::OpenStore {
  std::shared_ptr<Runtime> runtime;
  std::string key;  // "": another store is at its path now
  std::unique_ptr<Store> store;
  OpenStore(std::shared_ptr<Runtime> e, std::string k, std::unique_ptr<Store> s)
      : runtime(std::move(e)), key(std::move(k)), store(std::move(s)) {}
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;
  ~OpenStore() {
    Lock lock(runtime->stores_mu_);
    store.reset();
    if (!key.empty()) runtime->stores_.erase(key);
    runtime->store_closed_.notify_all();
  }
};

Result<std::shared_ptr<Store>> Runtime::open_store(const std::shared_ptr<Runtime>& self, const std::string& path,
                                                   const StoreOptions& options) {
  const std::string key = canonical_path(path);  // neither links nor a later chdir may change a store's path
  std::shared_ptr<OpenStore> known, held;        // outlive the lock, which their destructor takes
  Lock lock(stores_mu_);
  for (auto it = stores_.find(key); it != stores_.end(); it = stores_.find(key)) {
    known = it->second.lock();
    if (known == nullptr) {
      store_closed_.wait(stores_mu_);  // its last user has gone, and it is being closed
      continue;
    }
    const Store::Place place = known->store->place();
    if (place == Store::Place::kThere) {
      if (!options.read_only) known->store->retry_writing();
      return std::shared_ptr<Store>(known, known->store.get());
    }
    if (place == Store::Place::kLogLeft) {
      return error(Code::kIo, Detail::kNone,
                   "%s/catalog.db: replaced beside the log of the one that is open here: close what has that open, or put the old one back",
                   key.c_str());
    }
    known->key.clear();  // who has it keeps it
    stores_.erase(it);
  }
  KVRT_ASSIGN(std::unique_ptr<Store> opened, Store::open(env_, log_.get(), key, options));
  held = std::make_shared<OpenStore>(self, key, std::move(opened));
  stores_[key] = held;
  return std::shared_ptr<Store>(held, held->store.get());
}

Result<RepairReport> Runtime::repair_store(const std::string& path, const RepairWatch& watch) {
  return kvrt::repair_store(env_, log_.get(), canonical_path(path), watch);
}

Result<std::shared_ptr<Autosaver>> Runtime::autosaver(const Store* store) {
  Lock lock(stores_mu_);
  std::erase_if(savers_, [](const auto& entry) { return entry.second.expired(); });
  if (auto running = savers_[store].lock()) return running;
  KVRT_ASSIGN(auto started, Autosaver::start(env_));
  savers_[store] = started;
  return started;
}

}  // namespace kvrt
