// Engine: conversations as messages. The template's text decides; tokens that the model sampled are kept as they are.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/engine/loop/engine.h"

namespace kvrt {

namespace {

// The first `count` messages, and one more unless `extra` is empty, as a JSON array.
std::string as_array(const std::vector<Message>& messages, size_t count, std::string_view extra) {
  std::string json = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) json += ',';
    json += messages[i].json;
  }
  if (!extra.empty()) {
    if (count > 0) json += ',';
    json += extra;
  }
  return json + "]";
}

}  // namespace

// Makes the session's tokens say `text`. What the model generated stays token by token while the text before it is the same; the rest is
// tokenized as one, so that a conversation without generated turns equals its template tokenized whole. Under mu_.
Result<AppendInfo> Engine::rewrite_to(Session* session, const std::string& text, size_t* first) {
  Session& s = *session;
  uint64_t pinned = 0;  // tokens up to the end of the last generated message
  for (const Message& m : s.messages) {
    if (m.generated) pinned = m.end;
  }
  // How far the pinned tokens spell the new text, at a token boundary.
  uint64_t kept = !s.tokens.empty() && s.tokens[0] == model_->tokenizer().bos() && model_->adds_bos(text) ? 1 : 0;
  size_t byte = 0, at = 0;
  Utf8Stream utf8;  // a message shows U+FFFD where an answer was cut within a code point
  for (uint64_t i = kept; i < pinned; ++i) {
    std::string piece(utf8.push(model_->tokenizer().piece_after(i ? s.tokens[i - 1] : -1, s.tokens[i], true)));
    if (i + 1 == pinned) piece += utf8.finish();
    if (text.compare(at, piece.size(), piece) != 0) break;
    at += piece.size();
    if (!utf8.pending()) kept = i + 1, byte = at;
  }
  std::vector<int32_t> fresh;
  if (s.tokens.empty() && model_->adds_bos(text)) fresh.push_back(model_->tokenizer().bos());
  int32_t previous = !fresh.empty() ? fresh.back() : kept ? s.tokens[kept - 1] : -1;
  KVRT_TRY(model_->tokenizer().encode(std::string_view(text).substr(byte), true, &fresh, previous));
  auto old = std::span(s.tokens).subspan(kept);
  auto same = static_cast<uint64_t>(std::mismatch(old.begin(), old.end(), fresh.begin(), fresh.end()).first - old.begin());
  AppendInfo info{fresh.size() - same, old.size() - same, kept + same};
  uint64_t base = kept + same;
  if (base + info.appended > s.tokens.size()) KVRT_TRY(check_room(s, base + info.appended - s.tokens.size()));
  s.tokens.reserve(base + info.appended);
  if (info.rewritten) {
    auto messages = s.messages;  // cut drops those that are only rendered otherwise
    cut(session, base);
    s.messages = std::move(messages);
    for (Message& m : s.messages) {  // those that end past the rewrite are looked for again by respan
      if (m.end <= base) continue;
      m = {std::move(m.json), std::min(m.begin, base), base, false};
      *first = std::min(*first, static_cast<size_t>(&m - s.messages.data()));
    }
  }
  s.tokens.insert(s.tokens.end(), fresh.begin() + static_cast<ptrdiff_t>(same), fresh.end());
  return info;
}

// After a rewrite: finds the tokens of the messages from `first` on anew. A message ends where the text of the conversation up to it ends.
void Engine::respan(Session* session, size_t first) {
  auto& messages = session->messages;
  std::vector<size_t> ends;  // in bytes of text
  bool bos = false;
  for (size_t i = first; i < messages.size(); ++i) {
    auto text =
        model_->render(as_array(messages, i + 1, ""), false, session->arguments);  // a template may refuse a part of the conversation
    ends.push_back(text.is_ok() ? text->size() : ends.empty() ? 0 : ends.back());
    bos |= text.is_ok() && model_->adds_bos(*text);
  }
  std::lock_guard lock(mu_);
  uint64_t n = session->tokens.size(), at = bos && n > 0 && session->tokens[0] == model_->tokenizer().bos() ? 1 : 0;
  size_t byte = 0;
  Utf8Stream utf8;  // a message shows U+FFFD where an answer was cut within a code point
  for (size_t i = first; i < messages.size(); ++i) {
    messages[i].begin = i ? messages[i - 1].end : 0;
    while (at < n) {
      Utf8Stream after = utf8;
      size_t next = byte + after.push(model_->tokenizer().piece_after(at ? session->tokens[at - 1] : -1, session->tokens[at], true)).size();
      if (next > ends[i - first]) break;
      byte = next;
      utf8 = std::move(after);
      ++at;
    }
    messages[i].end = std::max(messages[i].begin, std::min(at, n));
  }
}

// Renders the conversation with `message` and makes the session say it. The lock is not held: rendering takes time, and the session is this
// caller's alone.
Result<AppendInfo> Engine::add_message(Session* session, std::string message) {
  KVRT_ASSIGN(std::string text, model_->render(as_array(session->messages, session->messages.size(), message), false, session->arguments));
  std::unique_lock lock(mu_);
  size_t first = session->messages.size();
  KVRT_ASSIGN(AppendInfo info, rewrite_to(session, text, &first));
  uint64_t end = session->tokens.size();
  session->messages.push_back({std::move(message), end - std::min(end, info.appended), end, false});
  lock.unlock();
  if (info.rewritten) respan(session, first);
  return info;
}

