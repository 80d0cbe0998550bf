#include "conversations.h"

#include <algorithm>
#include <utility>

#include "room.h"

namespace {

constexpr size_t kNamesMax = 256;  // of a request's beginnings: so many messages may be new
constexpr uint32_t kAutosaveTokens = 512;

// 128 bits of what was said so far. They need not be secure: they only find.
class Trail {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0x100);  // of no text
  }
  std::string hex() const {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const uint64_t half : {mix(a_), mix(b_ ^ a_)}) {
      for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[half >> shift & 15];
    }
    return out;
  }

 private:
  void add_byte(unsigned byte) {
    a_ = (a_ ^ byte) * 0x100000001B3u;
    b_ = (b_ + byte) * 0x9E3779B97F4A7C15u;
    b_ ^= b_ >> 29;
  }
  static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
  }
  uint64_t a_ = 0xCBF29CE484222325u, b_ = 0x84222325CBF29CE4u;
};

// What a request says beside its messages. A session keeps it, and so do its forks.
Trail setting_of(const std::string& model_id, const Request& request) {
  Trail trail;
  for (const std::string& text : {model_id, request.cache_key, request.tools, request.variables}) trail.add(text);
  return trail;
}

// Of all names with the request's prompt_cache_key and the rest of its setting.
std::string key_prefix(const std::string& model_id, const Request& request) {
  return request.cache_key.empty() ? "chat-" : "chat-" + setting_of(model_id, request).hex().substr(0, 16) + "-";
}

std::string text_name(const Prompt& prompt) {
  Trail trail;
  trail.add(prompt.text);
  for (const int32_t token : prompt.tokens) trail.add(std::to_string(token));
  return "text-" + trail.hex();
}

}  // namespace

std::string Conversations::setting_hex(const Request& request) const { return setting_of(model_id_, request).hex().substr(0, 16); }

// The names of the request's beginnings, the longest first.
std::vector<std::string> Conversations::names_of(const Request& request) const {
  const std::string prefix = key_prefix(model_id_, request);
  Trail trail = setting_of(model_id_, request);
  std::vector<std::string> names;
  for (const Message& m : request.messages) {
    trail.add(m.said());
    names.push_back(prefix + trail.hex());
  }
  std::reverse(names.begin(), names.end());
  if (names.size() > kNamesMax) names.resize(kNamesMax);
  return names;
}

kvrt_session_options Conversations::session_options(const std::string& domain, const kvrt::Store& store) const {
  auto o = kvrt::init<kvrt_session_options>();
  kvrt::assign(o.domain, o.domain_size, domain);
  if (!store) return o;
  o.store = store.get();
  // Within a long prompt or answer, under the name of the last save; begun has the first one, give_back that of the turn's end.
  o.autosave_tokens = kAutosaveTokens;
  return o;
}

Conversations::Found Conversations::take_open(const Key& key, std::shared_ptr<Conversation>* out) {
  std::unique_lock lock(mu_);
  for (;;) {
    const auto it = open_.find(key);
    if (it == open_.end()) return Found::kNothing;
    const std::shared_ptr<Conversation> c = it->second;
    if (!c->busy) {
      c->busy = true;
      *out = c;
      return Found::kTaken;
    }
    if (!c->saving && !c->cancel.fired() && c->response.empty()) return Found::kBusy;
    changed_.wait(lock);  // its request is over in a moment, or it is only copied
  }
}

std::shared_ptr<Conversation> Conversations::take_saved(const Key& key) {
  const auto [store, count] = look();
  if (!store || !store.stat(key.second, key.first).ok()) return nullptr;
  auto c = std::make_shared<Conversation>();
  c->domain = key.first, c->name = key.second, c->place = count;
  {
    std::lock_guard lock(mu_);
    if (!open_.emplace(key, c).second) return nullptr;  // another request was faster
  }
  auto session = kvrt::Session::resume(model_, store, c->name, session_options(c->domain, store));
  if (!session.ok()) {
    // Damaged, or of another model: it is left as it is, and the words of the request make a new one.
    options_.log("conversation " + c->name + ": " + kvrt::last_error().message);
    drop(c);
    return nullptr;
  }
  std::lock_guard lock(mu_);
  c->session = std::move(*session);
  return c;
}

