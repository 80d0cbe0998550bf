// The server: its model and its routes.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "access.h"
#include "conversations.h"
#include "error.h"
#include "graph.h"
#include "http.h"
#include "request.h"
#include "watch.h"

struct AppOptions {
  std::string model_id;
  uint64_t created = 0;  // the model's, seconds since 1970
  bool lookup = false;   // of a request that does not say
  size_t answers = 128;  // that are generated at once
  std::chrono::seconds time_limit{600};
  std::string sampling = "{}";  // what the model's file suggests, as fields of a request
  std::string tokenizer_info;   // JSON, as /tokenizer_info gives it
  std::string pages;            // a folder of static files; "": none
  std::function<void(const std::string&)> log;
};

class App {
 public:
  // `draft`: the model that proposes tokens; empty: none.
  App(kvrt::Model model, kvrt::Model draft, StorePlace& place, Access access, AppOptions options, Conversations::Options conversations);
  void add_routes(HttpServer* server);
  void stop() { watcher_.stop_all(); }

 private:
  struct Counters {  // of a domain
    uint64_t requests = 0, refused = 0, failed = 0, prompt = 0, cached = 0, completion = 0, drafted = 0, accepted = 0;
  };
  struct Job;

  static const std::string& domain();  // of the request that this thread serves
  bool check(const httplib::Request& request, httplib::Response& response);
  enum class Api { kChat, kText, kResponses };
  Request read(const std::string& body, Api api);
  void speculate(Request* request) const;
  void answer(const std::string& body, Api api, httplib::Response& response);
  void stream(std::shared_ptr<Job> job, httplib::Response& response);
  std::string health(bool closing) const;
  std::string models() const;
  std::string sessions();
  void graph(const httplib::Request& request, httplib::Response& response);
  void add_responses(HttpServer* server);
  void add_sessions(HttpServer* server);
  void add_tokenizer(HttpServer* server);
  void say_left_out(const std::vector<std::string>& types);
  std::string metrics();

  const kvrt::Model model_, draft_;
  const Access access_;
  const AppOptions options_;
  const bool shows_tools_;
  Conversations conversations_;
  Graph graph_;
  Watcher watcher_;
  std::mutex mu_;
  std::map<std::string, Counters> counters_;  // by domain
  std::set<std::string> left_out_;            // types of tools that the log has
  std::atomic<size_t> running_{0};
};
