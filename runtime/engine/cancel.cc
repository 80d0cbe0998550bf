#include "runtime/engine/cancel.h"

#include <algorithm>

#include "runtime/engine/engine.h"

namespace kvrt {

void Cancel::fire() noexcept {
  std::vector<std::weak_ptr<Engine>> engines;
  {
    Lock lock(mu_);
    fired_ = true;
    engines.swap(engines_);  // a generation that begins later looks at fired()
  }
  for (const auto& engine : engines) {
    if (auto open = engine.lock()) open->cancel(*this);
  }
}

void Cancel::watch(std::weak_ptr<Engine> engine) {
  Lock lock(mu_);
  if (fired_) return;
  std::erase_if(engines_, [](const auto& known) { return known.expired(); });
  const auto same = [&](const auto& known) { return !known.owner_before(engine) && !engine.owner_before(known); };
  if (std::none_of(engines_.begin(), engines_.end(), same)) engines_.push_back(std::move(engine));
}

}  // namespace kvrt
