// /v1/kvrt/sessions: the conversations of the caller.
#include "app.h"
#include "page.h"

namespace {

constexpr const char* kJsonType = "application/json";

}  // namespace

void App::add_sessions(HttpServer* server) {
  constexpr const char* kPath = R"(/v1/kvrt/sessions/(.+))";
  const auto missing = [] { return ApiError(404, "there is no conversation of this name", "conversation_not_found"); };
  server->Get("/v1/kvrt/sessions", [this](const httplib::Request& request, httplib::Response& response) {
    response.set_header("Cache-Control", "no-store");
    send_fresh(request, response, sessions(), kJsonType);
  });
  server->Get(kPath, [this, missing](const httplib::Request& request, httplib::Response& response) {
    const std::string json = conversations_.read_session(request.matches[1], domain());
    if (json.empty()) throw missing();
    response.set_header("Cache-Control", "no-store");
    response.set_content(json, kJsonType);
  });
  server->Delete(kPath, [this, missing](const httplib::Request& request, httplib::Response& response) {
    const std::string name = request.matches[1];
    if (!conversations_.remove_session(name, domain())) throw missing();
    JsonWriter w;
    w.begin('{').pair("name", name).pair("object", "kvrt.session").key("deleted").raw("true").end('}');
    response.set_content(w.take(), kJsonType);
  });
}

std::string App::sessions() {
  JsonWriter w;
  std::vector<SessionEntry> entries = conversations_.list(domain());
  const size_t unread = conversations_.add_words(domain(), &entries);
  w.begin('{').pair("object", "list").key("data").begin('[');
  for (const SessionEntry& e : entries) {
    w.begin('{').pair("name", e.name).pair("title", e.words.title).pair("last", e.words.last);
    w.pair("conversation", e.words.conversation)
        .pair("messages", e.words.messages)
        .pair("state", e.state)
        .pair("tokens", e.tokens)
        .pair("disk_bytes", e.bytes);
    w.pair("saved_unix_ms", static_cast<uint64_t>(e.saved_ms)).pair("expires_unix_ms", static_cast<uint64_t>(e.expires_ms)).end('}');
  }
  return w.end(']').pair("unread", uint64_t{unread}).end('}').take();
}
