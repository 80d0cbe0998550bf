// The responses that are kept. One is a session that is saved under `resp-...`, as its id `resp_...` says: a fork of its conversation, with
// the response as the client got it, and the name of that conversation, in variables of the chat template that no template reads. So a store
// needs no table of them: they expire, are counted and are removed as all its sessions. Without a store they are in memory.
#include <algorithm>
#include <iterator>
#include <utility>

#include "conversations.h"
#include "error.h"
#include "reply.h"

namespace {

constexpr const char *kVariable = "kvrt_response", *kEnded = "kvrt_ended";
constexpr std::string_view kId = "resp_", kName = "resp-";
constexpr size_t kSettingDigits = 16;  // of a name, behind its beginning

// The name of the session; "": no id of this server's.
std::string name_of(const std::string& id) {
  const auto fits = [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'v'); };
  const std::string_view rest = std::string_view(id).substr(std::min(id.size(), kId.size()));
  const bool ours = id.starts_with(kId) && !rest.empty() && rest.size() <= 64 && std::all_of(rest.begin(), rest.end(), fits);
  return ours ? std::string(kName) + std::string(rest) : "";
}

// A message as a session has it: `arguments` are an object.
Message message_of(const Json& json) {
  const auto text_of = [](const Json& object, const char* name) {
    const Json* value = object.find(name);
    return value ? value->text : std::string();
  };
  Message m;
  m.role = text_of(json, "role"), m.content = text_of(json, "content"), m.reasoning = text_of(json, "reasoning_content");
  m.call_id = text_of(json, "tool_call_id"), m.name = text_of(json, "name");
  const Json* calls = json.find("tool_calls");
  for (size_t i = 0; calls && i < calls->items.size(); ++i) {
    const Json* function = calls->items[i].find("function");
    const Json* arguments = function ? function->find("arguments") : nullptr;
    if (!function) continue;
    std::string said = !arguments ? "{}" : arguments->is(Json::kObject) ? arguments_of(arguments->raw) : std::string(arguments->raw);
    m.calls.push_back({text_of(calls->items[i], "id"), text_of(*function, "name"), std::move(said)});
  }
  return m;
}

// The session has the calls of its answer without the ids that the client got.
void add_ids(const Json& response, std::vector<Message>* messages) {
  const Json* output = response.find("output");
  if (!output || messages->empty()) return;
  std::vector<ToolCall>& calls = messages->back().calls;
  size_t next = 0;
  for (const Json& item : output->items) {
    const Json* id = item.find("call_id");
    if (id && next < calls.size()) calls[next++].id = id->text;
  }
}

// An answer that was cut has the text that the client got: the session may have a half of a character more, or of a call.
void cut_answer(const Json& response, std::vector<Message>* messages) {
  const Json *status = response.find("status"), *output = response.find("output");
  if (!status || status->text != "incomplete" || !output || messages->empty()) return;
  Message& answer = messages->back();
  answer.content.clear(), answer.reasoning.clear();
  for (const Json& item : output->items) {
    const Json *type = item.find("type"), *content = item.find("content");
    for (size_t i = 0; type && content && i < content->items.size(); ++i) {
      if (const Json* text = content->items[i].find("text")) (type->text == "reasoning" ? answer.reasoning : answer.content) += text->text;
    }
  }
}

// Templates want one system message, the first: the instructions and what comes with them are one.
void add_instructions(const std::string& instructions, std::vector<Message>* messages) {
  Message system;
  system.role = "system", system.content = instructions;
  auto last = messages->begin();
  for (; last != messages->end() && last->role == "system"; ++last) {
    if (!system.content.empty()) system.content += "\n\n";
    system.content += last->content;
  }
  messages->erase(messages->begin(), last);
  if (!system.content.empty()) messages->insert(messages->begin(), std::move(system));
}

// The instructions of a response are none of the next one's.
void drop_instructions(const Json& response, std::vector<Message>* messages) {
  const Json* instructions = response.find("instructions");
  if (!instructions || instructions->text.empty() || messages->empty() || messages->front().role != "system") return;
  std::string& content = messages->front().content;
  if (!content.starts_with(instructions->text)) return;
  content.erase(0, instructions->text.size());
  if (content.starts_with("\n\n")) content.erase(0, 2);
  if (content.empty()) messages->erase(messages->begin());
}

}  // namespace

