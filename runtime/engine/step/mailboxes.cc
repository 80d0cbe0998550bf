#include "runtime/engine/step/mailboxes.h"

#include <utility>

namespace kvrt {

void Mailboxes::push(Session* s, Event event) {
  wake(s);
  s->mailbox.push_back(std::move(event));
}

void Mailboxes::push_parts(Session* s, std::string_view text, std::string_view control, bool last) {
  Generation& g = *s->generation;
  if (!g.parser) return;
  std::vector<ReplyPart> parts;
  if (!text.empty()) g.parser->push(text, false, &parts);
  if (!control.empty()) g.parser->push(control, true, &parts);
  if (last) g.parser->finish(&parts);
  for (ReplyPart& part : parts) {
    Event event;
    event.type = part.kind == ReplyPart::Kind::kContent     ? EventType::kContent
                 : part.kind == ReplyPart::Kind::kReasoning ? EventType::kReasoning
                                                            : EventType::kToolCall;
    event.text = std::move(part.text);
    push(s, std::move(event));
  }
}

void Mailboxes::wake(Session* s) {
  if (!s->mailbox.empty() || !s->wake || s->woken) return;
  s->woken = true;
  s->next_woken = std::exchange(woken_, s);
}

std::shared_ptr<Wake> Mailboxes::take_woken() {
  if (!woken_) return nullptr;
  Session* s = std::exchange(woken_, woken_->next_woken);
  s->woken = false;
  return s->wake;
}

void Mailboxes::forget(Session* session) {
  for (Session** at = &woken_; *at; at = &(*at)->next_woken) {
    if (*at != session) continue;
    *at = session->next_woken;
    return;
  }
}

}  // namespace kvrt