Result<AppendInfo> Engine::append_message(Session* session, std::string_view message_json) {
  Editing editing(this, session);
  KVRT_ASSIGN(std::string message, normalize_message(message_json));
  {
    std::lock_guard lock(mu_);
    KVRT_TRY(require(session, "append_message"));
  }
  Restore restore(this, session);
  KVRT_ASSIGN(const AppendInfo info, add_message(session, std::move(message)));
  restore.keep();
  return info;
}

Result<AppendInfo> Engine::set_messages(Session* session, std::string_view messages_json) {
  Editing editing(this, session);
  KVRT_ASSIGN(std::vector<std::string> wanted, normalize_messages(messages_json));
  {
    std::lock_guard lock(mu_);
    KVRT_TRY(require(session, "set_messages"));
  }
  Restore restore(this, session);
  size_t same = 0;
  {
    std::lock_guard lock(mu_);
    auto& messages = session->messages;
    while (same < std::min(wanted.size(), messages.size()) && same_message(wanted[same], messages[same].json)) ++same;
    if (same < messages.size() || messages.empty()) {
      cut(session, same ? messages[same - 1].end : 0);
      messages.resize(same);
    }
  }
  for (size_t i = same; i < wanted.size(); ++i) KVRT_TRY(add_message(session, std::move(wanted[i])).take_status());
  const std::vector<int32_t>&was = restore.before().tokens, &is = session->tokens;  // nobody else changes them
  const auto [parted, at] = std::mismatch(was.begin(), was.end(), is.begin(), is.end());
  const AppendInfo info{static_cast<uint64_t>(is.end() - at), static_cast<uint64_t>(was.end() - parted),
                        static_cast<uint64_t>(parted - was.begin())};
  restore.keep();
  return info;
}

Status Engine::open_turn(Session* session) {
  const auto& messages = session->messages;  // nobody else changes them
  if (messages.empty() || messages.back().generated || messages.back().end != session->tokens.size()) return {};
  KVRT_ASSIGN(std::string text, model_->render(as_array(messages, messages.size(), ""), true, session->arguments));
  std::unique_lock lock(mu_);
  size_t first = session->messages.size();
  KVRT_ASSIGN(AppendInfo info, rewrite_to(session, text, &first));
  lock.unlock();
  if (info.rewritten) respan(session, first);
  return {};
}

// Drops the tokens of an erased span, and with them what only joined its messages to the next one (a newline, say): the rest then says what
// the template makes of the messages that are left.
Status Engine::erase(Session* session, uint64_t from, uint64_t to) {
  Conversation rest;
  {
    std::lock_guard lock(mu_);
    KVRT_TRY(require(session, "erase"));
    KVRT_TRY(check_erase(*session, from, to));
    for (const Message& m : session->messages) {
      if (m.end <= from || m.begin >= to) rest.messages.push_back(m);
    }
  }
  auto next = std::find_if(rest.messages.begin(), rest.messages.end(), [&](const Message& m) { return m.begin >= to; });
  if (next != rest.messages.end() && from < to) {
    auto text = model_->render(as_array(rest.messages, rest.messages.size(), ""), false, session->arguments);
    if (text.is_ok()) to += joint(*session, *text, from, to, next->end);
  }
  std::lock_guard lock(mu_);
  rest.tokens = session->tokens;
  rest.grammar = session->grammar;
  if (rest.grammar.begin >= to) {
    rest.grammar.begin -= to - from;
  } else if (from < to) {
    rest.grammar = {};
  }
  rest.tokens.erase(rest.tokens.begin() + static_cast<ptrdiff_t>(from), rest.tokens.begin() + static_cast<ptrdiff_t>(to));
  for (Message& m : rest.messages) {
    if (m.end <= from) continue;
    m.begin = std::max(m.begin, to) - (to - from);
    m.end -= to - from;
  }
  put_back(session, std::move(rest));
  return {};
}

// How many tokens from `to` on, less than to `end`, have to go as well so that what follows `from` spells `text`; 0 when none do it.
uint64_t Engine::joint(const Session& session, const std::string& text, uint64_t from, uint64_t to, uint64_t end) const {
  auto spelled = [&](uint64_t begin, uint64_t n) {  // as it follows the token at from - 1, or as it follows its own
    uint64_t after = begin >= to ? from : begin;
    return model_->tokenizer().decode(std::span(session.tokens).subspan(begin, n), true, after ? session.tokens[after - 1] : -1);
  };
  uint64_t bos = !session.tokens.empty() && session.tokens[0] == model_->tokenizer().bos() && model_->adds_bos(text) ? 1 : 0;
  size_t before = spelled(bos, from - std::min(bos, from)).size();
  if (before > text.size()) return 0;
  std::string_view wanted = std::string_view(text).substr(before);
  for (uint64_t skip = 0; to + skip < end; ++skip) {
    if (wanted.starts_with(spelled(to + skip, end - to - skip))) return skip;
  }
  return 0;
}

}  // namespace kvrt
