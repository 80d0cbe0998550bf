#include "tests/fault/history.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <unordered_set>

namespace kvrt::test {

namespace {

constexpr uint64_t kUnseenId = uint64_t{1} << 63;  // a new id that a killed save was given; ids of the tests are smaller
constexpr size_t kStatesMax = 200'000;

// A name in the model. Gone, it keeps its revision; expired, its row may still hold the id.
struct Slot {
  uint64_t revision = 0, id = 0;
  int64_t expires_from = 0, expires_to = 0;  // the store's expiry is between; 0: never
  int32_t kind = 0;
  uint32_t length = 0, pinned = 0, live = 0;
};

struct State {
  std::array<Slot, kNames> names;
  uint64_t done = 0;  // by slot: the pending call of this process has had its effect
  bool operator==(const State& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(sizeof(State) == kNames * sizeof(Slot) + sizeof(uint64_t) && sizeof(Slot) == 48, "no padding");

struct StateHash {
  size_t operator()(const State& s) const { return std::hash<std::string_view>()({reinterpret_cast<const char*>(&s), sizeof s}); }
};
using States = std::unordered_set<State, StateHash>;

bool can_have_expired(const Slot& s, const Step& at) {
  return s.live && !s.pinned && s.expires_to != 0 && at.end_ms + kClockSlack >= s.expires_from;
}
bool can_be_live(const Slot& s, const Step& at) {
  return s.live && (s.pinned || s.expires_to == 0 || at.begin_ms - kClockSlack <= s.expires_to);
}

void expire(Slot* s) { s->live = 0; }

// The states that the call may have met: sessions of these names may have expired by then.
std::vector<State> aged(const State& before, const Step& at, std::initializer_list<uint32_t> names) {
  std::vector<State> states{before};
  for (uint32_t name : names) {
    std::vector<State> next;
    for (const State& state : states) {
      const Slot& s = state.names[name];
      if (!s.live || can_be_live(s, at)) next.push_back(state);
      if (can_have_expired(s, at)) {
        next.push_back(state);
        expire(&next.back().names[name]);
      }
    }
    states = std::move(next);
  }
  return states;
}

void bury(Slot* s) {
  const uint64_t revision = s->revision;
  *s = Slot();
  s->revision = revision;
}

// Whether the sight is the session of the model. Fills in the values that the model could not know.
bool fits(Slot* s, const Sight& got, bool with_stat) {
  if (!s->live || got.revision != s->revision || got.length != s->length) return false;
  if (got.kind != s->kind && got.kind != kAnybody) return false;
  if (got.id != s->id && s->id < kUnseenId) return false;
  s->id = got.id;
  if (!with_stat) return true;
  if (got.pinned != s->pinned || (got.expires_ms == 0) != (s->expires_to == 0)) return false;
  if (got.expires_ms != 0 && (got.expires_ms < s->expires_from || got.expires_ms > s->expires_to)) return false;
  s->expires_from = s->expires_to = got.expires_ms;
  return true;
}

class Model {
 public:
  Model(const Step& step, uint64_t number) : step_(step), number_(number) {}

  // The states that the store may have after the call, if it gave the answer that the step has.
  std::vector<State> after(const State& before) const {
    std::vector<State> result;
    if (step_.what == What::kList) return list(before);
    const bool rename = step_.what == What::kRename;
    for (State& state : rename ? aged(before, step_, {step_.name, step_.to}) : aged(before, step_, {step_.name})) {
      switch (step_.what) {
        case What::kSave:
          save(state, &result);
          break;
        case What::kRename:
          if (rename_in(&state)) result.push_back(state);
          break;
        default:
          if (single(&state)) result.push_back(state);
          break;
      }
    }
    return result;
  }

 private:
  bool told(Outcome outcome) const { return step_.outcome == outcome || step_.outcome == Outcome::kKilled; }
  int64_t expiry(int64_t now_ms, int64_t slack) const { return step_.ttl_ms != 0 ? now_ms + step_.ttl_ms + slack : 0; }
  void set_expiry(Slot* s) const {
    s->expires_from = expiry(step_.begin_ms, -kClockSlack);
    s->expires_to = expiry(step_.end_ms, kClockSlack);
  }

  std::vector<State> list(const State& before) const {
    State state = before;
    for (uint32_t i = 0; i < kNames; ++i) {
      Slot& s = state.names[i];
      if (step_.got[i].there) {
        if (!can_be_live(s, step_) || !fits(&s, step_.got[i], true)) return {};
      } else if (s.live) {
        if (!can_have_expired(s, step_)) return {};
        expire(&s);
      }
    }
    return {state};
  }

  // Load, stat, remove, pin, ttl: of one session that is there.
  bool single(State* state) const {
    Slot& s = state->names[step_.name];
    if (!s.live) return told(Outcome::kNotFound);
    if (!told(Outcome::kOk)) return false;
    if (step_.what == What::kLoad || step_.what == What::kStat) return fits(&s, step_.got[0], step_.what == What::kStat);
    if (step_.what == What::kRemove) bury(&s);
    if (step_.what == What::kPin) s.pinned = step_.pin;
    if (step_.what == What::kTtl) set_expiry(&s);
    return true;
  }

  bool rename_in(State* state) const {
    Slot &from = state->names[step_.name], &to = state->names[step_.to];
    if (!from.live) return told(Outcome::kNotFound);
    if (to.live) return told(Outcome::kConflict);
    if (!told(Outcome::kOk)) return false;
    const uint64_t revision = std::max(from.revision, to.revision) + 1;
    to = from;
    to.revision = revision;
    bury(&from);
    return true;
  }

  // Compare and set by (id, revision). An id that lives on under another name is replaced.
  void save(const State& before, std::vector<State>* result) const {
    const Slot& old = before.names[step_.name];
    const bool own = old.live && old.id == step_.id;
    if (old.live && !step_.overwrite && !(own && old.revision == step_.revision_seen)) {
      if (told(Outcome::kConflict)) result->push_back(before);
      return;
    }
    if (!told(Outcome::kOk)) return;
    State state = before;
    Slot& s = state.names[step_.name];
    s = Slot();
    s.revision = old.revision + 1;
    s.kind = step_.kind;
    s.length = step_.length;
    s.live = 1;
    s.pinned = step_.pin != 0 ? step_.pin : old.live ? old.pinned : 0;
    set_expiry(&s);
    if (step_.ttl_ms == 0 && old.live) s.expires_from = old.expires_from, s.expires_to = old.expires_to;
    const bool known = step_.outcome == Outcome::kOk;
    if (known && step_.got[0].revision != s.revision) return;
    bool must = false, may = false;  // be taken
    for (const Slot& other : before.names) {
      if (step_.revision_seen == 0 || old.id == step_.id || other.id != step_.id) continue;
      must = must || (other.live && !can_have_expired(other, step_));
      may = true;
    }
    if (!must && (!known || step_.got[0].id == step_.id)) {
      s.id = step_.id;
      result->push_back(state);
    }
    if (may && (!known || step_.got[0].id != step_.id)) {
      s.id = known ? step_.got[0].id : kUnseenId + number_;
      result->push_back(state);
    }
  }

  const Step& step_;
  const uint64_t number_;
};

class Search {
 public:
  explicit Search(const std::vector<Step>& steps) : steps_(steps) { states_.insert(State()); }

  std::string run() {
    struct Event {
      int64_t ns;
      bool end;
      size_t step;
    };
    std::vector<Event> events;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!has_effect(steps_[i])) continue;
      events.push_back({steps_[i].begin_ns, false, i});
      events.push_back({steps_[i].end_ns, true, i});
    }
    // Two at the same moment are at once.
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.ns != b.ns ? a.ns < b.ns : a.end < b.end; });
    for (const Event& e : events) {
      if (!e.end) {
        pending_.push_back(e.step);
        continue;
      }
      std::string wrong = end(e.step);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  uint64_t looked_at() const { return looked_at_; }

 private:
  static uint64_t bit(const Step& s) { return uint64_t{1} << s.slot; }
  // Whether the call may change the store, or was given an answer.
  static bool has_effect(const Step& s) {
    const bool looks = s.what == What::kLoad || s.what == What::kStat || s.what == What::kList;
    return s.what != What::kOther && s.outcome != Outcome::kBusy && !(looks && s.outcome == Outcome::kKilled);
  }

  // Lets pending calls have their effect, in every order, until `step` has had its own.
  void settle(const State& state, size_t step, States* out) {
    if (state.done & bit(steps_[step])) {
      out->insert(state);
      return;
    }
    if (!seen_.insert(state).second) return;
    looked_at_++;
    for (size_t i : pending_) {
      if (state.done & bit(steps_[i])) continue;
      for (State& next : Model(steps_[i], i).after(state)) {
        next.done |= bit(steps_[i]);
        settle(next, step, out);
      }
    }
  }

  std::string end(size_t step) {
    const Step& s = steps_[step];
    States settled;
    seen_.clear();
    for (const State& state : states_) settle(state, step, &settled);
    if (s.outcome == Outcome::kKilled) settled.insert(states_.begin(), states_.end());
    if (settled.empty()) return explain(step);
    if (settled.size() > kStatesMax) return "too many states to look at, at " + describe(s);
    pending_.erase(std::find(pending_.begin(), pending_.end(), step));
    states_.clear();
    for (State state : settled) {
      state.done &= ~bit(s);
      states_.insert(state);
    }
    return "";
  }

  std::string explain(size_t step) const {
    const Step& s = steps_[step];
    std::string text = "no order explains: " + describe(s);
    size_t shown = 0;
    for (const State& state : states_) {
      if (++shown > 4) break;
      text += "\n  it may have met:";
      for (uint32_t name : {s.name, s.to}) {
        const Slot& n = state.names[name];
        char line[200];
        std::snprintf(line, sizeof line, " n%u %s gen %llu id %llx tokens %d/%u pinned %u expires %lld to %lld;", name,
                      n.live ? "is" : "was", static_cast<unsigned long long>(n.revision), static_cast<unsigned long long>(n.id), n.kind,
                      n.length, n.pinned, static_cast<long long>(n.expires_from), static_cast<long long>(n.expires_to));
        text += line;
        if (s.what != What::kRename) break;
      }
    }
    for (size_t i : pending_) text += "\n  meanwhile: " + describe(steps_[i]);
    std::vector<size_t> earlier;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& o = steps_[i];
      const bool touches = o.name == s.name || (o.what == What::kRename && o.to == s.name) || o.what == What::kList;
      if (touches && o.what != What::kOther && o.end_ns < s.begin_ns) earlier.push_back(i);
    }
    std::sort(earlier.begin(), earlier.end(), [&](size_t a, size_t b) { return steps_[a].end_ns > steps_[b].end_ns; });
    for (size_t i = 0; i < std::min<size_t>(earlier.size(), 8); ++i) text += "\n  before: " + describe(steps_[earlier[i]]);
    return text;
  }

