#include "http.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <system_error>
#include <thread>

namespace {

constexpr size_t kHeaderBytesMax = 64 << 10;
constexpr int kCrowdReadMs = 500;

using Clock = std::chrono::steady_clock;

int ms_until(Clock::time_point when) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(when - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

bool ready(int sock, short what, int ms) {
  pollfd p{sock, what, 0};
  return poll(&p, 1, ms) > 0;
}

// A connection's socket. Of each request it reads so many bytes in so much time, and no more.
class Connection final : public httplib::Stream {
 public:
  Connection(int sock, const HttpLimits& limits, bool is_crowded) : crowded(is_crowded), sock_(sock), limits_(limits) {}

  const bool crowded;
  bool last = false;  // ends after this answer

  const HttpLimits& limits() const { return limits_; }
  bool has_input() const { return begin_ < end_; }
  void begin_request() {
    budget_ = kHeaderBytesMax;
    in_header_ = true;
    newlines_ = 0;
    deadline_ = Clock::now() + std::chrono::milliseconds(crowded ? kCrowdReadMs : limits_.read_ms);
  }
  // The client gets to read the answer although not all of its request was read.
  void drain() {
    shutdown(sock_, SHUT_WR);
    char sink[4096];
    const auto until = Clock::now() + std::chrono::milliseconds(crowded ? 50 : 500);
    while (ready(sock_, POLLIN, ms_until(until)) && recv(sock_, sink, sizeof sink, 0) > 0 && Clock::now() < until) {
    }
  }

  bool is_readable() const override { return has_input() || ready(sock_, POLLIN, ms_until(deadline_)); }
  bool is_writable() const override { return ready(sock_, POLLOUT, limits_.write_ms); }
  ssize_t read(char* out, size_t size) override {
    if (budget_ == 0) last = true;  // its header or body is too large
    if (budget_ == 0 || size == 0) return -1;
    if (!has_input()) {
      if (!ready(sock_, POLLIN, ms_until(deadline_))) return last = true, -1;
      const ssize_t got = recv(sock_, buffer_, sizeof buffer_, 0);
      if (got <= 0) return got;
      begin_ = 0, end_ = static_cast<size_t>(got);
    }
    const size_t n = std::min({size, end_ - begin_, budget_});
    std::copy_n(buffer_ + begin_, n, out);
    begin_ += n, budget_ -= n;
    if (in_header_) look_for_body(out, n);
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* data, size_t size) override {
    if (!ready(sock_, POLLOUT, limits_.write_ms)) return -1;
    return send(sock_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return sock_; }

 private:
  // cpp-httplib reads lines byte by byte. After an empty one comes the body, with its framing if it is in chunks.
  void look_for_body(const char* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      if (data[i] != '\r') newlines_ = data[i] == '\n' ? newlines_ + 1 : 0;
      if (newlines_ < 2) continue;
      in_header_ = false;
      budget_ = limits_.body_bytes + limits_.body_bytes / 8 + 1024;
      return;
    }
  }

  const int sock_;
  const HttpLimits& limits_;
  size_t budget_ = 0;
  bool in_header_ = true;
  int newlines_ = 0;
  Clock::time_point deadline_;
  char buffer_[16384];
  size_t begin_ = 0, end_ = 0;
};

thread_local Connection* t_connection = nullptr;
thread_local bool t_crowded = false, t_refused = false;

// A thread for each connection, up to a number. A few more look at the connections above it, one after another and for a moment each. Those
// above that number, too, are closed.
class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(size_t most) : most_(most) {
    for (int i = 0; i < 4; ++i) crowd_.emplace_back([this] { serve_crowd(); });
  }
  void enqueue(std::function<void()> serve) override {
    std::unique_lock lock(mu_);
    if (running_ < most_) {
      try {
        std::thread([this, serve] {
          serve();
          std::lock_guard done(mu_);
          --running_;
          changed_.notify_all();
        }).detach();
        ++running_;  // the thread takes the lock before it counts down
        return;
      } catch (const std::system_error&) {  // the system gives no thread
      }
    }
    if (waiting_.size() < 64) {
      waiting_.push_back(std::move(serve));
      changed_.notify_all();
      return;
    }
    lock.unlock();
    t_refused = true;
    serve();
    t_refused = false;
  }
  void shutdown() override {
    std::unique_lock lock(mu_);
    over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return running_ == 0; });
    lock.unlock();
    for (std::thread& t : crowd_) t.join();
  }

 private:
  void serve_crowd() {
    t_crowded = true;
    std::unique_lock lock(mu_);
    for (;;) {
      changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto serve = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      serve();
      lock.lock();
    }
  }

  const size_t most_;
  std::mutex mu_;
  std::condition_variable changed_;
  size_t running_ = 0;
  bool over_ = false;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> crowd_;
};

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits) : limits_(limits) {
  new_task_queue = [this] { return new Threads(limits_.connections); };
  set_payload_max_length(limits_.body_bytes);
  set_keep_alive_timeout(limits_.idle_ms / 1000);  // what the header Keep-Alive says
  set_keep_alive_max_count(1'000'000);
  // Not SO_REUSEPORT, with which two servers would share an address without a word.
  set_socket_options([this](socket_t sock) {
    listener_ = sock;
    const int on = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
}

int HttpServer::socket() { return t_connection->socket(); }
bool HttpServer::crowded() { return t_connection->crowded; }
void HttpServer::end_connection(bool yes) { t_connection->last = yes || t_connection->crowded; }
size_t HttpServer::body_bytes_max() { return t_connection->limits().body_bytes; }

void HttpServer::close() {
  {
    std::lock_guard lock(mu_);
    closing_ = true;
    for (const int sock : idle_) shutdown(sock, SHUT_RD);
  }
  stop();
}

void HttpServer::cut() {
  std::lock_guard lock(mu_);
  for (const int sock : open_) shutdown(sock, SHUT_RDWR);
}

bool HttpServer::note(std::set<int>* sockets, int sock, bool is_there) {
  std::lock_guard lock(mu_);
  is_there ? (void)sockets->insert(sock) : (void)sockets->erase(sock);
  return !closing_;
}

bool HttpServer::wait_for_request(int sock, int ms) {
  char first;
  const bool came = note(&idle_, sock, true) && ready(sock, POLLIN, ms) && recv(sock, &first, 1, MSG_PEEK) == 1;
  note(&idle_, sock, false);
  return came;
}

bool HttpServer::process_and_close_socket(socket_t sock) {
  if (!t_refused) {
    const int on = 1;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Connection connection(sock, limits_, t_crowded);
    t_connection = &connection;
    note(&open_, sock, true);
    while (connection.has_input() || wait_for_request(sock, t_crowded ? kCrowdReadMs : limits_.idle_ms)) {
      connection.begin_request();
      bool closed = false;
      connection.last = t_crowded;
      const bool ok = process_request(connection, connection.last, closed, nullptr);
      if (!ok || closed || connection.last || closing_) break;
    }
    connection.drain();
    note(&open_, sock, false);
    t_connection = nullptr;
  }
  ::close(sock);
  return true;
}
