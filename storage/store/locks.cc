#include "storage/store/locks.h"

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "runtime/base/limits.h"
#include "storage/segment/segment.h"

namespace kvrt {

namespace {

// Tries again while another process repairs the store, up to kWriteWaitMs.
Status wait_for(const std::function<Status()>& attempt) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(kWriteWaitMs);
  for (;;) {
    Status status = attempt();
    if (status.code() != Code::kBusy || steady_clock::now() >= deadline) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Status enter(Env* env, StoreDirectory* dir) {
  auto lock = env->open_lock(dir->root + "/lock", !dir->read_only);
  if (!lock.is_ok()) {  // a reader does without a lock file that is missing or that it may not open
    const bool can_do = dir->read_only && !is_want(lock.status()) && lock.status().detail() != Detail::kForked;
    return can_do ? Status() : lock.take_status();
  }
  KVRT_TRY(wait_for([&] {
    Status status = dir->read_only ? error(Code::kBusy, Detail::kStoreLocked, "a reader") : (*lock)->acquire(LockMode::kExclusive);
    dir->alone = status.is_ok();
    return status.code() == Code::kBusy ? (*lock)->acquire(LockMode::kShared) : std::move(status);
  }));
  dir->lock = std::move(*lock);
  if (!dir->read_only) {
    KVRT_ASSIGN(dir->write_lock, env->open_lock(dir->root + "/write.lock", true));
  }
  return {};
}

Status enter_alone(Env* env, StoreDirectory* dir) {
  KVRT_ASSIGN(dir->lock, env->open_lock(dir->root + "/lock", true));
  KVRT_TRY(dir->lock->acquire(LockMode::kExclusive).annotate("repair is for a store that nobody has open"));
  KVRT_ASSIGN(dir->write_lock, env->open_lock(dir->root + "/write.lock", true));
  dir->alone = true;
  return {};
}

Status share(StoreDirectory* dir) {
  if (!std::exchange(dir->alone, false)) return {};
  return wait_for([&] { return dir->lock->acquire(LockMode::kShared); });
}

}  // namespace kvrt
