// Session: a conversation, its KV, what the store holds of it, and what it generates. Plain state; the scheduler and the engine act on it.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <string>

#include "runtime/base/hash.h"
#include "runtime/engine/conversation/conversation.h"
#include "runtime/engine/generation.h"
#include "runtime/engine/session_use.h"
#include "runtime/engine/snapshot/autosave.h"
#include "runtime/kv/kv_cache.h"
#include "runtime/text/template/chat_template.h"
#include "storage/store/store.h"

namespace kvrt {

// The numbers of kvrt.h's enum (asserted in api/session.cc).
enum class SessionState : uint32_t { kIdle = 1, kGenerating = 2, kSuspended = 3, kFailed = 4 };

// Tells a host's loop that there is an event to take. ring() with no lock held.
class Wake {
 public:
  virtual ~Wake() = default;
  virtual void ring() = 0;
};

// Where the KV of a session's tokens may be besides in memory, and what a look there has shown.
struct StoredKv {
  uint64_t disk_tokens = 0;     // loaded from the store since the last report
  bool was_evicted = false;     // the pool took blocks of this session
  bool damaged = false;         // a chunk of it was damaged or missing at the last warm
  bool suspect = false;         // its chunks made logits that are not finite: the store is to be told
  bool not_stored = false;      // resumed, and the store has no chunk for a block of it
  bool other_numerics = false;  // resumed, but its KV is of another root or block size
  uint64_t resumed_tokens = 0;  // leading tokens that came from a snapshot
  uint64_t own_tokens = 0;      // leading tokens whose chunks are its own: its last save or resume named them
  bool inexact = false;         // some of its KV may be of another arithmetic: its root is its own kind's
  // Of the snapshot whose KV it takes as it is, though another arithmetic made it: chunks of so many leading tokens lie under that root.
  BlockKey foreign_root;
  uint64_t foreign_tokens = 0;
  // The tail node in the store: tokens [begin, end) after the full blocks; valid while the session keeps those tokens.
  uint64_t tail_begin = 0, tail_end = 0;
};

// What a session is, whoever holds it: a fork copies it whole. What belongs to one handle is Session's.
struct SessionValue : Conversation {
  std::string domain;
  std::shared_ptr<Store> store;  // fixed for life
  TemplateArguments arguments;   // now: when it was opened, so that a date in its prompt stays
  SessionState state = SessionState::kIdle;
  StoredKv stored;
};

// What the store calls a session, and what its last save or resume left there.
struct SavedSession {
  SessionId id;
  std::string name;
  uint64_t revision = 0;
  // An autosave that would say the same is none.
  struct Mark {
    BlockKey head;  // of the chain of all tokens
    uint64_t tokens = 0, messages = 0;
    bool operator==(const Mark&) const = default;
  } mark;
  uint64_t blocks = 0;  // full ones whose KV that save had
};

// Guarded by Engine's lock, but for what is marked. A session belongs to one handle; calls on it do not overlap.
struct Session : SessionValue {
  explicit Session(uint32_t block_tokens) : kv(block_tokens) {}

  KvSequence kv;  // of `tokens`
  SavedSession saved;
  SessionUse use;
  std::unique_ptr<Autosave> autosave;  // null: none
  std::unique_ptr<Generation> generation;
  std::deque<Event> mailbox;
  Status failure;  // what ended the generation; given by next, then kept in last_error
  Status last_error;
  std::shared_ptr<Wake> wake;  // null: nobody to tell
  bool woken = false;          // it is to be told
  Session* next_woken = nullptr;
  uint64_t last_used = 0;  // of the scheduler's clock: who is evicted first
  std::condition_variable changed;
};

}  // namespace kvrt
