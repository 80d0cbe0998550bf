// Generations: begins and ends those of sessions. An end is DONE in the mailbox, a failure for the host's next call, or want of memory.
#pragma once

#include "runtime/engine/step/mailboxes.h"
#include "runtime/engine/step/queue.h"
#include "runtime/engine/step/reports.h"

namespace kvrt {

// Guarded by Engine's lock.
class Generations {
 public:
  // context: the most tokens of a session.
  Generations(uint32_t context, Queue* queue, Reports* reports, Mailboxes* mailboxes)
      : context_(context), queue_(queue), reports_(reports), mailboxes_(mailboxes) {}

  // Begins the one in session->generation.
  void start(Session* session, uint64_t now_ns);
  bool is_full(const Session& session) const { return session.tokens.size() >= context_; }  // there is no room for another token

  void finish(Session* session, Reason reason, uint64_t now_ns);
  void stop(Session* session, uint64_t now_ns);  // cancelled: now, or when the step that the session is in is over
  void cancel_finished(Session* session);        // one can be cancelled as long as its DONE is unread
  void fail(Session* session, Status status);
  // For want of memory, at the session's last token. Needs no memory itself.
  void give_up(Session* session) noexcept;

  uint32_t speculating = 0;                              // generations that are not over, and for which tokens are proposed
  double usual_tokens() const { return usual_tokens_; }  // that an answer has, by those that came

 private:
  void end(Session* session) noexcept;
  void push_done(Session* session, Reason reason, uint64_t now_ns);
  void end_without_done(Session* session) noexcept;

  double usual_tokens_ = 384;  // as agents and chats have on average, before any came
  const uint32_t context_;
  Queue* const queue_;
  Reports* const reports_;
  Mailboxes* const mailboxes_;
};

}  // namespace kvrt
