#include "runtime/engine/cancel.h"

#include <algorithm>

#include "runtime/engine/model_host.h"

namespace kvrt {

void Cancel::fire() noexcept {
  std::vector<std::weak_ptr<ModelHost>> hosts;
  {
    std::lock_guard lock(mu_);
    fired_ = true;
    hosts.swap(hosts_);  // who begins from here on sees for itself
  }
  for (const auto& host : hosts) {
    if (auto open = host.lock()) open->cancel(*this);
  }
}

void Cancel::watch(std::weak_ptr<ModelHost> host) {
  std::lock_guard lock(mu_);
  if (fired_) return;
  std::erase_if(hosts_, [](const auto& known) { return known.expired(); });
  const auto same = [&](const auto& known) { return !known.owner_before(host) && !host.owner_before(known); };
  if (std::none_of(hosts_.begin(), hosts_.end(), same)) hosts_.push_back(std::move(host));
}

}  // namespace kvrt
