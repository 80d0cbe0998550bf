#include "watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>
#include <vector>

Watcher::Watch::Watch(Watcher& watcher, int socket, std::chrono::seconds limit)
    : watcher_(watcher), socket_(socket), deadline_(std::chrono::steady_clock::now() + limit), cancel_(kvrt::Cancel::open().or_throw()) {
  std::lock_guard lock(watcher_.mu_);
  place_ = watcher_.watches_.insert(watcher_.watches_.end(), this);
  if (watcher_.stopping_) end(kStopping);
  watcher_.wake();
}

Watcher::Watch::~Watch() {
  std::lock_guard lock(watcher_.mu_);
  watcher_.watches_.erase(place_);
}

void Watcher::Watch::end(Reason reason) {
  if (reason_ != kNone) return;
  reason_ = reason;
  cancel_.fire();
}

Watcher::Watcher() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() {
  {
    std::lock_guard lock(mu_);
    over_ = true;
  }
  wake();
  thread_.join();
  close(wake_fd_);
}

void Watcher::stop_all() {
  std::lock_guard lock(mu_);
  stopping_ = true;
  for (Watch* w : watches_) w->end(kStopping);
}

void Watcher::wake() {
  const uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof one);
}

// Ends what has no client any more, or no time. Under mu_. A client that ends its side of the connection has gone: HTTP clients that wait for
// an answer do not.
void Watcher::look() {
  std::vector<pollfd> sockets;
  for (const Watch* w : watches_) sockets.push_back({w->reason_ == kNone ? w->socket_ : -1, POLLRDHUP, 0});
  poll(sockets.data(), sockets.size(), 0);
  const auto now = std::chrono::steady_clock::now();
  auto socket = sockets.begin();
  for (Watch* w : watches_) {
    if (socket++->revents) w->end(kGone);
    if (now >= w->deadline_) w->end(kLate);
  }
}

void Watcher::run() {
  for (;;) {
    std::vector<pollfd> sockets{{wake_fd_, POLLIN, 0}};
    auto until = std::chrono::steady_clock::now() + std::chrono::hours(1);
    {
      std::lock_guard lock(mu_);
      if (over_) return;
      look();
      for (const Watch* w : watches_) {
        if (w->reason_ != kNone) continue;
        sockets.push_back({w->socket_, POLLRDHUP, 0});
        until = std::min(until, w->deadline_);
      }
    }
    // It may wait for the socket of a request that is over meanwhile: look() asks those of now again.
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    poll(sockets.data(), sockets.size(), static_cast<int>(std::max<int64_t>(ms, 0)) + 1);
    uint64_t drained;
    (void)!read(wake_fd_, &drained, sizeof drained);
  }
}
