#include "app.h"

#include <algorithm>
#include <new>

#include "generation.h"
#include "page.h"
#include "reply.h"
#include "responses.h"
#include "room.h"

namespace {

constexpr const char* kJson = "application/json";
constexpr size_t kLeftOutMax = 64;  // types of tools, each logged once

thread_local std::string t_domain;  // of the request that this thread serves

void send_error(const ApiError& error, httplib::Response& response) {
  response.status = error.status;
  if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (error.status == 429) response.set_header("Retry-After", "1");
  if (error.code == "time_limit") response.set_header("x-should-retry", "false");
  response.set_content(error.json(), kJson);
}

// False: the model's chat template does not show tools, so the model would not know of them.
bool shows_tools(const kvrt::Model& model) {
  constexpr std::string_view kTool =
      R"([{"type":"function","function":{"name":"f","description":"","parameters":{"type":"object","properties":{}}}}])";
  auto options = kvrt::init<kvrt_template_options>();
  std::string without, with;
  const auto render = [&](std::string& out) { return model.apply_template(R"([{"role":"user","content":"?"}])", options, out).ok(); };
  if (!render(without)) return false;
  kvrt::assign(options.tools, options.tools_size, kTool);
  return render(with) && with != without;
}

bool is_of_tokenizer(const std::string& path) { return path == "/tokenizer_info" || path == "/tokenize" || path == "/detokenize"; }

// The methods of a path; "": there is no such path, or a file of --pages alone.
std::string_view methods_of(const std::string& path) {
  if (path == "/v1/chat/completions" || path == "/v1/completions" || path == "/v1/responses") return "POST, OPTIONS";
  if (is_of_tokenizer(path)) return path == "/tokenizer_info" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  if (constexpr std::string_view kOne = "/v1/responses/"; path.starts_with(kOne) && path.find('/', kOne.size()) == path.npos)
    return "GET, HEAD, DELETE, OPTIONS";
  if (constexpr std::string_view kOne = "/v1/kvrt/sessions/"; path.starts_with(kOne) && path.size() > kOne.size())
    return "GET, HEAD, DELETE, OPTIONS";
  const auto is_it = [&](const auto& known) { return path == known; };
  constexpr std::string_view kRead[] = {"/v1/models", "/v1/kvrt/sessions", "/v1/kvrt/graph", "/metrics", "/health"};
  const auto files = page_files();
  const bool page = std::any_of(files.begin(), files.end(), [&](const PageFile& file) { return path == file.path; });
  if (page || path.starts_with("/v1/models/") || std::any_of(std::begin(kRead), std::end(kRead), is_it)) return "GET, HEAD, OPTIONS";
  return "";
}

// Tokens are those of this model. Throws ApiError.
void check_tokens(const Request& request, const kvrt::Model& model) {
  const auto most = static_cast<int32_t>(model.info().or_throw().vocab_size) - 1;
  const auto check = [&](int32_t token, const std::string& field) {
    if (token > most) refuse(field, field + ": expected a token from 0 to " + std::to_string(most) + ", found " + std::to_string(token));
  };
  for (const kvrt_token_value& one : request.bias) check(one.token, "logit_bias." + std::to_string(one.token));
  for (size_t p = 0; p < request.prompts.size(); ++p) {
    const std::string list = request.prompts.size() == 1 ? "prompt" : item("prompt", p);
    for (size_t i = 0; i < request.prompts[p].tokens.size(); ++i) check(request.prompts[p].tokens[i], item(list, i));
  }
}

// What a client may have looked for.
ApiError not_found(const httplib::Request& request) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"/v1/embeddings", "this server's model writes text and gives no embeddings; ask a server with an embedding model for these"},
      {"/v1/audio", "this server's model reads and writes text alone"},
      {"/v1/images", "this server's model reads and writes text alone"},
      {"", "this server has POST /v1/chat/completions, /v1/responses and /v1/completions, GET /v1/models"},
  };
  const auto other = std::find_if(std::begin(kOthers), std::end(kOthers), [&](const auto& o) { return request.path.starts_with(o.first); });
  return ApiError(404, "there is no " + request.method + " " + request.target + ": " + std::string(other->second), "unknown_url");
}

// The error that is being handled.
ApiError current_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ApiError& e) {
    return e;
  } catch (const kvrt::Error& e) {
    return ApiError::of(e);
  } catch (const std::bad_alloc&) {
    return ApiError::busy();
  } catch (const std::exception& e) {
    return ApiError::failed(e.what());
  }
}

}  // namespace

// A request and its answers, as long as they are sent.
struct App::Job {
  App& app;
  const std::string domain = t_domain;
  const Request request;
  const std::unique_ptr<Reply> reply;
  std::unique_ptr<Generation> generation;