// A copy of what was last said under the request's prompt_cache_key, its tools and variables, where no beginning of the request is known: the
// client has dropped or changed some of its messages.
std::shared_ptr<Conversation> Conversations::take_by_key(const Request& request, const std::string& domain) {
  const kvrt::Store store = request.cache_key.empty() ? kvrt::Store() : this->store();
  if (!store) return nullptr;
  const std::string prefix = key_prefix(model_id_, request);
  std::string newest;
  int64_t newest_ms = -1;
  (void)store.list(domain, [&](const kvrt::Event& e) {
    if (!std::string_view(e.entry->name).starts_with(prefix) || e.entry->saved_unix_ms <= newest_ms) return;
    newest = e.entry->name, newest_ms = e.entry->saved_unix_ms;
  });
  std::shared_ptr<Conversation> other;
  if (newest.empty() || take_open({domain, newest}, &other) == Found::kBusy) return nullptr;
  if (!other) other = take_saved({domain, newest});
  if (!other) return nullptr;
  auto copy = std::make_shared<Conversation>();
  auto fork = other->session.fork();
  drop(other);
  if (!fork.ok()) return nullptr;
  copy->domain = domain, copy->place = other->place;
  copy->session = std::move(*fork);
  return copy;
}

kvrt::Session Conversations::open_session(const std::string& tools, const std::string& variables, const std::string& domain,
                                          const kvrt::Store& store) const {
  auto options = session_options(domain, store);
  if (!tools.empty()) kvrt::assign(options.tools, options.tools_size, tools);
  kvrt::assign(options.variables, options.variables_size, variables);
  return kvrt::Session::open(model_, options).or_throw();
}

std::shared_ptr<Conversation> Conversations::open_new(const Request& request, const Key& key) {
  auto c = std::make_shared<Conversation>();
  c->domain = key.first, c->name = key.second;
  {
    std::lock_guard lock(mu_);
    if (!open_.emplace(key, c).second) c->name.clear();
  }
  try {
    const auto [store, count] = look();
    kvrt::Session session = open_session(request.tools, request.variables, c->domain, store);
    std::lock_guard lock(mu_);
    c->place = count;
    c->session = std::move(session);
  } catch (...) {
    drop(c);
    throw;
  }
  return c;
}

// The same conversation with another session. Who reads the old one may go on.
std::shared_ptr<Conversation> Conversations::replace(const std::shared_ptr<Conversation>& old, kvrt::Session session, uint64_t place) {
  auto c = std::make_shared<Conversation>();
  c->domain = old->domain, c->name = old->name, c->place = place;
  c->tools = old->tools, c->variables = old->variables;
  c->session = std::move(session);
  std::lock_guard lock(mu_);
  c->cancel = old->cancel, c->saving = old->saving;
  if (const auto it = open_.find({c->domain, c->name}); it != open_.end() && it->second == old) it->second = c;
  return c;
}

std::shared_ptr<Conversation> Conversations::take(const Request& request, const std::string& domain) {
  const std::vector<std::string> names = names_of(request);
  if (request.continues) return take_cut(request, {domain, names.front()});
  std::shared_ptr<Conversation> c;
  for (const std::string& name : names) {
    const Found found = take_open({domain, name}, &c);
    if (!c && found == Found::kNothing) c = take_saved({domain, name});
    if (c || found == Found::kBusy) break;
  }
  if (c && !follows(*c, request)) drop(std::exchange(c, nullptr));
  if (!c) c = take_response(request, {domain, names.front()});
  if (!c) c = take_by_key(request, domain);
  if (!c) c = open_new(request, {domain, names.front()});
  try {
    say_setting(c.get(), request);
    if (move(&c)) begun(c);                                 // it is in the store that is there now, whatever becomes of the request
    const bool named = !request.response.previous.empty();  // by its id, as it is
    options_.as_generated || named ? say_as_generated(c.get(), request) : say_as_sent(&c, request);
  } catch (...) {
    drop(c);
    throw;
  }
  return c;
}

// Who lists conversations reads it meanwhile.
void Conversations::say_setting(Conversation* c, const Request& request) {
  std::lock_guard lock(mu_);
  c->tools = request.tools, c->variables = request.variables;
}

kvrt_save_options Conversations::save_options() const {
  auto o = kvrt::init<kvrt_save_options>();
  o.overwrite = 1;
  o.ttl_seconds = options_.keep_seconds;
  return o;
}

void Conversations::begins(const std::shared_ptr<Conversation>& c, const kvrt::Cancel& cancel) {
  std::lock_guard lock(mu_);
  c->cancel = cancel;
}

void Conversations::begun(const std::shared_ptr<Conversation>& c) noexcept {
  const auto info = c->session.info();
  if (c->place == 0 || c->name.empty() || !info.ok() || info->revision > 0) return;
  auto options = save_options();
  options.durability = KVRT_DURABILITY_PROCESS;  // it may wait for other writers of the store, but not for the disk
  if (!c->session.checkpoint(c->name, options).ok())
    options_.log("conversation " + c->name + ": its first answer is not saved before it ends: " + kvrt::last_error().message);
}

