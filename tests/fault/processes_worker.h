// One of the processes of processes.cc: its calls on the store, and its diary in memory that outlives it.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "tests/fault/history.h"
#include "tests/fault/power_cut_story.h"

namespace kvrt::test {

inline int64_t monotonic_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}
inline int64_t wall_ms() { return posix_env()->unix_ms(); }

// Before the steps, in memory that all processes of a seed share.
struct Shared {
  uint32_t steps_max = 0;
  uint64_t disk_bytes_max = 0;  // 0: as much as is wanted
  std::atomic<uint32_t> begun[kSlots] = {};
  char wrong[kSlots][2048] = {};

  Step* steps(uint32_t slot) { return reinterpret_cast<Step*>(this + 1) + uint64_t{slot} * steps_max; }
  // The call that the process died in: its end was told to nobody.
  void bury(uint32_t slot) {
    if (begun[slot] == 0) return;
    Step& last = steps(slot)[begun[slot] - 1];
    if (last.end_ns != 0) return;
    last.outcome = Outcome::kKilled;
    last.end_ns = monotonic_ns();
    last.end_ms = wall_ms();
  }
};

inline std::string name_of(uint32_t name) { return "n" + std::to_string(name); }

inline uint64_t number_of(const SessionId& id) {
  uint64_t number;
  std::memcpy(&number, id.bytes, sizeof number);
  return number & ~(uint64_t{1} << 63);  // a drawn id may use all bits; the history's own are above
}

// Kind and length of the tokens of chain_of(), or kNobody.
inline void tell_tokens(const std::vector<int32_t>& tokens, Sight* sight) {
  sight->length = static_cast<uint32_t>(tokens.size());
  sight->kind = tokens.empty() ? 0 : tokens[0] / 100003;
  if (tokens != token_run(tokens.size(), sight->kind)) sight->kind = kNobody;
}

inline Sight sight_of(const SessionStat& stat) {
  return {stat.revision, number_of(stat.id), stat.expires_unix_ms, kAnybody, static_cast<uint32_t>(stat.tokens), stat.pinned, 1};
}

class Worker {
 public:
  Worker(uint32_t slot, uint64_t seed, uint32_t ops, std::string root, Shared* shared)
      : slot_(slot), ops_(ops), root_(std::move(root)), shared_(shared), random_(seed), env_(posix_env(), &plan_) {}

  // The exit code of the process.
  int run() {
    set_sqlite_faults(&plan_);
    reopen();
    while (ok() && shared_->begun[slot_] < ops_) {
      if (pick(40) == 0) plan_.arm(pick(2) ? Fault::kKill : Fault::kTornKill, 1 + pick(60));
      act();
      plan_.disarm();
    }
    store_.reset();
    return ok() ? 0 : 1;
  }

 private:
  struct Handle {
    SessionId id;
    uint64_t revision = 0;
    int kind = 0;
    uint32_t length = 0;
  };

  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool ok() const { return shared_->wrong[slot_][0] == '\0'; }
  void fail(const std::string& what) {
    if (ok()) std::snprintf(shared_->wrong[slot_], sizeof shared_->wrong[slot_], "process %u: %s", slot_, what.c_str());
  }

  Step* begin(What what, uint32_t name) {
    const uint32_t n = shared_->begun[slot_];
    Step* s = &shared_->steps(slot_)[n];
    s->what = what;
    s->slot = slot_;
    s->name = name;
    s->begin_ms = wall_ms();
    s->begin_ns = monotonic_ns();
    shared_->begun[slot_].store(n + 1);
    return s;
  }

