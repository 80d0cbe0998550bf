#include "runtime/engine/cancel.h"

#include <algorithm>

#include "runtime/engine/driver.h"

namespace kvrt {

void Cancel::fire() noexcept {
  std::vector<std::weak_ptr<Driver>> drivers;
  {
    Lock lock(mu_);
    fired_ = true;
    drivers.swap(drivers_);  // a generation that begins later looks at fired()
  }
  for (const auto& driver : drivers) {
    if (auto open = driver.lock()) open->cancel(*this);
  }
}

void Cancel::watch(std::weak_ptr<Driver> driver) {
  Lock lock(mu_);
  if (fired_) return;
  std::erase_if(drivers_, [](const auto& known) { return known.expired(); });
  const auto same = [&](const auto& known) { return !known.owner_before(driver) && !driver.owner_before(known); };
  if (std::none_of(drivers_.begin(), drivers_.end(), same)) drivers_.push_back(std::move(driver));
}

}  // namespace kvrt
