// Mailboxes: the events of sessions for their hosts, and which hosts are to be woken for them.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/engine/session/session.h"

namespace kvrt {

// Guarded by Engine's lock.
class Mailboxes {
 public:
  void push(Session* session, Event event);
  // Parses more of the answer: the text that a token gave, and the token itself if it is a control token. The parts go into the mailbox.
  void push_parts(Session* session, std::string_view text, std::string_view control, bool last);
  // There is something to take: the session's host is to be woken, unless it has unread events.
  void wake(Session* session);
  std::shared_ptr<Wake> take_woken();  // of one session whose host is to be woken; null: of none
  void forget(Session* session);       // it is closed

 private:
  Session* woken_ = nullptr;  // the first whose host is to be woken; a linked list, which needs no memory
};

}  // namespace kvrt