  const std::vector<Step>& steps_;
  std::vector<size_t> pending_;
  States states_, seen_;
  uint64_t looked_at_ = 0;
};

}  // namespace

std::string describe(const Step& s) {
  static constexpr const char* kWhat[] = {"save", "load", "stat", "list", "remove", "rename", "pin", "ttl", "other"};
  static constexpr const char* kOutcome[] = {"killed", "OK", "NOT_FOUND", "CONFLICT", "BUSY"};
  char text[400];
  std::snprintf(text, sizeof text, "%s n%u by process %u [%lld, %lld] us", kWhat[static_cast<int>(s.what)], s.name, s.slot,
                static_cast<long long>(s.begin_ns / 1000), static_cast<long long>(s.end_ns / 1000));
  std::string line = text;
  const auto ull = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  const auto ll = [](int64_t v) { return static_cast<long long>(v); };
  if (s.what == What::kRename) line += " to n" + std::to_string(s.to);
  if (s.what == What::kSave) {
    std::snprintf(text, sizeof text, " id %llx gen %llu%s tokens %d/%u pin %u ttl %lld", ull(s.id), ull(s.revision_seen),
                  s.overwrite ? " overwrite" : "", s.kind, s.length, s.pin, ll(s.ttl_ms));
    line += text;
  }
  if (s.what == What::kPin) line += s.pin ? " on" : " off";
  if (s.what == What::kTtl) line += " " + std::to_string(s.ttl_ms);
  line += std::string(": ") + kOutcome[static_cast<int>(s.outcome)];
  if (s.outcome != Outcome::kOk) return line;
  for (uint32_t i = 0; i < (s.what == What::kList ? kNames : 1); ++i) {
    const Sight& g = s.got[i];
    if (s.what != What::kSave && !g.there) continue;
    std::snprintf(text, sizeof text, " {%u: gen %llu id %llx tokens %d/%u pinned %u expires %lld}", s.what == What::kList ? i : s.name,
                  ull(g.revision), ull(g.id), g.kind, g.length, g.pinned, ll(g.expires_ms));
    line += text;
  }
  return line;
}

std::string check_history(const std::vector<Step>& steps, uint64_t* states) {
  Search search(steps);
  std::string wrong = search.run();
  if (states != nullptr) *states = search.looked_at();
  return wrong;
}

}  // namespace kvrt::test
