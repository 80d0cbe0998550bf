// An OpenAI-compatible server in one small program. README.md says how it is used.
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <stop_token>
#include <thread>

#include "app.h"
#include "draft.h"
#include "sampling.h"
#include "tokenizer.h"

namespace {

constexpr const char* kUsage = R"(kvrt-server MODEL.gguf [OPTIONS]: the OpenAI API for one model, at http://127.0.0.1:8080/v1

  --store DIR          keep conversations there: they survive the server (else in memory alone). Several servers may
                       share one
  --address ADDRESS    listen there (127.0.0.1); one that others reach needs an API key
  --port N             (8080; 0: a free one, which is printed)
  --name NAME          the model's name (that of its file)
  --keys FILE          API keys, a line NAME KEY for each. A key sees its own conversations alone.
                       KVRT_API_KEY in the environment is one key
  --host NAME          the name by which clients call this machine, besides localhost and addresses; may come again
  --origin URL         a page that may ask, http://host:port; may come again
  --pages DIR          static files, served at /
  --kv-bytes SIZE      memory for KV (four contexts, at most a quarter of the free memory)
  --draft FILE         a much smaller model with the same vocabulary, which proposes tokens: answers are the same, and
                       faster where many are right. It takes memory for its weights and the KV of as many tokens
  --lookup             propose what followed the same words before: for answers that repeat text
  --threads N          compute threads (all CPUs)
  --device NAME        cpu, cuda or auto (cpu)
  --keep DAYS          conversations that nobody went on with for so long are removed (30; 0: never)
  --history WHAT       which tokens earlier answers have: those of what the client sends (sent), so that a request has
                       the same answer, remembered or not; or, with reasoning that is not sent, those that were
                       generated (generated)
  --disk SIZE          disk space of the store (no bound but the disk's)
  --answers N          that are generated at once, a request's n counted; more are refused with 429 (128)
  --connections N      a thread each; one more takes an idle one's place, or is refused with 503 (512)
  --body SIZE          of a request at most (16M)
  --time-limit S       for a request (600)
  --read-time S        for a request to come whole (30); then it is refused with 408
SIZE: bytes, or with K, M, G. Ctrl-C or SIGTERM ends it: answers are cut, conversations are saved.
)";

[[noreturn]] void fail(const std::string& message) {
  std::cerr << "kvrt-server: " << message << "\n";
  std::exit(1);
}

struct Options {
  std::string model, draft, store, address = "127.0.0.1", device = "cpu";
  bool as_generated = false;
  uint64_t port = 8080, kv_bytes = 0, threads = 0, keep_days = 30, disk_bytes = 0;
  HttpLimits http;
  Access access;
  AppOptions app;
};

uint64_t size_of(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const bool digits = !text.empty() && text[0] >= '0' && text[0] <= '9';
  errno = 0;
  uint64_t value = digits ? std::strtoull(text.c_str(), &end, 10) : 0;
  const std::string unit = digits ? end : "?";
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : unit == "T" ? 40 : -1;
  if (shift < 0 || errno || value > UINT64_MAX >> shift)
    fail(name + ": expected a number, perhaps with K, M, G or T, found \"" + text + "\"");
  return value << shift;
}

// Of letters, digits and -._ , without a port; in lower case.
std::string host_of(const std::string& name, std::string host) {
  for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '.' || c == '_'; };
  if (host.size() > 253 || !std::all_of(host.begin(), host.end(), fits))
    fail(name + ": expected a name of letters, digits and -._ , without a port, found \"" + host + "\"");
  return host;
}

// As browsers send it: no path, no slash at its end.
std::string origin_of(const std::string& name, const std::string& origin) {
  const size_t scheme = origin.find("://");
  const bool web = origin.starts_with("http://") || origin.starts_with("https://");
  if (!web || scheme + 3 == origin.size() || origin.find_first_of("/ \t", scheme + 3) != origin.npos)
    fail(name + ": expected http://HOST:PORT or https://HOST, found \"" + origin + "\"");
  return origin;
}

