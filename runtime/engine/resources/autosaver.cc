#include "runtime/engine/resources/autosaver.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/this_thread.h"

namespace kvrt {

Result<std::shared_ptr<Autosaver>> Autosaver::start(Env* env) {
  std::shared_ptr<Autosaver> saver(new Autosaver(env));
  const SignalsBlocked blocked;
  try {
    saver->thread_ = std::thread([s = saver.get()] { s->run(); });
  } catch (const std::system_error&) {
    return error(Code::kNoMemory, Detail::kNone, "autosave: the system gave no thread");
  }
  return saver;
}

Autosaver::~Autosaver() {
  {
    Lock lock(mu_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Autosaver::add(Session* session, Save save) {
  Lock lock(mu_);
  entries_.emplace(session, Entry{std::move(save), kNever});
}

void Autosaver::remove(Session* session) {
  Lock lock(mu_);
  while (working_ == session) worked_.wait(mu_);
  entries_.erase(session);
}

void Autosaver::look(Session* session, uint64_t at_ns) {
  Lock lock(mu_);
  auto found = entries_.find(session);
  if (found == entries_.end()) return;
  found->second.look_ns = std::min(found->second.look_ns, at_ns);
  if (at_ns < sleeps_until_) changed_.notify_all();
}

void Autosaver::run() {
  be_nice(kSaverNice);
  Lock lock(mu_);
  while (!stop_) {
    auto next = std::min_element(entries_.begin(), entries_.end(),
                                 [](const auto& a, const auto& b) { return a.second.look_ns < b.second.look_ns; });
    const uint64_t at = next == entries_.end() ? kNever : next->second.look_ns, now = env_->now_ns();
    if (at > now) {
      sleeps_until_ = at;
      if (at == kNever) {
        changed_.wait(mu_);
      } else {
        changed_.wait_until(mu_, std::chrono::steady_clock::now() + std::chrono::nanoseconds(at - now));
      }
      sleeps_until_ = 0;
      continue;
    }
    Session* const session = next->first;
    Entry& entry = next->second;  // remove() leaves it while its session is worked on
    working_ = session;
    entry.look_ns = kNever;
    uint64_t again;
    {
      Unlocked unlocked(mu_);
      again = entry.save(session);
    }
    entry.look_ns = std::min(entry.look_ns, again);
    working_ = nullptr;
    worked_.notify_all();
  }
}

}  // namespace kvrt