  Job(App& a, Request r) : app(a), request(std::move(r)), reply(reply_to(request)) {
    const size_t most = app.options_.answers;
    if (answers() > most) refuse("n", "n: this server gives " + std::to_string(most) + " answers at once");
    if ((app.running_ += answers()) <= most) return;
    app.running_ -= answers();
    throw ApiError(429, "as many answers are being given as this server gives at once", "rate_limit_exceeded");
  }
  ~Job() {
    const Usage usage = generation ? generation->usage() : Usage{};
    generation.reset();
    app.running_ -= answers();
    std::lock_guard lock(app.mu_);
    Counters& c = app.counters_[domain];
    c.prompt += usage.prompt, c.cached += usage.cached, c.completion += usage.completion;
    c.drafted += usage.drafted, c.accepted += usage.accepted;
  }
  static std::unique_ptr<Reply> reply_to(const Request& request) {
    if (request.response.id.empty()) return std::make_unique<CompletionReply>(request);
    return std::make_unique<ResponseReply>(request);
  }
  // What a client has to its end survives whatever comes.
  void save() {
    const bool keeps = !request.response.id.empty() && request.response.store;
    generation->save(keeps ? reply->whole(generation->usage()) : std::string());
  }
  size_t answers() const { return request.n * std::max<size_t>(request.prompts.size(), 1); }
};

App::App(kvrt::Model model, kvrt::Model draft, StorePlace& place, Access access, AppOptions options, Conversations::Options conversations)
    : model_(std::move(model)),
      draft_(std::move(draft)),
      access_(std::move(access)),
      options_(std::move(options)),
      shows_tools_(shows_tools(model_)),
      conversations_(model_, place, options_.model_id, std::move(conversations)),
      graph_(model_, conversations_) {}

const std::string& App::domain() { return t_domain; }

// What every request has to be. False: it is answered with an error.
bool App::check(const httplib::Request& request, httplib::Response& response) {
  try {
    t_domain.clear();
    (void)HttpServer::head();
    const bool open = request.path == "/health" || request.path == "/metrics";
    if (HttpServer::crowded() && !open) throw ApiError(503, "as many connections are open as this server serves", "overloaded");
    if (const std::string page = access_.check_site(request); !page.empty()) {
      response.set_header("Access-Control-Allow-Origin", page);
      response.set_header("Vary", "Origin");
    }
    if (request.method == "OPTIONS") return true;  // a browser's question comes without a key
    if (is_of_tokenizer(request.path) || request.path.starts_with("/v1/") || request.path == "/metrics") t_domain = access_.domain(request);
    const std::string_view allowed = methods_of(request.path);
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (allowed.empty() && !reads) throw not_found(request);
    if (!allowed.empty() && allowed.find(request.method) == allowed.npos) {
      response.set_header("Allow", std::string(allowed));
      throw ApiError(405, request.path + ": expected " + std::string(allowed) + ", found " + request.method, "method_not_allowed");
    }
    return true;
  } catch (const ApiError& e) {
    send_error(e, response);
    return false;
  }
}

void App::add_routes(HttpServer* server) {
  using httplib::Request;
  using httplib::Response;
  const auto respond = [server](const char* path, auto make) {
    server->Get(path, [make](const Request&, Response& response) { response.set_content(make(), kJson); });
  };
  respond("/v1/models", [this] { return R"({"object":"list","data":[)" + models() + "]}"; });
  server->Get("/v1/kvrt/graph", [this](const Request& request, Response& response) { graph(request, response); });
  add_page(server);
  server->Get(R"(/v1/models/(.+))", [this](const Request& request, Response& response) {
    if (request.matches[1] != options_.model_id) throw ApiError(404, "there is no such model", "model_not_found", "model");
    response.set_content(models(), kJson);
  });
  server->Get("/metrics", [this](const Request&, Response& response) { response.set_content(metrics(), "text/plain; version=0.0.4"); });
  server->Get("/health", [this, server](const Request&, Response& response) {
    if (server->closing()) response.status = 503;
    response.set_content(health(server->closing()), kJson);
  });
  server->Options(".*", [](const Request&, Response& response) {
    response.status = 204;
    if (!response.has_header("Access-Control-Allow-Origin")) return;
    response.set_header("Access-Control-Allow-Methods", "GET, POST, DELETE");
    response.set_header("Access-Control-Allow-Headers", "*, Authorization");
  });
  if (!options_.pages.empty()) server->set_mount_point("/", options_.pages);
  const auto post = [&](const char* path, Api api) {
    server->Post(path, [this, api](const Request&, Response& response, const httplib::ContentReader&) {
      answer(HttpServer::read_body(), api, response);
    });
  };
  post("/v1/chat/completions", Api::kChat);
  post("/v1/completions", Api::kText);
  post("/v1/responses", Api::kResponses);
  add_responses(server);
  add_sessions(server);
  add_tokenizer(server);
  server->set_pre_routing_handler([this](const Request& request, Response& response) {
    return check(request, response) ? httplib::Server::HandlerResponse::Unhandled : httplib::Server::HandlerResponse::Handled;
  });
  server->set_exception_handler(
      [](const Request&, Response& response, std::exception_ptr thrown) { send_error(current_error(thrown), response); });
  server->set_error_handler([](const Request& request, Response& response) {
    if (!response.body.empty()) return;
    if (response.status == 404) return send_error(not_found(request), response);
    send_error(ApiError(response.status, "the request could not be read", "bad_request"), response);
  });
  server->set_logger([this](const Request&, const Response& response) {
    std::lock_guard lock(mu_);
    Counters& c = counters_[t_domain];
    ++c.requests;
    if (response.status >= 400) ++(response.status < 500 ? c.refused : c.failed);
    t_domain.clear();  // one that cannot be read has none
  });
}

