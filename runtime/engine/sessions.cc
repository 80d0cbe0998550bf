// Engine: sessions as data: open, close, fork, their conversations, info. No compute.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/engine/conversation/edit.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

Result<Session*> Engine::open_session(const SessionOptions& options) {
  if (!runner_) {
    return error(Code::kUnsupported, Detail::kNone, "%s holds a vocabulary and no weights: it has no sessions", model_->name().c_str());
  }
  auto session = std::make_unique<Session>(kv_.shape);
  runtime_->env()->random(session->saved.id.bytes);
  session->store = options.store;
  session->domain = options.domain;
  session->kv.share = options.share;
  KVRT_ASSIGN(session->arguments, normalize_arguments(options.arguments));
  session->arguments.now = runtime_->env()->unix_ms() / 1000;
  KVRT_ASSIGN(session->kv.root, root_for(options));
  session->wake = options.wake;
  KVRT_TRY(set_autosave(options, session.get()));
  if (session->autosave) {
    // Of no tokens: no autosave of an empty session.
    session->saved.mark.reset(new SavedSession::Mark{session->kv.root, 0, hash_rest(*session, session->arguments)});
    const std::string& name = session->autosave->policy.name;
    if (!name.empty()) session->open_name = session->store->open_name(session->domain, name);
  }
  Lock lock(mu_);
  KVRT_TRY(enlist(session.get()));
  return session.release();
}

// Adds the session to the queue, and to the saver's. After a failure it is in neither, and its caller's.
Status Engine::enlist(Session* session) {
  if (step_->queue.sessions().size() >= kSessionsMax) {
    return error(Code::kLimit, Detail::kNone, "%u sessions of this model are open, which is the most", kSessionsMax);
  }
  if (session->autosave) session->autosave->saver->add(session, [this](Session* s) { return autosave(s); });
  try {
    step_->queue.add(session);
  } catch (...) {
    if (session->autosave) session->autosave->saver->remove(session);
    throw;
  }
  return {};
}

void Engine::close(Session* session) {
  // Destroyed without the lock: its end may end the saver's thread, close the store, or call the host to free the user data of `wake`.
  const std::unique_ptr<Session> ended(session);
  Lock lock(mu_);
  if (session->state == SessionState::kGenerating && !session->generation->finished) stop(session);
  while (session->use.in_step()) step_over_.wait(mu_);  // at most one step: once stopped, it enters no other
  session->use.close();
  if (session->autosave) {
    pressed_.notify_all();
    Unlocked unlocked(mu_);
    last_save(session);
  }
  step_->mailboxes.forget(session);
  step_->queue.remove(session);
}

Result<Session*> Engine::fork(Session* session, std::shared_ptr<Wake> wake) {
  Lock lock(mu_);  // held until the copy is destroyed, on failure: keys are shared
  KVRT_TRY(enter(session, "fork"));
  cache_->boundaries().mark(&session->kv, session->tokens.size());
  cache_->boundaries().mark_end(&session->kv, session->tokens);
  auto copy = std::make_unique<Session>(kv_.shape);
  static_cast<SessionValue&>(*copy) = *session;
  runtime_->env()->random(copy->saved.id.bytes);
  if (session->autosave) {
    copy->autosave = std::make_unique<Autosave>(*session->autosave);
    copy->autosave->policy.name.clear();  // the name belongs to the original
    copy->saved.mark = std::make_unique<SavedSession::Mark>();
  }
  copy->kv.root = session->kv.root;
  copy->kv.share = session->kv.share;
  copy->kv.chain = session->kv.chain;
  copy->kv.marks = session->kv.marks;
  copy->kv.due = session->kv.due;
  copy->kv.asked = session->kv.asked;
  copy->kv.ends = session->kv.ends;
  copy->kv.cut_known = session->kv.cut_known;
  for (size_t g = 0; g < session->kv.tables.size(); ++g) copy->kv.tables[g].grow(session->kv.tables[g].size());
  KVRT_TRY(enlist(copy.get()));  // nothing fails from here on
  copy->wake = std::move(wake);  // not before: the end of the host's user data calls the host, which may not be under the lock
  cache_->share(session->kv, &copy->kv);
  step_->queue.touch(copy.get());
  return copy.release();
}

// Where a call begins that needs an idle session.
Status Engine::enter(Session* session, const char* call) {
  settle(session);
  touched(session);
  return require_ready(*session, call);
}

// After a generation whose caller has gone: its session is idle.
void Engine::take_abandoned(Session* session) {
  session->last_error = error(Code::kNoMemory, Detail::kNone, "the generation ended: the system gave no memory");
  session->mailbox.clear();
  session->failure = Status();
  take_done(session);
}

