#include "runtime/engine/engine.h"

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

}  // namespace kvrt