// A model's name goes into JSON and into paths.
std::string model_name(const std::string& name, const std::string& model) {
  const bool control = std::any_of(model.begin(), model.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  if (model.size() > 256 || control || find_bad_utf8(model) != model.npos)
    fail(name + ": expected up to 256 bytes of UTF-8 without control characters");
  return model;
}

// The time of the model's file: /v1/models says the same after a restart.
uint64_t time_of(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && file.st_mtime > 0 ? static_cast<uint64_t>(file.st_mtime) : 0;
}

// What one option says of another, and what was left out.
void complete(Options* o) {
  if (!o->app.pages.empty() && !std::filesystem::is_directory(o->app.pages)) fail("--pages: " + o->app.pages + " is no folder");
  for (const std::string name : {"v1", "health", "metrics", "tokenize", "tokenizer_info", "detokenize"}) {
    if (!o->app.pages.empty() && std::filesystem::exists(std::filesystem::path(o->app.pages) / name))
      fail("--pages: " + o->app.pages + " has a file " + name + ", and /" + name + " is a path of the API");
  }
  if (o->model.empty()) fail("which model? kvrt-server MODEL.gguf; see --help");
  if (const char* key = std::getenv("KVRT_API_KEY")) {
    if (!*key) fail("KVRT_API_KEY is set and empty: give a key, or unset it");
    o->access.add_key("environment", key);
  }
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(o->address.c_str(), nullptr, nullptr, &found))
    fail("--address: " + o->address + " is no address of this machine: " + gai_strerror(error));
  freeaddrinfo(found);
  if (o->access.keys.empty() && !is_loopback(o->address))
    fail("--address " + o->address + " is reached by others: give API keys, by --keys FILE or KVRT_API_KEY");
  if (o->app.model_id.empty()) o->app.model_id = model_name("the model's file", std::filesystem::path(o->model).stem().string());
  o->app.created = time_of(o->model);
}

// A word that takes no value: the model, or an option alone.
bool take_alone(const std::string& word, Options* o) {
  if (word == "--help" || word == "-h") {
    std::cout << kUsage;
    std::exit(0);
  }
  if (word == "--lookup") return o->app.lookup = true;
  if (word.starts_with("-")) return false;
  if (!o->model.empty()) fail("one model, found \"" + o->model + "\" and \"" + word + "\"");
  o->model = word;
  return true;
}

Options read_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (take_alone(name, &o)) continue;
    if (i + 1 == argc) fail(name + " needs a value, or is not known: see --help");
    const std::string value = argv[++i];
    if (value.empty()) fail(name + ": its value is empty");
    const auto number = [&](uint64_t least, uint64_t most) {
      const uint64_t n = size_of(name, value);
      if (n < least || n > most) fail(name + ": expected " + std::to_string(least) + " to " + std::to_string(most) + ", found " + value);
      return n;
    };
    if (name == "--store")
      o.store = value;
    else if (name == "--address")
      o.address = value;
    else if (name == "--port")
      o.port = number(0, 65535);
    else if (name == "--name")
      o.app.model_id = model_name(name, value);
    else if (name == "--keys")
      o.access.read_keys(value);
    else if (name == "--host")
      o.access.hosts.push_back(host_of(name, value));
    else if (name == "--origin")
      o.access.origins.push_back(origin_of(name, value));
    else if (name == "--pages")
      o.app.pages = value;
    else if (name == "--kv-bytes")
      o.kv_bytes = number(1, UINT64_MAX);
    else if (name == "--draft")
      o.draft = value;
    else if (name == "--threads")
      o.threads = number(1, 256);
    else if (name == "--device")
      o.device = value;
    else if (name == "--keep")
      o.keep_days = number(0, 36500);
    else if (name == "--history") {
      if (value != "sent" && value != "generated") fail("--history: expected sent or generated, found \"" + value + "\"");
      o.as_generated = value == "generated";
    } else if (name == "--disk")
      o.disk_bytes = number(1, UINT64_MAX);
    else if (name == "--answers")
      o.app.answers = number(1, 65536);
    else if (name == "--connections")
      o.http.connections = number(1, 16384);
    else if (name == "--body")
      o.http.body_bytes = number(1024, uint64_t{64} << 20);
    else if (name == "--time-limit")
      o.app.time_limit = std::chrono::seconds(number(1, 86400));
    else if (name == "--read-time")
      o.http.read_ms = 1000 * static_cast<int>(number(1, 3600));
    else
      fail("unknown option " + name + ": see --help");
  }
  complete(&o);
  return o;
}

