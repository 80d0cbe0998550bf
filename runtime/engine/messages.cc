// ModelHost: conversations as messages. The template's text decides; tokens that the model sampled are kept as they are.
#include <algorithm>
#include <cstdio>

#include "runtime/base/limits.h"
#include "runtime/engine/messages.h"
#include "runtime/engine/model_host.h"

namespace kvrt {

std::string assistant_message(std::string_view content) {
  std::string json = R"({"role":"assistant","content":")";
  for (char c : content) {
    switch (c) {
      case '"':
        json += "\\\"";
        break;
      case '\\':
        json += "\\\\";
        break;
      case '\n':
        json += "\\n";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
          json += buffer;
        } else {
          json += c;
        }
    }
  }
  return json + "\"}";
}

namespace {

std::string as_array(const std::vector<Message>& messages, std::string_view extra) {
  std::string json = "[";
  for (const Message& m : messages) {
    if (json.size() > 1) json += ',';
    json += m.json;
  }
  if (!extra.empty()) {
    if (json.size() > 1) json += ',';
    json += extra;
  }
  return json + "]";
}

}  // namespace

// Makes the session's tokens say `text`. What the model generated stays token by token while the text before it is the same; the rest is
// tokenized as one, so that a conversation without generated turns equals its template tokenized whole. Under mu_.
Result<AppendInfo> ModelHost::rewrite_to(Session* session, const std::string& text) {
  Session& s = *session;
  uint64_t pinned = 0;  // tokens up to the end of the last generated message
  for (const Message& m : s.messages) {
    if (m.generated) pinned = m.end;
  }
  // How far the pinned tokens spell the new text, at a token boundary.
  bool bos_added = !s.tokens.empty() && tokenizer_->add_bos() && s.tokens[0] == tokenizer_->bos() &&
                   text.rfind(tokenizer_->piece(tokenizer_->bos(), true), 0) != 0;
  uint64_t kept = bos_added ? 1 : 0;
  size_t byte = 0, at = 0;
  Utf8Stream utf8;  // a message shows U+FFFD where an answer was cut within a code point
  for (uint64_t i = kept; i < pinned; ++i) {
    std::string piece(utf8.push(tokenizer_->piece(s.tokens[i], true)));
    if (i + 1 == pinned) piece += utf8.finish();
    if (text.compare(at, piece.size(), piece) != 0) break;
    at += piece.size();
    if (!utf8.pending()) kept = i + 1, byte = at;
  }
  std::vector<int32_t> fresh;
  if (s.tokens.empty() && tokenizer_->add_bos() && tokenizer_->bos() >= 0 &&
      text.rfind(tokenizer_->piece(tokenizer_->bos(), true), 0) != 0) {
    fresh.push_back(tokenizer_->bos());
  }
  KVRT_TRY(tokenizer_->encode(std::string_view(text).substr(byte), true, &fresh));
  auto old = std::span(s.tokens).subspan(kept);
  auto same = static_cast<uint64_t>(std::mismatch(old.begin(), old.end(), fresh.begin(), fresh.end()).first - old.begin());
  AppendInfo info{fresh.size() - same, old.size() - same};
  uint64_t base = kept + same;
  if (base + info.appended > s.tokens.size()) KVRT_TRY(check_room(s, base + info.appended - s.tokens.size()));
  if (info.rewritten) {
    auto messages = s.messages;  // cut drops those that are only rendered otherwise
    cut(session, base);
    s.messages = std::move(messages);
    for (Message& m : s.messages) {
      m.end = std::min(m.end, base);
      m.generated = m.generated && m.begin < m.end;
    }
  }
  s.tokens.insert(s.tokens.end(), fresh.begin() + static_cast<ptrdiff_t>(same), fresh.end());
  return info;
}

Result<AppendInfo> ModelHost::append_message(Session* session, std::string_view message_json) {
  KVRT_ASSIGN(std::string message, normalize_message(message_json));
  std::unique_lock lock(mu_);
  KVRT_TRY(require(*session, "append_message"));
  std::string array = as_array(session->messages, message);
  lock.unlock();  // rendering takes time; the session is this caller's alone
  KVRT_ASSIGN(std::string text, render(array, false, ""));
  lock.lock();
  KVRT_ASSIGN(AppendInfo info, rewrite_to(session, text));
  uint64_t end = session->tokens.size();
  session->messages.push_back({std::move(message), end - std::min(end, info.appended), end, false});
  return info;
}

Status ModelHost::open_turn(Session* session) {
  std::unique_lock lock(mu_);
  if (session->messages.empty() || session->messages.back().generated || session->messages.back().end != session->tokens.size()) return {};
  std::string array = as_array(session->messages, "");
  lock.unlock();
  KVRT_ASSIGN(std::string text, render(array, true, ""));
  lock.lock();
  auto info = rewrite_to(session, text);
  return info.is_ok() ? Status() : info.take_status();
}

}  // namespace kvrt