void Conversations::give_back(std::shared_ptr<Conversation> c, const Request& request) noexcept {
  const Key before(c->domain, c->name), now(c->domain, names_of(request).front());
  const auto info = c->session.info();
  if (!info.ok() || info->state == KVRT_STATE_FAILED) return drop(c);
  {
    std::lock_guard lock(mu_);
    c->saving = true;
    // Where another request with the same words has the name, that one is kept.
    c->name = before == now || open_.emplace(now, c).second ? now.second : "";
  }
  if (!c->name.empty() && save(&c, now.second) && !before.second.empty() && before != now) (void)store().remove(before.second, c->domain);
  if (before != now) forget(before);
  let_go_after_request(c);
}

void Conversations::drop(const std::shared_ptr<Conversation>& c) noexcept {
  const auto info = c->session.info();
  const bool keep = info.ok() && info->state != KVRT_STATE_FAILED && info->messages > 0;
  if (!keep) forget({c->domain, c->name});
  let_go_after_request(c);
}

// What moves conversations into a store that is new passes over one that a request has: it looks again.
void Conversations::let_go_after_request(const std::shared_ptr<Conversation>& c) noexcept {
  let_go(c);
  const auto [store, count] = look();
  std::lock_guard lock(mu_);
  if (!store || c->busy || c->place == count) return;
  moves_ = true;
  changed_.notify_all();
}

void Conversations::forget(const Key& key) noexcept {
  std::lock_guard lock(mu_);
  open_.erase(key);
}

// Others may have it now. Closes what its key used longest ago if too many of that key are open; each is saved.
void Conversations::let_go(const std::shared_ptr<Conversation>& c) noexcept {
  std::vector<std::shared_ptr<Conversation>> closed;  // without the lock: a close may have to save
  std::lock_guard lock(mu_);
  c->busy = c->saving = false;
  c->cancel = {};
  c->prompt = {};
  c->used = ++clock_;
  changed_.notify_all();
  for (;;) {
    size_t count = 0;
    auto oldest = open_.end();
    for (auto it = open_.lower_bound({c->domain, ""}); it != open_.end() && it->first.first == c->domain; ++it, ++count) {
      if (!it->second->busy && (oldest == open_.end() || it->second->used < oldest->second->used)) oldest = it;
    }
    if (count <= options_.open_max || oldest == open_.end()) return;
    closed.push_back(std::move(oldest->second));
    open_.erase(oldest);
  }
}

// To a text of no tokens, what a text begins with: the model writes one from its beginning on.
void Conversations::append_beginning(kvrt::Session* session) const {
  const auto info = model_.info().or_throw();
  const int32_t token = info.bos_token >= 0 ? info.bos_token : info.eos_token;
  if (token < 0) refuse("prompt", "prompt: the text is empty, and this model has no token with which texts begin");
  session->append(kvrt::Span<const int32_t>(&token, 1)).or_throw();
}

kvrt::Session Conversations::open_text(const Prompt& prompt, const std::string& domain) {
  const kvrt::Store store = this->store();
  auto options = session_options(domain, store);
  options.autosave_tokens = 0;
  auto session = kvrt::Session::open(model_, options).or_throw();
  if (prompt.tokens.empty()) {
    session.append_text(prompt.text, KVRT_TEXT_SPECIAL).or_throw();
    if (session.info().or_throw().tokens == 0) append_beginning(&session);
  } else {
    session.append(prompt.tokens).or_throw();
  }
  return session;
}

void Conversations::save_text(kvrt::Session& session, const Prompt& prompt) noexcept {
  if (!store()) return;
  const auto saved = session.checkpoint(text_name(prompt), save_options());
  if (!saved.ok()) options_.log("a completion is not saved: " + std::string(kvrt::last_error().message));
}

std::vector<SessionEntry> Conversations::list(const std::string& domain) {
  std::vector<SessionEntry> out;
  if (const kvrt::Store store = this->store()) {
    (void)store.list(domain, [&](const kvrt::Event& e) {
      out.push_back(
          {e.entry->name, "disk", e.entry->tokens, e.entry->bytes, e.entry->saved_unix_ms, e.entry->expires_unix_ms, e.entry->revision});
    });
  }
  std::lock_guard lock(mu_);
  for (const auto& [key, c] : open_) {
    const auto& [owner, name] = key;
    if (owner != domain) continue;
    const auto info = c->session.info();
    if (!info.ok()) continue;
    auto it = std::ranges::find(out, name, &SessionEntry::name);
    if (it == out.end()) it = out.insert(out.end(), SessionEntry{name, ""});
    it->state = info->state == KVRT_STATE_GENERATING ? "computing" : info->kv_units > 0 ? "memory" : "disk";
    it->tokens = info->tokens;
  }
  return out;
}

std::vector<Conversations::Opened> Conversations::open(const std::string& domain) {
  std::vector<Opened> out;
  std::lock_guard lock(mu_);
  for (const auto& [key, c] : open_) {
    // One that is being saved has its name before, too.
    if (key.first == domain && key.second == c->name && c->session) out.push_back({key.second, c->used, c->busy, c});
  }
  return out;
}