Status Engine::require_ready(const Session& session, const char* call) const {
  switch (session.state) {
    case SessionState::kIdle:
    case SessionState::kSuspended:
      return {};
    case SessionState::kGenerating:
      return error(Code::kBusy, Detail::kState, "%s: the session is generating; take its events until DONE, or cancel", call);
    case SessionState::kFailed:
      return error(Code::kInvalid, Detail::kState, "%s: the session failed: %s", call, session.last_error.message().c_str());
  }
  return {};
}

// LIMIT where a session of `tokens` tokens and `more` could not be computed, whatever others hold.
Status Engine::check_room(uint64_t tokens, uint64_t more) const {
  const uint64_t n = tokens + more;
  if (n > model_->dims().context || more > model_->dims().context) {
    return error(Code::kLimit, Detail::kNone,
                 "the session would have %llu tokens, the model's context is %u: truncate, or start another session",
                 static_cast<unsigned long long>(n), model_->dims().context);
  }
  const uint64_t units = kv_.shape.units_for(n);
  if (units > cache_->size()) {
    return error(Code::kLimit, Detail::kNone,
                 "%llu tokens need %llu KV blocks, the pool has %u, which hold %llu tokens: truncate or erase, or raise kv_bytes_max of "
                 "model_open",
                 static_cast<unsigned long long>(n), static_cast<unsigned long long>(units), cache_->size(),
                 static_cast<unsigned long long>(kv_.shape.tokens_in(cache_->size())));
  }
  return {};
}

Status Engine::append(Session* session, std::span<const int32_t> tokens) {
  Lock lock(mu_);
  KVRT_TRY(enter(session, "append"));
  if (!tokens.empty()) KVRT_TRY(check_room(session->tokens.size(), tokens.size()));  // before one is read: a wrong count is often huge
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= model_->tokenizer().vocab_size()) {
      return error(Code::kInvalid, Detail::kNone, "append: tokens[%zu] is %d, the vocabulary has %u", i, tokens[i],
                   model_->tokenizer().vocab_size());
    }
  }
  session->tokens.insert(session->tokens.end(), tokens.begin(), tokens.end());
  touched(session);
  return {};
}

Status Engine::append_text(Session* session, std::string_view text, bool parse_special) {
  const Tokenizer& tokenizer = model_->tokenizer();
  const int32_t bos = tokenizer.bos();
  std::vector<int32_t> tokens;
  int32_t previous = -1, first = -1;  // the last token before the text, and the session's first
  {
    Lock lock(mu_);
    KVRT_TRY(enter(session, "append_text"));
    if (!session->tokens.empty()) {
      first = session->tokens.front();
      previous = session->tokens.back();
    } else if (tokenizer.add_bos() && bos >= 0) {
      tokens.push_back(first = previous = bos);
    }
  }
  const size_t begin = tokens.size();
  uint64_t dropped = 0;
  KVRT_TRY(tokenizer.encode(text, parse_special, &tokens, previous, &dropped));
  model_->tell_dropped(dropped);
  // Formats with a BOS before each turn have an end before it.
  if (bos >= 0 && first == bos && tokens.size() > begin && tokens[begin] == bos && !tokenizer.is_end(previous)) model_->tell_second_bos();
  return append(session, tokens);
}

Status Engine::mark(Session* session, uint64_t tokens) {
  Lock lock(mu_);
  KVRT_TRY(enter(session, "mark"));
  const uint64_t n = session->tokens.size();
  if (tokens > n) {
    return error(Code::kInvalid, Detail::kNone, "mark: at %llu tokens, the session has %llu", static_cast<unsigned long long>(tokens),
                 static_cast<unsigned long long>(n));
  }
  const uint64_t at = tokens ? tokens : n;
  const uint64_t beside = check_room(n, 0).is_ok() ? n : at;  // one that is too long has to become shorter first
  const uint64_t needs = kv_.shape.units_for(beside), boundary = kv_.shape.boundary_units();
  if (session->kv.share && boundary > 0 && needs + boundary > cache_->size()) {
    return error(
        Code::kLimit, Detail::kNone,
        "mark: what a boundary keeps takes %llu KV blocks, and %llu tokens %llu, the pool has %u: raise kv_bytes_max of model_open",
        static_cast<unsigned long long>(boundary), static_cast<unsigned long long>(beside), static_cast<unsigned long long>(needs),
        cache_->size());
  }
  cache_->boundaries().mark_asked(&session->kv, at);
  // The token before is asked again where none follows: that goes on from the state before it.
  if (kv_.shape.has_states() && at > 0) cache_->boundaries().mark_asked(&session->kv, at - 1);
  return {};
}

