// What sessions say, for who lists and opens them: titles, and the messages of one. A session of the store is read once for each of its saves.
#include <algorithm>
#include <chrono>
#include <utility>

#include "conversations.h"
#include "error.h"

namespace {

constexpr const char* kConversation = "kvrt_conversation";  // a variable that no template reads: clients group branches by it
constexpr size_t kTitleBytes = 120;
constexpr auto kTitlesTime = std::chrono::milliseconds(300);  // of a call, for sessions that it has not read yet

// Its first words, in one line.
std::string first_words(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = static_cast<unsigned char>(c) <= ' ';
    if (!space) out += c;
    if (space && !out.empty() && out.back() != ' ') out += ' ';
    if (out.size() >= kTitleBytes) break;
  }
  out.resize(out.size() - half_character(out));
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string text_in(const Json& object, const char* name) {
  const Json* value = object.find(name);
  return value && value->is(Json::kString) ? value->text : "";
}

// As OpenAI's API writes it, where a call's arguments are a text.
void write_message(const Json& m, JsonWriter* w) {
  w->begin('{').pair("role", text_in(m, "role")).pair("content", text_in(m, "content"));
  for (const char* name : {"reasoning_content", "tool_call_id", "name"}) {
    if (const std::string text = text_in(m, name); !text.empty()) w->pair(name, text);
  }
  if (const Json* calls = m.find("tool_calls"); calls && !calls->items.empty()) {
    w->key("tool_calls").begin('[');
    for (const Json& call : calls->items) {
      const Json* function = call.find("function");
      const Json* arguments = function ? function->find("arguments") : nullptr;
      w->begin('{').pair("id", text_in(call, "id")).pair("type", "function").key("function").begin('{');
      w->pair("name", function ? text_in(*function, "name") : "");
      w->pair("arguments", !arguments ? "{}" : arguments->is(Json::kString) ? std::string_view(arguments->text) : arguments->raw);
      w->end('}').end('}');
    }
    w->end(']');
  }
  w->end('}');
}

// A session as the store shows it, without its tokens, which may be a million, but for the last one; -1: it has none.
struct Shown {
  std::string text;
  int32_t last_token = -1;
};

bool show_words(const kvrt::Store& store, const std::string& name, const std::string& domain, Shown* out) {
  if (!store || !store.show(name, out->text, domain).ok()) return false;
  constexpr std::string_view kTokens = "\"tokens\": [";
  const size_t begin = out->text.find(kTokens), end = begin == out->text.npos ? begin : out->text.find(']', begin);
  if (end == out->text.npos) return true;
  const size_t first = begin + kTokens.size(), last = out->text.find_last_not_of("0123456789", end - 1) + 1;
  if (last < end) out->last_token = static_cast<int32_t>(std::stol(out->text.substr(last, end - last)));
  out->text.erase(first, end - first);
  return true;
}

std::vector<std::string> messages_of(const kvrt::Session& session) {
  std::vector<std::string> out;
  std::string message;
  for (uint64_t i = 0; session.message(i, nullptr, message).ok(); ++i) out.push_back(message);
  return out;
}

SessionWords words_of(const std::vector<std::string>& messages) {
  SessionWords words;
  words.messages = messages.size();
  for (const std::string& text : messages) {
    const Json m = read_json(text, kKvrtDepthMax);
    if (text_in(m, "role") != "user") continue;
    words.last = first_words(text_in(m, "content"));
    if (words.title.empty()) words.title = words.last;
  }
  return words;
}

// What the store keeps of a session. False: it has none, or it is damaged.
struct Saved {
  SessionWords words;
  std::vector<std::string> messages;
  bool generated = false;  // the last one ends where the session does
  int32_t last_token = -1;
};

bool read_saved(const kvrt::Store& store, const std::string& name, const std::string& domain, Saved* out) {
  Shown shown;
  if (!show_words(store, name, domain, &shown)) return false;
  try {
    const Json json = read_json(shown.text, kKvrtDepthMax);
    const Json *messages = json.find("messages"), *spans = json.find("spans"), *options = json.find("options");
    if (!messages || !spans) return false;
    for (const Json& m : messages->items) out->messages.emplace_back(m.raw);
    out->words = words_of(out->messages);
    if (!spans->items.empty()) {
      const Json* generated = spans->items.back().find("generated");
      out->generated = generated && (generated->truth || generated->number > 0);
    }
    const Json* variables = options ? options->find("variables") : nullptr;
    if (variables) out->words.conversation = text_in(*variables, kConversation);
    out->last_token = shown.last_token;
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

std::string conversation_in(const std::string& variables) {
  try {
    return variables.empty() ? "" : text_in(read_json(variables), kConversation);
  } catch (const JsonError&) {
    return "";
  }
}

}  // namespace

// The number of those that there was no time for.
size_t Conversations::add_words(const std::string& domain, std::vector<SessionEntry>* entries) {
  const auto until = std::chrono::steady_clock::now() + kTitlesTime;
  const kvrt::Store store = this->store();
  std::map<std::string, std::pair<std::shared_ptr<Conversation>, std::string>> open;  // with its variables
  {
    std::lock_guard lock(mu_);
    for (const auto& [key, c] : open_) {
      if (key.first == domain && c->session) open[key.second] = {c, c->variables};
    }
  }
  std::lock_guard lock(words_mu_);
  auto& known = words_[domain];
  std::map<std::string, Known> now;
  size_t unread = 0;
  for (SessionEntry& e : *entries) {
    if (const auto it = open.find(e.name); it != open.end()) {
      e.words = words_of(messages_of(it->second.first->session));
      e.words.conversation = conversation_in(it->second.second);
      continue;
    }
    const auto before = known.find(e.name);
    if (before != known.end() && before->second.revision == e.revision && before->second.saved_ms == e.saved_ms) {
      now.insert(*before);
    } else if (std::chrono::steady_clock::now() < until) {
      Saved saved;
      (void)read_saved(store, e.name, domain, &saved);
      now[e.name] = {e.revision, e.saved_ms, std::move(saved.words)};
    } else {
      ++unread;
      continue;
    }
    e.words = now[e.name].words;
  }
  known = std::move(now);
  return unread;
}

// An answer is whole where its last token has no text: it ends a turn.
bool Conversations::ends_turn(int32_t token) const {
  std::string text;
  return token >= 0 && model_.detokenize(kvrt::Span<const int32_t>(&token, 1), 0, text).ok() && text.empty();
}

std::string Conversations::read_session(const std::string& name, const std::string& domain) {
  std::shared_ptr<Conversation> open;
  std::string variables;
  {
    std::lock_guard lock(mu_);
    const auto it = open_.find({domain, name});
    if (it != open_.end() && it->second->session) open = it->second, variables = open->variables;
  }
  Saved found;
  bool whole = false;
  if (open) {
    found.messages = messages_of(open->session);
    found.words = words_of(found.messages);
    found.words.conversation = conversation_in(variables);
    auto last = kvrt::init<kvrt_message_props>();
    std::string text;
    whole = !found.messages.empty() && open->session.message(found.messages.size() - 1, &last, text).ok() && last.ended;
  } else if (read_saved(store(), name, domain, &found)) {
    whole = found.generated && ends_turn(found.last_token);
  } else {
    return "";
  }
  JsonWriter w;
  w.begin('{').pair("object", "kvrt.session").pair("name", name).pair("title", found.words.title);
  w.pair("conversation", found.words.conversation).key("whole").raw(whole ? "true" : "false").key("messages").begin('[');
  for (const std::string& m : found.messages) write_message(read_json(m, kKvrtDepthMax), &w);
  return w.end(']').end('}').take();
}

bool Conversations::remove_session(const std::string& name, const std::string& domain) {
  require_place();  // one that comes back would still have it
  std::shared_ptr<Conversation> open;
  if (take_open({domain, name}, &open) == Found::kBusy)
    throw ApiError(409, "this conversation is being answered: end that first", "conversation_busy");
  const bool known = static_cast<bool>(open);
  if (open) {
    forget({domain, name});
    let_go(open);
    // It is closed before it is removed, as an autosave or its close would save it again. Who reads it, or has just answered, is done in a moment.
    while (open.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    open.reset();
  }
  return remove_saved(name, domain) || known;
}
