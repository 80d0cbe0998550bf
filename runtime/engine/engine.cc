#include "runtime/engine/engine.h"

#include <filesystem>

#include "runtime/base/limits.h"
#include "runtime/base/threads.h"

namespace kvrt {

Result<std::shared_ptr<Engine>> Engine::open(const EngineOptions& options, std::unique_ptr<Log> log) {
  if (options.threads > kThreadsMax) {
    return error(Code::kLimit, Detail::kNone, "threads is %u, at most %u are supported", options.threads, kThreadsMax);
  }
  std::shared_ptr<Engine> engine(new Engine);
  engine->env_ = posix_env();
  engine->log_ = std::move(log);
  engine->threads_ = options.threads ? options.threads : usable_cpus();
  KVRT_ASSIGN(engine->backend_, open_cpu({engine->threads_, options.isa}, engine->log_.get()));
  return engine;
}

Result<std::shared_ptr<Store>> Engine::open_store(const std::shared_ptr<Engine>& self, const std::string& path, const StoreOptions& options) {
  std::error_code failed;
  std::string key = std::filesystem::weakly_canonical(path, failed).string();
  if (failed) key = path;
  std::lock_guard lock(stores_mu_);
  if (auto open = stores_[key].lock()) return open;
  KVRT_ASSIGN(std::unique_ptr<Store> opened, Store::open(env_, log_.get(), path, options));
  // A session may keep the store longer than every handle; the store keeps the engine, whose log it writes to.
  std::shared_ptr<Store> store(opened.release(), [self](Store* s) { delete s; });
  stores_[key] = store;
  return store;
}

}  // namespace kvrt