// Changes a copy of the conversation. The session takes it when nothing can fail any more, so that no save has it half changed.
Result<AppendInfo> Engine::edit(Session* session, const char* call, const std::function<Status(Conversation*)>& change) {
  Conversation said;
  {
    Lock lock(mu_);
    KVRT_TRY(enter(session, call));
    said = *session;
  }
  said.dropped = 0;
  KVRT_TRY(change(&said));
  model_->tell_dropped(said.dropped);
  Lock lock(mu_);
  if (said.tokens.size() > session->tokens.size()) KVRT_TRY(check_room(said.tokens.size(), 0));  // a longer one may become shorter
  const AppendInfo info = become(session, std::move(said));
  touched(session);
  return info;
}

Result<AppendInfo> Engine::append_message(Session* session, std::string_view message_json) {
  KVRT_ASSIGN(std::string message, normalize_message(message_json));
  return edit(session, "append_message",
              [&](Conversation* said) { return add_message(*model_, session->arguments, std::move(message), said); });
}

Result<AppendInfo> Engine::set_messages(Session* session, std::string_view messages_json) {
  KVRT_ASSIGN(std::vector<std::string> messages, normalize_messages(messages_json));
  return edit(session, "set_messages",
              [&](Conversation* said) { return replace_messages(*model_, session->arguments, std::move(messages), said); });
}

Status Engine::truncate(Session* session, uint64_t count) {
  const auto change = [&](Conversation* said) -> Status {
    if (count > said->tokens.size()) {
      return error(Code::kInvalid, Detail::kNone, "truncate: to %llu tokens, the session has %zu", static_cast<unsigned long long>(count),
                   said->tokens.size());
    }
    kvrt::truncate(*model_, session->arguments.tools, count, said);
    return {};
  };
  return edit(session, "truncate", change).take_status();
}

Status Engine::erase(Session* session, uint64_t from, uint64_t to) {
  return edit(session, "erase", [&](Conversation* said) { return kvrt::erase(*model_, session->arguments, from, to, said); }).take_status();
}

// Replaces the session's conversation. Keeps the KV of the leading tokens that are the same.
AppendInfo Engine::become(Session* session, Conversation said) noexcept {
  const auto &was = session->tokens, &is = said.tokens;
  const auto same = static_cast<uint64_t>(std::mismatch(was.begin(), was.end(), is.begin(), is.end()).first - was.begin());
  const AppendInfo info{is.size() - same, was.size() - same, same};
  if (info.rewritten) cut_kv(session, same);
  static_cast<Conversation&>(*session) = std::move(said);
  return info;
}

void Engine::cut_kv(Session* session, uint64_t count) {
  Session& s = *session;
  if (s.state == SessionState::kSuspended) s.kv.cut_known = std::max(s.kv.cut_known, s.stored.own_tokens);  // the store has their KV
  cache_->cut(&s.kv, count);
  s.marked = {};  // the marks behind the cut are gone
  if (s.stored.tail_end > count) s.stored.tail_begin = s.stored.tail_end = 0;
  s.stored.resumed_tokens = std::min(s.stored.resumed_tokens, count);
  s.stored.own_tokens = std::min(s.stored.own_tokens, count);
  if (s.stored.other_tokens > count) s.stored.other_tokens = count / s.stored.other->block_tokens * s.stored.other->block_tokens;
  if (s.stored.foreign_tokens > count) s.stored.foreign_tokens = count / kv_.block_tokens() * kv_.block_tokens();
}

std::optional<MessageInfo> Engine::message(const Session* session, uint64_t index) const {
  Lock lock(mu_);
  if (index >= session->messages.size()) return std::nullopt;
  const Message& m = session->messages[index];
  return MessageInfo{m, m.generated && m.begin < m.end && model_->tokenizer().is_end(session->tokens[m.end - 1])};
}

std::vector<int32_t> Engine::tokens(const Session* session) const {
  Lock lock(mu_);
  return session->tokens;
}

SessionInfo Engine::session_info(const Session* session) const {
  Lock lock(mu_);
  SessionInfo info;
  info.state = session->generation && session->generation->abandoned ? SessionState::kIdle : session->state;
  info.tokens = session->tokens.size();
  info.kv_tokens = session->kv.computed(session->tokens.size());
  info.kv_blocks = session->kv.units_held();
  info.kv_bytes = info.kv_blocks * kv_.unit_bytes();
  info.unread = session->mailbox.size();
  info.messages = session->messages.size();
  info.awaits_accept = session->generation && !session->generation->awaited.empty();
  info.inexact = session->stored.inexact;
  info.revision = session->saved.revision;
  info.id = session->saved.id;
  info.name = session->saved.name;
  const std::string& name = info.name.empty() && session->autosave ? session->autosave->policy.name : info.name;
  if (session->store && !name.empty()) info.other_process = session->store->other_process(session->domain, name);
  info.last_error = session->last_error.clone();
  return info;
}

}  // namespace kvrt
