// Cancel: ends every generation that was begun with it, once and for all, from any thread. It knows the models, not the sessions: a session
// may go at any time.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"

namespace kvrt {

class Driver;

// Thread-safe. Lock order: a model's, then this one's; fire holds none while it tells a model.
class Cancel {
 public:
  void fire() noexcept;
  bool fired() const { return fired_; }
  // A model that begins a generation with it registers here, under its own lock: fire will tell it. Once fired it does nothing.
  void watch(std::weak_ptr<Driver> driver);

 private:
  Mutex mu_;
  std::atomic<bool> fired_{false};                                   // set under mu_
  std::vector<std::weak_ptr<Driver>> drivers_ KVRT_GUARDED_BY(mu_);  // each once
};

}  // namespace kvrt
