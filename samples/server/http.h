// cpp-httplib's server, with what it lacks: a bound on the size and time of whatever comes in, the socket of a request, connections that hold
// no thread that /health needs, and an end that idle connections do not delay. Of cpp-httplib 0.11 (Debian 12).
#pragma once

#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "head.h"

struct HttpLimits {
  size_t body_bytes = 16 << 20;  // of a request
  size_t connections = 512;      // a thread each; one above takes an idle one's place, or where none is gets /health and /metrics alone
  int read_ms = 30'000;          // for a whole request to come
  int write_ms = 30'000;         // for the client to take something of an answer
  int idle_ms = 75'000;          // between two requests of a connection
};

class HttpServer : public httplib::Server {
 public:
  HttpServer(const HttpLimits& limits, std::string model);

  // Of the request that the calling thread serves:
  static const Head& head();       // throws ApiError where it is not right
  static std::string read_body();  // throws ApiError
  static int socket();
  static bool crowded();  // there are too many connections: only what is short is served

  // After the server is bound: lets connections that come in a burst wait, where cpp-httplib has room for five.
  void let_bursts_wait() const { ::listen(listener_, SOMAXCONN); }
  // Ends listening and the idle connections; requests that are being served go on. From any thread, but not in a signal handler.
  void close();
  // Ends all connections.
  void cut();
  bool closing() const { return closing_; }

 private:
  struct Idle {
    int sock;
    std::chrono::steady_clock::time_point since;
  };

  bool process_and_close_socket(socket_t sock) override;
  bool wait_for_request(int sock, int ms);
  bool end_an_idle_one();

  const HttpLimits limits_;
  const std::string model_;  // its name
  int listener_ = -1;
  std::atomic<bool> closing_{false};
  std::mutex mu_;
  std::set<int> open_;
  std::deque<Idle> idle_;  // those that wait for a request; the first waits longest
};