void log_line(const std::string& text) { std::cerr << "kvrt-server: " + text + "\n"; }

// Until a signal comes.
void serve(HttpServer* server, App* app, const Options& o) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  int port = static_cast<int>(o.port);
  if (port == 0)
    port = server->bind_to_any_port(o.address);
  else if (!server->bind_to_port(o.address, port))
    port = -1;
  if (port < 0) fail(o.address + ":" + std::to_string(o.port) + ": cannot listen there: " + std::strerror(errno));
  server->let_bursts_wait();
  std::atomic<bool> ended{false};
  std::thread listener([&] {
    const bool ok = server->listen_after_bind();
    if (!ok && !server->closing()) log_line("the listening socket failed"), kill(getpid(), SIGTERM);
    ended = true;
  });
  while (!server->is_running() && !ended)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a stop before it listens would be lost
  std::cout << "listening at http://" << (o.address.find(':') == std::string::npos ? o.address : "[" + o.address + "]") << ":" << port
            << "/v1" << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  log_line("stopping");
  app->stop();
  server->close();
  std::jthread impatient([&](std::stop_token over) {
    for (int i = 0; i < 50 && !over.stop_requested(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server->cut();
  });
  listener.join();
}

int run(const Options& o) {
  auto runtime_options = kvrt::init<kvrt_runtime_options>();
  const auto log = [](int32_t, std::string_view text) noexcept { std::cerr << "kvrt: " + std::string(text) + "\n"; };
  kvrt::log_to(runtime_options, log);
  runtime_options.threads = static_cast<uint32_t>(o.threads);
  if (o.device != "cpu" && o.device != "cuda" && o.device != "auto") fail("--device: expected cpu, cuda or auto, found " + o.device);
  runtime_options.device = o.device == "cpu" ? KVRT_DEVICE_CPU : o.device == "cuda" ? KVRT_DEVICE_CUDA : KVRT_DEVICE_AUTO;
  auto runtime = kvrt::Runtime::open(runtime_options).or_throw();
  auto model_options = kvrt::init<kvrt_model_options>();
  model_options.kv_bytes_max = o.kv_bytes;
  model_options.cache = KVRT_CACHE_USER;
  auto model = kvrt::Model::open(runtime, o.model, model_options).or_throw();
  auto draft = open_draft(runtime, model, o.draft);
  auto store_options = kvrt::init<kvrt_store_options>();
  store_options.disk_bytes_max = o.disk_bytes;
  StorePlace place(runtime, o.store, store_options, log_line);
  {
    const kvrt::Store store = place.look().store;
    auto first = kvrt::init<kvrt_session_options>();
    first.store = store.get();
    (void)kvrt::Session::open(model, first).or_throw();  // the first one with a store reads the whole model: now, not in a request
  }
  Conversations::Options conversations;
  conversations.keep_seconds = o.keep_days * 86400;
  conversations.log = log_line;
  conversations.as_generated = o.as_generated;
  AppOptions app_options = o.app;
  app_options.log = log_line;
  app_options.sampling = suggested_sampling(runtime, o.model);
  app_options.tokenizer_info = tokenizer_info(runtime, model, o.model);
  App app(model, draft, place, o.access, app_options, conversations);
  HttpServer server(o.http, o.app.model_id);
  app.add_routes(&server);
  serve(&server, &app, o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Signals are for sigwait alone; threads inherit this.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  try {
    return run(read_options(argc, argv));
  } catch (const std::exception& e) {
    std::string what = e.what();  // kvrt names its own fields
    for (const std::string_view field : {"kv_bytes_max of model_open", "kv_bytes_max"}) {
      if (const size_t at = what.find(field); at != what.npos) what.replace(at, field.size(), "--kv-bytes");
    }
    fail(what);
  }
}
