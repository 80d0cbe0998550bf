#include "http.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "error.h"

namespace {

constexpr int kCrowdReadMs = 500;
constexpr std::chrono::milliseconds kPlaceWait{100};  // for a thread whose connection was ended
constexpr std::chrono::milliseconds kIdleLeast{50};   // a new connection's request, or the next one, may be on its way

using Clock = std::chrono::steady_clock;

int ms_until(Clock::time_point when) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(when - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

bool ready(int sock, short what, int ms) {
  pollfd p{sock, what, 0};
  return poll(&p, 1, ms) > 0;
}

// A connection's socket, and the request that comes in. Of each it takes so many bytes in so much time, and no more. cpp-httplib gets the head
// alone, once it is whole and right; in place of another one it gets a short one, and the routes ask head() for the error.
class Connection final : public httplib::Stream {
 public:
  Connection(int sock, const HttpLimits& limits, std::string_view model, bool is_crowded)
      : crowded(is_crowded), sock_(sock), limits_(limits), model_(model) {}

  const bool crowded;

  bool has_input() const { return begin_ < end_; }
  void begin_request() {
    wait_ms_ = crowded ? kCrowdReadMs : limits_.read_ms;
    deadline_ = Clock::now() + std::chrono::milliseconds(wait_ms_);
    error_.reset();
    try {
      head_ = read_head(read_head_text(), model_);
    } catch (const ApiError& e) {
      error_ = e;
      head_ = {};
      head_.text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }
    given_ = 0;
    unread_ = error_ || head_.chunked || head_.length.value_or(0) > 0;
  }
  const Head& head() const {
    if (error_) throw *error_;
    return head_;
  }
  bool last() const { return crowded || head_.last || error_; }  // as is known before the answer
  bool ends() const { return last() || unread_; }                // after it
  std::string read_body() {
    const auto refuse_type = [](const char* field, const char* what, const std::string& found) {
      throw ApiError(415, std::string(field) + ": " + what + ", found \"" + found + "\"", "unsupported_media_type");
    };
    if (!head_.encoding.empty() && head_.encoding != "identity")
      refuse_type("Content-Encoding", "the body has to come as it is", head_.encoding);
    if (head_.type.starts_with("multipart/")) refuse_type("Content-Type", "expected application/json", head_.type);
    if (!head_.chunked && !head_.length)
      throw ApiError(411, "a body needs Content-Length, or Transfer-Encoding: chunked", "length_required");
    if (head_.length.value_or(0) > limits_.body_bytes) too_large(std::to_string(*head_.length));
    if (head_.waits && !has_input()) (void)httplib::Stream::write("HTTP/1.1 100 Continue\r\n\r\n");
    std::string body;
    head_.chunked ? read_chunks(&body) : read_bytes(*head_.length, &body);
    unread_ = false;
    return body;
  }
  // The client gets to read the answer although not all of its request was read.
  void drain() {
    shutdown(sock_, SHUT_WR);
    char sink[4096];
    const auto until = Clock::now() + std::chrono::milliseconds(crowded ? 50 : 500);
    while (ready(sock_, POLLIN, ms_until(until)) && recv(sock_, sink, sizeof sink, 0) > 0 && Clock::now() < until) {
    }
  }

  int descriptor() const { return sock_; }
  bool is_readable() const override { return given_ < head_.text.size(); }
  bool is_writable() const override { return ready(sock_, POLLOUT, limits_.write_ms); }
  ssize_t read(char* out, size_t size) override {
    const size_t n = head_.text.copy(out, size, given_);
    given_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* data, size_t size) override {
    if (!ready(sock_, POLLOUT, limits_.write_ms)) return -1;
    return send(sock_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return -1; }  // cpp-httplib refuses those above FD_SETSIZE, for its select

 private:
  [[noreturn]] void too_large(const std::string& bytes) const {
    throw ApiError(413, "the body has " + bytes + " bytes, this server takes " + std::to_string(limits_.body_bytes), "request_too_large");
  }
  void fill() {
    if (!ready(sock_, POLLIN, ms_until(deadline_)))
      throw ApiError(408, "the request did not come whole within " + std::to_string(wait_ms_) + " ms", "request_timeout");
    const ssize_t got = recv(sock_, buffer_, sizeof buffer_, 0);
    if (got <= 0) throw ApiError(400, "the connection ended within the request", "bad_request");
    begin_ = 0, end_ = static_cast<size_t>(got);
  }
  // Adds a line with its end to `out`. False: `out` would have more than `most` bytes.
  bool read_line(size_t most, std::string* out) {
    for (char c = 0; c != '\n';) {
      if (!has_input()) fill();
      if (out->size() == most) return false;
      out->push_back(c = buffer_[begin_++]);
    }
    return true;
  }
  // Without the empty line at its end.
  std::string read_head_text() {
    std::string text;
    for (size_t line = 0;; line = text.size()) {
      if (!read_line(kHeadBytesMax, &text)) {
        if (line > 0) throw ApiError(431, "the header has more than " + std::to_string(kHeadBytesMax) + " bytes", "header_too_large");
        throw ApiError(414, "the request line has more than " + std::to_string(kHeadBytesMax) + " bytes", "target_too_long");
      }
      const std::string_view added = std::string_view(text).substr(line);
      if (added != "\r\n" && added != "\n") continue;
      text.resize(line);
      if (line > 0) return text;  // empty lines before a request are nothing
    }
  }
  void read_bytes(uint64_t size, std::string* out) {
    while (size > 0) {
      if (!has_input()) fill();
      const size_t n = static_cast<size_t>(std::min<uint64_t>(size, end_ - begin_));
      out->append(buffer_ + begin_, n);
      begin_ += n, size -= n;
    }
  }
  void read_chunks(std::string* out) {
    std::string line;
    const auto bad = [](const char* what) { throw ApiError(400, what, "bad_request"); };
    for (;;) {
      line.clear();
      if (!read_line(kFieldBytesMax, &line)) bad("the line of a chunk's size is too long");
      const uint64_t size = read_chunk_size(std::string_view(line).substr(0, line.find_last_not_of("\r\n") + 1));
      if (size == 0) break;
      if (size > limits_.body_bytes - out->size()) too_large("more than " + std::to_string(limits_.body_bytes));
      read_bytes(size, out);
      line.clear();
      if (!read_line(2, &line) || (line != "\r\n" && line != "\n")) bad("a chunk of the body has more bytes than its size says");
    }
    // Trailers say nothing here.
    std::string trailers;
    for (size_t at = 0;; at = trailers.size()) {
      if (!read_line(kHeadBytesMax, &trailers)) throw ApiError(431, "the trailer is too long", "header_too_large");
      if (trailers.find_first_not_of("\r\n", at) == trailers.npos) return;
    }
  }

  const int sock_;
  const HttpLimits& limits_;
  const std::string_view model_;
  Head head_;
  std::optional<ApiError> error_;
  size_t given_ = 0;     // of the head to cpp-httplib
  bool unread_ = false;  // there is more of the request
  int wait_ms_ = 0;
  Clock::time_point deadline_;
  char buffer_[16384];
  size_t begin_ = 0, end_ = 0;
};

thread_local Connection* t_connection = nullptr;
thread_local bool t_crowded = false, t_refused = false;

// A thread for each connection, up to a number. One above it takes the place of that which has been idle the longest. Where none has been
// idle for a moment, a few threads look at it and its like, one after another and for a moment each; too many of these are closed.
class Threads final : public httplib::TaskQueue {
 public:
  Threads(size_t most, std::function<bool()> end_an_idle_one) : most_(most), end_an_idle_one_(std::move(end_an_idle_one)) {
    for (int i = 0; i < 4; ++i) crowd_.emplace_back([this] { serve_crowd(); });
  }
  void enqueue(std::function<void()> serve) override {
    std::unique_lock lock(mu_);
    const auto has_place = [this] { return running_ < most_; };
    if (has_place() || (end_an_idle_one_() && changed_.wait_for(lock, kPlaceWait, has_place))) {
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
  const std::function<bool()> end_an_idle_one_;
  std::mutex mu_;
  std::condition_variable changed_;
  size_t running_ = 0;
  bool over_ = false;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> crowd_;
};

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits, std::string model) : limits_(limits), model_(std::move(model)) {
  new_task_queue = [this] { return new Threads(limits_.connections, [this] { return end_an_idle_one(); }); };
  set_payload_max_length(limits_.body_bytes);
  set_keep_alive_timeout(limits_.idle_ms / 1000);  // what the header Keep-Alive says
  set_keep_alive_max_count(1'000'000);
  set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (!t_connection->ends() || response.has_header("Connection")) return;
    response.headers.erase("Keep-Alive");
    response.set_header("Connection", "close");
  });
  // Not SO_REUSEPORT, with which two servers would share an address without a word.
  set_socket_options([this](socket_t sock) {
    listener_ = sock;
    const int on = 1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
}

const Head& HttpServer::head() { return t_connection->head(); }
std::string HttpServer::read_body() { return t_connection->read_body(); }
int HttpServer::socket() { return t_connection->descriptor(); }
bool HttpServer::crowded() { return t_connection->crowded; }

void HttpServer::close() {
  {
    std::lock_guard lock(mu_);
    closing_ = true;
    for (const Idle& i : idle_) shutdown(i.sock, SHUT_RD);
  }
  stop();
}

void HttpServer::cut() {
  std::lock_guard lock(mu_);
  for (const int sock : open_) shutdown(sock, SHUT_RDWR);
}

bool HttpServer::end_an_idle_one() {
  std::lock_guard lock(mu_);
  const auto now = Clock::now();
  const auto is_silent = [now](const Idle& i) {
    char first;
    const ssize_t got = recv(i.sock, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && now - i.since >= kIdleLeast);
  };
  const auto found = std::find_if(idle_.begin(), idle_.end(), is_silent);
  if (found == idle_.end()) return false;
  shutdown(found->sock, SHUT_RD);
  idle_.erase(found);
  return true;
}

bool HttpServer::wait_for_request(int sock, int ms) {
  {
    std::lock_guard lock(mu_);
    if (closing_) return false;
    if (!t_crowded) idle_.push_back({sock, Clock::now()});
  }
  char first;
  const bool came = ready(sock, POLLIN, ms) && recv(sock, &first, 1, MSG_PEEK) == 1;
  std::lock_guard lock(mu_);
  const bool ended = !t_crowded && std::erase_if(idle_, [sock](const Idle& i) { return i.sock == sock; }) == 0;
  return came && !ended;  // a request on a socket that is half shut would look like that of a client who has gone
}

bool HttpServer::process_and_close_socket(socket_t sock) {
  if (!t_refused) {
    const int on = 1;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Connection connection(sock, limits_, model_, t_crowded);
    t_connection = &connection;
    {
      std::lock_guard lock(mu_);
      open_.insert(sock);
    }
    while (connection.has_input() || wait_for_request(sock, t_crowded ? kCrowdReadMs : limits_.idle_ms)) {
      connection.begin_request();
      bool closed = false;
      const bool ok = process_request(connection, connection.last(), closed, nullptr);
      if (!ok || closed || connection.ends() || closing_) break;
    }
    connection.drain();
    t_connection = nullptr;
    std::lock_guard lock(mu_);
    open_.erase(sock);
  }
  ::close(sock);
  return true;
}