Request App::read(const std::string& body, Api api) {
  Request request = api == Api::kText ? read_text_request(body) : api == Api::kChat ? read_chat_request(body) : read_response_request(body);
  speculate(&request);
  if (api == Api::kText) return request;
  if (!shows_tools_ && request.options.tool_choice == KVRT_TOOL_CHOICE_NONE) drop_tools(&request);  // the model sees none, and calls none
  if (api == Api::kResponses) {
    conversations_.prepare(&request, t_domain);
    say_left_out(request.response.left_out);
  }
  return request;
}

// What proposes tokens of the answer: as the request says, else the server's options.
void App::speculate(Request* request) const {
  if (request->draft.value_or(false) && !draft_)
    refuse("draft", "draft: this server was started without a draft model (--draft)", "unsupported_value");
  if (request->draft.value_or(true)) request->options.draft = draft_.get();
  request->options.lookup = request->lookup.value_or(options_.lookup);
  constexpr uint32_t kMostDefault = 16;  // draft_tokens_max of kvrt.h
  const uint32_t least = request->options.draft_tokens_min, given = request->options.draft_tokens_max, most = given ? given : kMostDefault;
  if (least > most)
    refuse("draft_tokens_min",
           "draft_tokens_min: expected at most draft_tokens_max, " + std::to_string(most) + ", found " + std::to_string(least));
}

void App::answer(const std::string& body, Api api, httplib::Response& response) {
  auto job = std::make_shared<Job>(*this, read(body, api));
  if (job->request.model != options_.model_id)
    throw ApiError(404, "the model \"" + job->request.model + "\" does not exist; this server has \"" + options_.model_id + "\"",
                   "model_not_found", "model");
  if (!job->request.tools.empty() && !shows_tools_)
    refuse("tools", "tools: this model's chat template does not show tools to the model", "unsupported_value");
  check_tokens(job->request, model_);
  try {
    job->generation =
        std::make_unique<Generation>(model_, conversations_, watcher_, job->request, t_domain, HttpServer::socket(), options_.time_limit);
  } catch (ApiError& e) {
    if (api == Api::kResponses && e.param == "messages") e.param = "input";
    throw;
  } catch (const kvrt::Error& e) {
    const bool items = api == Api::kResponses;
    const std::string_view said = items ? "input" : api == Api::kChat ? "messages" : "prompt";
    if (e.status() == KVRT_LIMIT && (e.detail() == KVRT_DETAIL_NONE || e.detail() == KVRT_DETAIL_TEMPLATE_LIMIT)) {
      const uint64_t most = tokens_max(model_);
      TokenCount found = count_tokens(model_, job->request);
      // What a session remembers may be longer than its words are.
      if (e.detail() == KVRT_DETAIL_NONE && found.all && found.tokens < most) found = {most, false};
      ApiError error = too_long(most, found, api != Api::kText);
      error.param = said;
      if (found.tokens >= most) throw error;  // else the template alone gives up
    }
    const std::string_view format = items ? "text.format" : "response_format";
    const std::string_view what = e.what();
    const bool of_tool = what.starts_with("tool ") || what.starts_with("tools: ");
    const std::string_view schema = !job->request.grammar.empty() && !of_tool ? format : !job->request.tools.empty() ? "tools" : "";
    throw ApiError::of(e, said, schema);
  }
  if (job->request.stream) return stream(std::move(job), response);
  while (const auto piece = job->generation->next()) job->reply->add(*piece);
  job->save();
  response.set_content(job->reply->whole(job->generation->usage()), kJson);
}

