// Conversations whose store was removed or replaced.
#include "conversations.h"

Conversations::Conversations(kvrt::Model model, StorePlace& place, std::string model_id, Options options)
    : model_(std::move(model)), place_(place), model_id_(std::move(model_id)), options_(std::move(options)), seen_(place.look().count) {
  mover_ = std::jthread([this](const std::stop_token& over) { run(over); });
}

Conversations::~Conversations() {
  (void)look();  // what came back since the last request gets its conversations all the same
  {
    std::lock_guard lock(mu_);
    mover_.request_stop();
  }
  changed_.notify_all();
}

StorePlace::Found Conversations::look() const {
  StorePlace::Found found = place_.look();
  if (found.count > 0 && seen_.exchange(found.count) != found.count) {
    {
      std::lock_guard lock(mu_);
      moves_ = true;
    }
    changed_.notify_all();
  }
  return found;
}

// Saves, in a store that is new here, the conversations that no request works on. The others are saved there when theirs is over.
void Conversations::run(const std::stop_token& over) {
  std::unique_lock lock(mu_);
  for (;;) {
    changed_.wait(lock, [&] { return moves_ || over.stop_requested(); });
    if (!std::exchange(moves_, false)) return;
    std::vector<Key> keys;
    for (const auto& [key, c] : open_) keys.push_back(key);
    for (const Key& key : keys) {
      const auto it = open_.find(key);
      if (it == open_.end() || it->second->busy || it->second->place == seen_ || !it->second->response.empty()) continue;
      std::shared_ptr<Conversation> c = it->second;
      c->busy = c->saving = true;
      lock.unlock();
      if (!c->name.empty()) (void)save(&c, c->name);
      let_go(c);
      lock.lock();
    }
  }
}

// Gives it a session in the store that is there now: one with the same messages, whose KV the pool still has. False: it stays as it is.
bool Conversations::move(std::shared_ptr<Conversation>* conversation) {
  const auto [store, count] = look();
  Conversation& c = **conversation;
  if (!store || count == c.place || !c.response.empty()) return false;
  try {
    std::string list = "[", message;
    for (uint64_t i = 0; c.session.message(i, nullptr, message).ok(); ++i) list += (i ? "," : "") + message;
    kvrt::Session session = open_session(c.tools, c.variables, c.domain, store);
    if (list.size() > 1) (void)session.set_messages(list + "]").or_throw();
    *conversation = replace(*conversation, std::move(session), count);
    return true;
  } catch (const kvrt::Error& e) {
    options_.log("conversation " + c.name + " does not go into the store that is there now: " + e.what());
    return false;
  }
}

// In the store that is there now. True: it is saved. What was to be saved and is not stands in the log. `name` may be that of the conversation, which goes.
bool Conversations::save(std::shared_ptr<Conversation>* conversation, std::string name) {
  (void)move(conversation);
  for (;;) {
    const std::shared_ptr<Conversation> c = *conversation;
    if (c->place == 0 && !place_.named()) return false;  // there are no stores
    const auto saved = c->session.checkpoint(name, save_options());
    if (saved.ok() && saved->chunks_missing > 0) {
      options_.log("conversation " + name + ": " + std::to_string(saved->chunks_missing) + " of " + std::to_string(saved->chunks) +
                   " blocks of KV are not on disk, for want of room there or in memory; a restart computes them again");
    }
    if (saved.ok()) return true;
    const std::string why = c->place == 0 ? "no store is there" : std::string(kvrt::last_error().message);
    if (move(conversation)) continue;  // the store was replaced a moment ago
    options_.log("conversation " + name + " is not saved: " + why);
    return false;
  }
}