void Conversations::prepare(Request* r, const std::string& domain) const {
  r->response.id = std::string(kId) + setting_hex(*r) + random_id("");
  const size_t added = r->messages.size();
  std::vector<Message> before;
  if (const std::string& id = r->response.previous; !id.empty()) {
    Kept kept = find_kept(id, domain);
    if (kept.response.empty())
      refuse("previous_response_id", "Previous response with id '" + id + "' not found.", "previous_response_not_found");
    const Json response = read_json(kept.response);
    add_ids(response, &kept.messages);
    cut_answer(response, &kept.messages);
    drop_instructions(response, &kept.messages);
    before = std::move(kept.messages);
    r->response.answer = std::move(kept.answer);
  }
  r->messages.insert(r->messages.begin(), std::make_move_iterator(before.begin()), std::make_move_iterator(before.end()));
  add_instructions(r->response.instructions, &r->messages);
  match_results(&r->messages);
  if (!r->response.answer.empty()) r->response.answer_at = r->messages.size() - added - 1;
}

Conversations::Kept Conversations::find_kept(const std::string& id, const std::string& domain) const {
  const std::string name = name_of(id);
  Kept out;
  if (name.empty()) return out;
  std::string saved;
  const kvrt::Store store = this->store();
  const kvrt::Status shown = store ? store.show(name, saved, domain) : kvrt::Status(KVRT_NOT_FOUND);
  if (shown.code() != KVRT_OK && shown.code() != KVRT_NOT_FOUND) options_.log("response " + id + ": " + kvrt::last_error().message);
  if (shown.ok()) {
    // Its tokens, which may be a million, are not read.
    constexpr std::string_view kTokens = "\"tokens\": [";
    if (const size_t at = saved.find(kTokens); at != saved.npos)
      saved.erase(at + kTokens.size(), saved.find(']', at) - at - kTokens.size());
    try {
      const Json json = read_json(saved, kKvrtDepthMax);
      const Json *options = json.find("options"), *messages = json.find("messages");
      const Json* variables = options ? options->find("variables") : nullptr;
      const Json* response = variables ? variables->find(kVariable) : nullptr;
      if (!response || !messages) return out;
      for (const Json& m : messages->items) out.messages.push_back(message_of(m)), out.answer = m.raw;
      out.response = response->text;
      if (const Json* ended = variables->find(kEnded)) out.ended = ended->text;
    } catch (const JsonError& e) {
      options_.log("response " + id + ": " + e.what());
    }
    return out;
  }
  std::lock_guard lock(mu_);
  const auto it = open_.find({domain, name});
  if (it == open_.end() || it->second->response.empty()) {
    if (!store) require_place();
    return out;
  }
  std::string message;
  for (uint64_t i = 0; it->second->session.message(i, nullptr, message).ok(); ++i) {
    out.messages.push_back(message_of(read_json(message, kKvrtDepthMax)));
    out.answer = message;
  }
  out.response = it->second->response;
  out.ended = it->second->ended;
  return out;
}

std::string Conversations::find_response(const std::string& id, const std::string& domain) const { return find_kept(id, domain).response; }

// Where a request goes on from it, or another answer came to the same words, it is no longer that of the response alone.
void Conversations::remove_ended(const Kept& kept, const std::string& domain) {
  const Key key(domain, kept.ended);
  std::shared_ptr<Conversation> c;
  if (kept.ended.empty() || take_open(key, &c) == Found::kBusy) return;
  if (!c) c = take_saved(key);
  if (!c) return;
  std::string last;
  const uint64_t count = kept.messages.size();
  const auto info = c->session.info();
  const bool ends = info.ok() && info->messages == count && c->session.message(count - 1, nullptr, last).ok() &&
                    same(read_json(last, kKvrtDepthMax), read_json(kept.answer, kKvrtDepthMax));
  if (!ends) return drop(c);
  forget(key);
  let_go(c);
  c.reset();  // its close saves what is not saved
  (void)remove_saved(key.second, domain);
}

// Throws where the store is not there that the server was started with: nothing can be said of what it keeps.
void Conversations::require_place() const {
  if (has_place() && !store())
    throw ApiError(503, "the server's store was removed or replaced, and none that opens is in its place: what it keeps is not there now",
                   "store_lost");
}

bool Conversations::remove_saved(const std::string& name, const std::string& domain) {
  const kvrt::Store store = this->store();
  if (!store) return false;
  const kvrt::Status removed = store.remove(name, domain);
  if (removed.code() == KVRT_BUSY)
    throw ApiError(503, "another program writes the server's store: send the request again in a moment", "overloaded");
  if (removed.code() != KVRT_NOT_FOUND) removed.or_throw();
  return removed.ok();
}

