#include "runtime/engine/session/conversations.h"

#include "runtime/engine/conversation/edit.h"
#include "runtime/engine/session/activity.h"
#include "runtime/text/reply/message.h"

namespace kvrt {

Status Conversations::append(Session* session, std::span<const int32_t> tokens) {
  Lock lock(lock_->mu);
  KVRT_TRY(gate_->enter(session, "append"));
  if (!tokens.empty())
    KVRT_TRY(gate_->check_room(session->tokens.size(), tokens.size()));  // before one is read: a wrong count is often huge
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= model_.tokenizer().vocab_size()) {
      return error(Code::kInvalid, Detail::kNone, "append: tokens[%zu] is %d, the vocabulary has %u", i, tokens[i],
                   model_.tokenizer().vocab_size());
    }
  }
  session->tokens.insert(session->tokens.end(), tokens.begin(), tokens.end());
  note_activity(session, env_);
  return {};
}

Status Conversations::append_text(Session* session, std::string_view text, bool parse_special) {
  const Tokenizer& tokenizer = model_.tokenizer();
  const int32_t bos = tokenizer.bos();
  std::vector<int32_t> tokens;
  int32_t previous = -1, first = -1;  // the last token before the text, and the session's first
  {
    Lock lock(lock_->mu);
    KVRT_TRY(gate_->enter(session, "append_text"));
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
  model_.tell_dropped(dropped);
  // Formats with a BOS before each turn have an end before it.
  if (bos >= 0 && first == bos && tokens.size() > begin && tokens[begin] == bos && !tokenizer.is_end(previous)) model_.tell_second_bos();
  return append(session, tokens);
}

Status Conversations::mark(Session* session, uint64_t tokens) {
  Lock lock(lock_->mu);
  KVRT_TRY(gate_->enter(session, "mark"));
  const uint64_t n = session->tokens.size();
  if (tokens > n) {
    return error(Code::kInvalid, Detail::kNone, "mark: at %llu tokens, the session has %llu", static_cast<unsigned long long>(tokens),
                 static_cast<unsigned long long>(n));
  }
  const uint64_t at = tokens ? tokens : n;
  const uint64_t beside = gate_->check_room(n, 0).is_ok() ? n : at;  // one that is too long has to become shorter first
  const KvShape& shape = cache_->shape();
  const uint64_t needs = shape.units_for(beside), boundary = shape.boundary_units();
  if (session->kv.share && boundary > 0 && needs + boundary > cache_->size()) {
    return error(
        Code::kLimit, Detail::kNone,
        "mark: what a boundary keeps takes %llu units of KV, and %llu tokens %llu, the pool has %u: raise kv_bytes_max of model_open",
        static_cast<unsigned long long>(boundary), static_cast<unsigned long long>(beside), static_cast<unsigned long long>(needs),
        cache_->size());
  }
  cache_->boundaries().mark_asked(&session->kv, at);
  // The token before is asked again where none follows: that goes on from the state before it.
  if (shape.has_states() && at > 0) cache_->boundaries().mark_asked(&session->kv, at - 1);
  return {};
}

// Changes a copy of the conversation. The session takes it when nothing can fail any more, so that no save has it half changed.
Result<AppendInfo> Conversations::edit(Session* session, const char* call, const std::function<Status(Conversation*)>& change) {
  Conversation said;
  {
    Lock lock(lock_->mu);
    KVRT_TRY(gate_->enter(session, call));
    said = *session;
  }
  said.dropped = 0;
  KVRT_TRY(change(&said));
  model_.tell_dropped(said.dropped);
  Lock lock(lock_->mu);
  if (said.tokens.size() > session->tokens.size()) KVRT_TRY(gate_->check_room(said.tokens.size(), 0));  // a longer one may become shorter
  const AppendInfo info = gate_->become(session, std::move(said));
  note_activity(session, env_);
  return info;
}

Result<AppendInfo> Conversations::append_message(Session* session, std::string_view message_json) {
  KVRT_ASSIGN(std::string message, normalize_message(message_json));
  return edit(session, "append_message",
              [&](Conversation* said) { return add_message(model_, session->arguments, std::move(message), said); });
}

Result<AppendInfo> Conversations::set_messages(Session* session, std::string_view messages_json) {
  KVRT_ASSIGN(std::vector<std::string> messages, normalize_messages(messages_json));
  return edit(session, "set_messages",
              [&](Conversation* said) { return replace_messages(model_, session->arguments, std::move(messages), said); });
}

Status Conversations::truncate(Session* session, uint64_t count) {
  const auto change = [&](Conversation* said) -> Status {
    if (count > said->tokens.size()) {
      return error(Code::kInvalid, Detail::kNone, "truncate: to %llu tokens, the session has %zu", static_cast<unsigned long long>(count),
                   said->tokens.size());
    }
    kvrt::truncate(model_, session->arguments.tools, count, said);
    return {};
  };
  return edit(session, "truncate", change).take_status();
}

Status Conversations::erase(Session* session, uint64_t from, uint64_t to) {
  return edit(session, "erase", [&](Conversation* said) { return kvrt::erase(model_, session->arguments, from, to, said); }).take_status();
}

std::optional<MessageInfo> Conversations::message(const Session* session, uint64_t index) const {
  Lock lock(lock_->mu);
  if (index >= session->messages.size()) return std::nullopt;
  const Message& m = session->messages[index];
  return MessageInfo{m, m.generated && m.begin < m.end && model_.tokenizer().is_end(session->tokens[m.end - 1])};
}

std::vector<int32_t> Conversations::tokens(const Session* session) const {
  Lock lock(lock_->mu);
  return session->tokens;
}

}  // namespace kvrt