void App::stream(std::shared_ptr<Job> job, httplib::Response& response) {
  // The first piece before the first byte: until then a failure has a status of its own.
  auto first = std::make_shared<std::optional<Piece>>(job->generation->next());
  response.set_header("Cache-Control", "no-cache");
  const auto give = [job, first](size_t, httplib::DataSink& sink) {
    const auto send = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
    std::string end;
    try {
      for (std::optional<Piece> piece = std::move(*first); piece; piece = job->generation->next()) {
        if (send(job->reply->chunk(*piece))) continue;
        job->generation->cancel();
        return false;
      }
      job->save();
      end = job->reply->stream_end(job->generation->usage());
    } catch (...) {
      end = job->reply->stream_error(current_error(std::current_exception()));
    }
    if (!send(end)) return false;
    sink.done();
    return true;
  };
  // HTTP/1.0 has no chunks: there the connection's end is that of the stream.
  constexpr const char* kType = "text/event-stream";
  HttpServer::head().old ? response.set_content_provider(kType, give) : response.set_chunked_content_provider(kType, give);
}

void App::add_responses(HttpServer* server) {
  constexpr const char* kPath = R"(/v1/responses/([^/]+))";
  const auto missing = [](const std::string& id) {
    return ApiError(404, "Response with id '" + id + "' not found.", "response_not_found");
  };
  server->Get(kPath, [this, missing](const httplib::Request& request, httplib::Response& response) {
    const std::string id = request.matches[1];
    if (request.get_param_value("stream") == "true")
      refuse("stream", "stream: expected false, as a response that is kept has no events any more", "unsupported_value");
    const std::string json = conversations_.find_response(id, t_domain);
    if (json.empty()) throw missing(id);
    response.set_content(json, kJson);
  });
  server->Delete(kPath, [this, missing](const httplib::Request& request, httplib::Response& response) {
    const std::string id = request.matches[1];
    if (!conversations_.remove_response(id, t_domain)) throw missing(id);
    response.set_content(JsonWriter().begin('{').pair("id", id).pair("object", "response").key("deleted").raw("true").end('}').take(),
                         kJson);
  });
}

// Once for each type: an agent sends the same tools with each request.
void App::say_left_out(const std::vector<std::string>& types) {
  std::lock_guard lock(mu_);
  for (const std::string& whole : types) {
    const std::string type = valid_utf8(whole.substr(0, 64));
    if (left_out_.size() < kLeftOutMax && left_out_.insert(type).second)
      options_.log("tools of the type " + JsonWriter().string(type).take() + " are left out: the model only calls functions");
  }
}

std::string App::health(bool closing) const {
  const bool there = static_cast<bool>(conversations_.store()), lost = conversations_.has_place() && !there;
  JsonWriter w;
  w.begin('{').pair("status", closing ? "stopping" : lost ? "degraded" : "ok").pair("store", there ? "open" : lost ? "lost" : "none");
  if (lost) w.pair("message", "the store was removed or replaced, and none that opens is in its place: conversations are in memory alone");
  return w.end('}').take();
}

std::string App::models() const {
  JsonWriter w;
  w.begin('{').pair("id", options_.model_id).pair("object", "model").pair("created", options_.created).pair("owned_by", "kvrt");
  w.pair("max_model_len", tokens_max(model_)).key("suggested_sampling").raw(options_.sampling);
  return w.end('}').take();
}

void App::graph(const httplib::Request& request, httplib::Response& response) {
  const std::string text = request.has_param("limit") ? request.get_param_value("limit") : "1000";
  const bool fits = !text.empty() && text.size() <= 4 && text.find_first_not_of("0123456789") == text.npos;
  if (!fits || std::stoul(text) < 1) refuse("limit", "limit: expected 1 to 9999, found \"" + text.substr(0, 32) + "\"");
  response.set_header("Cache-Control", "no-store");
  send_fresh(request, response, graph_.json(t_domain, std::stoul(text), access_.keys.empty()), kJson);
}

// The counters of the caller's domain. Those of the model are of all domains: they are shown where there is one alone.
std::string App::metrics() {
  std::string out;
  {
    std::lock_guard lock(mu_);
    const Counters c = counters_[t_domain];
    const auto add = [&](const char* name, const char* help, uint64_t value) {
      const std::string full = std::string("kvrt_server_") + name;
      out += "# HELP " + full + " " + help + "\n# TYPE " + full + " counter\n" + full + " " + std::to_string(value) + "\n";
    };
    add("requests_total", "Requests that were answered.", c.requests);
    add("requests_refused_total", "Requests with a status of 400 to 499.", c.refused);
    add("requests_failed_total", "Requests with a status of 500 or more.", c.failed);
    add("prompt_tokens_total", "Tokens of prompts.", c.prompt);
    add("cached_tokens_total", "Of these, tokens that were not computed.", c.cached);
    add("completion_tokens_total", "Tokens that were generated.", c.completion);
    add("drafted_tokens_total", "Tokens that speculation proposed.", c.drafted);
    add("accepted_tokens_total", "Of these, tokens that answers have.", c.accepted);
  }
  std::string model;
  if (access_.keys.empty() && model_.metrics_text(options_.model_id, model).ok()) out += model;
  return out;
}
