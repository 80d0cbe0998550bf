// Session: a conversation, its KV, its copy in the store, and its generation. Plain state; the engine and the parts of a step act on it.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/conversation/conversation.h"
#include "runtime/engine/conversation/generation.h"
#include "runtime/engine/session/session_use.h"
#include "runtime/kv/kv_cache.h"
#include "runtime/text/template/chat_template.h"
#include "storage/store/store.h"

namespace kvrt {

class Autosaver;
class ColdChunks;

// The numbers of kvrt.h's enum (asserted in api/kvrt_session.cc).
enum class SessionState : uint32_t { kIdle = 1, kGenerating = 2, kSuspended = 3, kFailed = 4 };

// Tells a host's loop that there is an event to take. ring() is called with no lock held.
class Wake {
 public:
  virtual ~Wake() = default;
  virtual void ring() = 0;
};

// The KV of a session outside of memory: what of it the store has. Why KV is missing, its holes say (KvSequence::why).
struct StoredKv {
  uint64_t disk_tokens = 0;     // loaded from the store since the last report
  bool suspect = false;         // reused KV made logits that are not finite: the store is to forget its chunks
  bool inexact = false;         // some of its KV may be another arithmetic's; its root is then a mixed one
  uint64_t resumed_tokens = 0;  // leading tokens that came from a snapshot, or that a suspend left to one
  uint64_t own_tokens = 0;      // leading tokens whose chunks are its own: its last save or resume named them
  // Its root is one of rounded KV: how its chunks may be, beside the pool's way; null: it is not.
  std::shared_ptr<const ColdChunks> cold;
  // The root of the snapshot whose KV it takes as it is, though another arithmetic made it, and the count of leading tokens under it.
  BlockKey foreign_root;
  uint64_t foreign_tokens = 0;
  // The snapshot that it was resumed from, if that has KV of another root or block size, and its leading tokens: a save keeps those nodes until
  // it has a block of its own, or KV of as many tokens. Null: there is none.
  struct Other {
    BlockKey root;
    uint32_t block_tokens;
  };
  std::shared_ptr<const Other> other;
  uint64_t other_tokens = 0;
  // The tail node in the store: tokens [begin, end) after the full blocks; valid while the session keeps those tokens.
  uint64_t tail_begin = 0, tail_end = 0;
};

// The part of a session that a fork copies whole. Session adds the state of one handle.
struct SessionValue : Conversation {
  std::string domain;
  std::shared_ptr<Store> store;
  TemplateArguments arguments;  // their `now` is the time of its open, so that a date in its prompt stays
  SessionState state = SessionState::kIdle;
  StoredKv stored;
};

// A session's identity in the store, and the state of its last save or resume there.
struct SavedSession {
  SessionId id;
  std::string name;
  uint64_t revision = 0;
  struct Mark {
    BlockKey head;  // the key of all tokens' chain
    uint64_t tokens = 0;
    Hash256 rest;  // of messages, arguments and grammar
    bool operator==(const Mark&) const = default;
  };
  std::unique_ptr<Mark> mark;  // of a session with autosave: one with the same mark, and no new KV, is skipped
  uint64_t blocks = 0;         // full blocks whose KV that save had
};

struct AutosavePolicy {
  bool every_turn = false;
  uint32_t every_tokens = 0, idle_ms = 0;  // 0: off
  std::string name;                        // for a session that has none yet
  bool on() const { return every_turn || every_tokens || idle_ms; }
};

// A session's policy and state for its Autosaver.
struct Autosave {
  AutosavePolicy policy;
  std::shared_ptr<Autosaver> saver;
  bool turn_over = false;                 // since the last look
  uint64_t seen_tokens = 0, seen_kv = 0;  // see note_growth: its tokens at the last save, done or tried, and those with KV
  bool left_out = false;                  // the last save left KV out, and the log has a line of it
  uint64_t active_ns = 0;                 // its last activity; 0: none since it was saved for being idle
};

// It belongs to one handle, whose calls do not overlap. Guarded by Engine's lock, with two exceptions. `store`, `domain` and `arguments` are
// fixed for life: any thread reads them. `tokens` change by a call of the handle, or while it generates by the commit of a step: so a call
// reads them without the lock between generations, and a step's leader while the session is in the step (see StepRunner).
struct Session : SessionValue {
  explicit Session(const KvShape& shape) : kv(shape) {}
  explicit Session(const KvSequence& shared) : kv(shared) {}  // see KvCache::share

  // True while it generates, has room in its mailbox, and waits for no token from its host.
  bool runnable() const {
    return state == SessionState::kGenerating && !generation->finished && generation->awaited.empty() && mailbox.size() < kUnreadEventsMax;
  }
  // True of a generation that wants no logits, where there are states. A row whose logits are wanted has to run, and goes on from the state
  // before it: so the last row is left to what comes after it.
  bool leaves_last() const { return kv.shape.has_states() && !generation->options.wants_logits() && !tokens.empty(); }

  KvSequence kv;  // of `tokens`
  SavedSession saved;
  std::unique_ptr<Store::OpenName> open_name;  // as other processes see it; null: it has no name, or cannot be saved
  SessionUse use;
  std::unique_ptr<Autosave> autosave;  // null: none
  std::unique_ptr<Generation> generation;
  // The model that drafts for it, and what that thinks comes next; null: none did. The leader of a step alone uses them.
  std::shared_ptr<DraftModel> draft_model;
  std::unique_ptr<Draft> draft;
  bool drafts = false;  // it is such a draft's own session, of the model that drafts: nobody's handle has it, no sum counts it
  std::deque<Event> mailbox;
  Status failure;  // the error that ended the generation; next gives it and keeps it in last_error
  Status last_error;
  std::shared_ptr<Wake> wake;  // null: none
  bool woken = false;          // `wake` is to be rung
  Session* next_woken = nullptr;
  uint64_t last_used = 0;                // by the queue's clock, for the order of eviction
  std::pair<uint64_t, uint64_t> marked;  // the count and the last end of the messages whose ends are marked
  Condition changed;
};

}  // namespace kvrt