  // True if the call went well.
  bool end(Step* s, const Status& status) {
    switch (status.code()) {
      case Code::kOk:
        s->outcome = Outcome::kOk;
        break;
      case Code::kNotFound:
        s->outcome = Outcome::kNotFound;
        break;
      case Code::kConflict:
        s->outcome = Outcome::kConflict;
        break;
      case Code::kBusy:
        s->outcome = Outcome::kBusy;
        break;
      case Code::kNoSpace:
        s->outcome = Outcome::kBusy;
        if (s->what != What::kSave || shared_->disk_bytes_max == 0) fail(describe(*s) + ": " + status.message());
        break;
      default:
        fail(describe(*s) + ": " + code_name(status.code()) + ": " + status.message());
    }
    s->end_ms = wall_ms();
    std::atomic_ref(s->end_ns).store(monotonic_ns());
    return status.is_ok();
  }

  void reopen() {
    store_.reset();
    const int64_t start = monotonic_ns();
    for (;;) {
      StoreOptions options;
      options.disk_bytes_max = shared_->disk_bytes_max;
      auto store = open_store(root_, options, &env_);
      if (store.is_ok()) {
        store_ = std::move(*store);
        return;
      }
      if (store.status().code() != Code::kBusy || monotonic_ns() - start > 20'000'000'000) return fail("open: " + store.status().message());
      ::usleep(1000);
    }
  }

  void act() {
    const uint32_t name = pick(kNames), what = pick(100);
    if (what < 38) {
      save(name);
    } else if (what < 60) {
      resume(name);
    } else if (what < 65) {
      Step* s = begin(What::kStat, name);
      auto stat = store_->stat("", name_of(name));
      if (stat.is_ok()) s->got[0] = sight_of(*stat);
      end(s, stat.status());
    } else if (what < 68) {
      list();
    } else if (what < 76) {
      Step* s = begin(What::kRemove, name);
      end(s, store_->remove("", name_of(name)));
    } else if (what < 83) {
      Step* s = begin(What::kRename, name);
      s->to = pick(kNames);
      end(s, store_->rename("", name_of(name), name_of(s->to)));
    } else if (what < 87) {
      Step* s = begin(What::kPin, name);
      s->pin = pick(2) ? 0 : 1 + pick(3);
      end(s, store_->pin("", name_of(name), static_cast<uint8_t>(s->pin)));
    } else if (what < 91) {
      Step* s = begin(What::kTtl, name);
      s->ttl_ms = 1000 * pick(3);
      end(s, store_->set_ttl("", name_of(name), static_cast<uint64_t>(s->ttl_ms / 1000)));
    } else if (what < 95) {
      Step* s = begin(What::kOther, name);
      end(s, store_->gc(nullptr).take_status());
    } else if (what < 96) {
      verify(name);
    } else {
      Step* s = begin(What::kOther, name);
      reopen();
      end(s, {});
    }
  }

  void verify(uint32_t name) {
    Step* s = begin(What::kOther, name);
    auto faults = store_->verify(nullptr);
    if (faults.is_ok() && !faults->empty()) fail("verify: " + faults->front().where + ": " + faults->front().what);
    end(s, faults.status());
  }

  void list() {
    Step* s = begin(What::kList, 0);
    auto all = store_->list("", true);
    if (all.is_ok()) {
      for (const SessionStat& stat : *all) s->got[static_cast<uint32_t>(stat.name[1] - '0') % kNames] = sight_of(stat);
    }
    end(s, all.status());
  }

  // This process knows a session as of its last look: the others may have changed it.
  bool load(uint32_t name) {
    Step* s = begin(What::kLoad, name);
    auto session = store_->load("", name_of(name));
    if (session.is_ok()) {
      s->got[0].revision = session->revision;
      s->got[0].id = number_of(session->id);
      s->got[0].there = 1;
      tell_tokens(session->tokens, &s->got[0]);
      known_[name] = {session->id, session->revision, s->got[0].kind, s->got[0].length};
      if (s->got[0].kind == kNobody || session->manifest != manifest_of(s->got[0])) fail("mixed states: " + describe(*s));
    } else {
      known_[name] = {};
    }
    return end(s, session.status());
  }

  static std::string text_of(int kind, uint32_t length) { return "of " + std::to_string(kind) + "/" + std::to_string(length); }
  static std::vector<uint8_t> manifest_of(const Sight& sight) {
    const std::string text = text_of(sight.kind, sight.length);
    return {text.begin(), text.end()};
  }

  // Loads and reads all chunks. Others may take them away meanwhile, but then the session has changed; unless room was short.
  void resume(uint32_t name) {
    if (!load(name)) return;
    const Handle was = known_[name];
    const Chain& chain = chain_of(was.kind, was.length);
    size_t holes = 0;
    for (size_t i = 0; i < chain.nodes.size(); ++i) {
      std::vector<uint8_t> out(chain.payloads[i].size());
      std::string damage;
      const ChunkState state = store_->read(chain.nodes[i], 0, 1, out, &damage);
      if (state == ChunkState::kDamaged) fail("a damaged chunk: " + damage);
      if (state == ChunkState::kOk && out != chain.payloads[i]) fail("a chunk with other bytes");
      holes += state == ChunkState::kAbsent;
    }
    if (holes == 0 || shared_->disk_bytes_max != 0 || shared_->begun[slot_] >= ops_ || !load(name)) return;
    const Handle& is = known_[name];
    if (is.revision == was.revision && is.id == was.id) {
      fail("n" + std::to_string(name) + " stayed at revision " + std::to_string(is.revision) + ", and " + std::to_string(holes) +
           " of its " + std::to_string(chain.nodes.size()) + " chunks are not there");
    }
  }

  // A new session, a longer or shorter one, or another one's tokens under an own name; with the revision of the last look.
  void save(uint32_t name) {
    Handle next = known_[name];
    if (next.revision == 0 || pick(6) == 0) {
      next = known_[pick(kNames)];  // a fork
      if (next.length == 0 || pick(3) == 0) next = {{}, 0, 1 + static_cast<int>(pick(5)), 1 + pick(160)};
      next.revision = 0;
      next.id = {};
      const uint64_t number = (random_() >> 2) | 1;
      std::memcpy(next.id.bytes, &number, sizeof number);
    } else {
      next.length = pick(3) ? next.length + 1 + pick(40) : 1 + pick(next.length);
      if (next.length > 200) next.length = 1 + pick(80);
    }
    SaveOptions o;
    o.whole_id = &next.id;
    o.revision_seen = next.revision;
    o.overwrite = pick(8) == 0;
    o.durability = static_cast<Durability>(1 + pick(4));
    o.manifest = text_of(next.kind, next.length);
    o.pin = pick(16) == 0 ? static_cast<uint8_t>(1 + pick(3)) : uint8_t{0};
    o.ttl_seconds = pick(8) == 0 ? 1 + pick(2) : 0;
    const Chain& chain = chain_of(next.kind, next.length);
    Step* s = begin(What::kSave, name);
    s->id = number_of(next.id);
    s->revision_seen = next.revision;
    s->kind = next.kind;
    s->length = next.length;
    s->overwrite = o.overwrite;
    s->pin = o.pin;
    s->ttl_ms = static_cast<int64_t>(o.ttl_seconds) * 1000;
    auto revision = save_chain(store_.get(), name_of(name), chain, &o);
    if (revision.is_ok()) {
      s->got[0].revision = next.revision = *revision;
      next.id = o.saved_id;
      s->got[0].id = number_of(next.id);
      known_[name] = next;
    }
    if (revision.status().code() == Code::kNotFound) fail(describe(*s) + ": " + revision.status().message());
    if (end(s, revision.status()) || revision.status().code() != Code::kConflict) return;
    if (shared_->begun[slot_] < ops_) load(name);
  }

  const uint32_t slot_, ops_;
  const std::string root_;
  Shared* const shared_;
  std::mt19937_64 random_;
  FaultPlan plan_;
  FaultEnv env_;
  std::unique_ptr<Store> store_;
  Handle known_[kNames];
};

}  // namespace kvrt::test