bool Conversations::remove_response(const std::string& id, const std::string& domain) {
  const std::string name = name_of(id);
  if (name.empty()) return false;
  if (const Kept kept = find_kept(id, domain); !kept.messages.empty()) remove_ended(kept, domain);
  const bool saved = remove_saved(name, domain);
  std::shared_ptr<Conversation> closed;  // without the lock
  std::lock_guard lock(mu_);
  const auto it = open_.find({domain, name});
  if (it == open_.end()) return saved;
  closed = std::move(it->second);
  open_.erase(it);
  return true;
}

// Saves the session, and with it the response: variables are given where a session is opened or resumed, so it is resumed.
bool Conversations::save_response(Conversation* kept, const Request& request) const {
  const std::string &domain = kept->domain, &name = kept->name;
  const kvrt::Store store = this->store();
  const auto fails = [&](std::string_view why) {
    if (place_.named()) options_.log("response " + request.response.id + " is not saved, and kept in memory: " + std::string(why));
    return false;
  };
  if (!store) return fails("no store is there");
  auto save = save_options();
  save.durability = KVRT_DURABILITY_PROCESS;
  if (!kept->session.suspend(name, save).ok()) return fails(kvrt::last_error().message);  // nothing is left for an autosave at its close
  JsonWriter member;
  member.pair(kVariable, kept->response).pair(kEnded, kept->ended);
  std::string variables = request.variables;
  variables.insert(variables.size() - 1, (variables == "{}" ? "" : ",") + member.str());
  auto options = session_options(domain, store);
  options.autosave_tokens = 0;
  kvrt::assign(options.variables, options.variables_size, variables);
  auto resumed = kvrt::Session::resume(model_, store, name, options);
  if (resumed.ok() && resumed->checkpoint(name, save_options()).ok()) return true;
  (void)fails(kvrt::last_error().message);
  (void)store.remove(name, domain);
  return false;
}

void Conversations::keep(std::shared_ptr<Conversation>* conversation, const Request& request, const std::string& response) noexcept {
  (void)move(conversation);
  Conversation& c = **conversation;
  auto fork = c.session.fork();
  if (!fork.ok()) return options_.log("response " + request.response.id + " is not kept: " + kvrt::last_error().message);
  auto kept = std::make_shared<Conversation>();
  kept->domain = c.domain, kept->name = name_of(request.response.id), kept->place = c.place;
  kept->response = response, kept->ended = names_of(request).front();
  kept->session = std::move(*fork);
  if (save_response(kept.get(), request)) return;
  {
    std::lock_guard lock(mu_);
    open_[{kept->domain, kept->name}] = kept;
  }
  let_go(kept);
}

// False: another answer came to the same words, so the conversation is not that of the response before.
bool Conversations::follows(const Conversation& c, const Request& request) {
  const ResponseFields& r = request.response;
  std::string message;
  return r.answer.empty() || (c.session.message(r.answer_at, nullptr, message).ok() &&
                              same(read_json(message, kKvrtDepthMax), read_json(r.answer, kKvrtDepthMax)));
}

// A copy of the conversation that the response before ended, where the request has the same tools and template variables. It is saved as `name`
// at once, and is without the response: a session takes its variables when it is resumed.
std::shared_ptr<Conversation> Conversations::take_response(const Request& request, const Key& key) {
  const Key before(key.first, name_of(request.response.previous));
  if (!std::string_view(before.second).starts_with(std::string(kName) + setting_hex(request))) return nullptr;
  auto copy = std::make_shared<Conversation>();
  copy->domain = key.first;
  std::shared_ptr<Conversation> kept;
  if (take_open(before, &kept) == Found::kTaken) {
    auto fork = kept->session.fork();
    drop(kept);
    if (fork.ok()) copy->session = std::move(*fork), copy->place = kept->place;
    return fork.ok() ? copy : nullptr;
  }
  const auto [store, count] = look();
  if (!store) return nullptr;
  copy->place = count;
  auto options = session_options(key.first, store);
  const uint32_t autosave_tokens = std::exchange(options.autosave_tokens, 0);  // it would save it under the name of the response
  kvrt::assign(options.variables, options.variables_size, request.variables);
  auto session = kvrt::Session::resume(model_, store, before.second, options);
  if (!session.ok()) return nullptr;
  auto save = save_options();
  save.durability = KVRT_DURABILITY_PROCESS;
  {
    std::lock_guard lock(mu_);
    if (open_.emplace(key, copy).second) copy->name = key.second;
  }
  if (!copy->name.empty() && session->checkpoint(copy->name, save).ok()) {
    options.autosave_tokens = autosave_tokens;
    auto again = kvrt::Session::resume(model_, store, copy->name, options);
    if (again.ok()) session = std::move(again);
  }
  std::lock_guard lock(mu_);
  copy->session = std::move(*session);
  return copy;
}
