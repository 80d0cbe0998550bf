// The stories of power_cut: the requests to a store, and the sessions that it must have then.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

inline constexpr int64_t kLaterMs = 3'600'000;  // by which the clock goes on at each expiry: sessions that were to expire have

// One session's conversation as it grows; `kind` and `length` tell all.
inline const Chain& chain_of(int kind, size_t length) {
  static std::map<std::pair<int, size_t>, std::unique_ptr<Chain>> made;
  std::unique_ptr<Chain>& chain = made[{kind, length}];
  if (!chain) chain = std::make_unique<Chain>(token_run(length, kind));
  return *chain;
}

struct Known {
  uint64_t revision = 0;
  int kind = 0;
  size_t length = 0;
  uint8_t id = 0;
  bool pinned = false;
  bool kv = false;       // its KV was to be durable
  bool expired = false;  // its pin alone keeps it
};
using World = std::map<std::string, Known>;

// The acts of a story. Each is one call that is acknowledged, but kExpire (an expiry set, then a gc) and kReopen.
enum class Act { kNew, kGrow, kGrowKv, kGrowProcess, kGrowNone, kShareKv, kOverwrite, kRemove, kRename, kPin, kExpire, kReopen, kGc };
inline constexpr Act kActs[] = {Act::kNew,    Act::kGrow,   Act::kGrowKv, Act::kGrowProcess, Act::kGrowNone, Act::kShareKv, Act::kOverwrite,
                                Act::kRemove, Act::kRename, Act::kPin,    Act::kExpire,      Act::kReopen,   Act::kGc};
inline constexpr const char* kActNames[] = {"new",    "grow",   "grow-kv", "grow-process", "grow-none", "share-kv", "overwrite",
                                            "remove", "rename", "pin",     "expire",       "reopen",    "gc"};

inline std::string describe(const std::vector<Act>& story) {
  std::string text;
  for (Act act : story) text += (text.empty() ? "" : ", ") + std::string(kActNames[static_cast<int>(act)]);
  return text;
}

// The oracle and the calls of one story.
class Story {
 public:
  Story(const std::string& root, Env* env) : root_(root), env_(env) {}

  World world;
  std::unique_ptr<Store> store;

  Status open() {
    KVRT_ASSIGN(store, open_store(root_, {}, env_));
    return {};
  }

  Status act(Act what) {
    const std::string first = world.empty() ? "" : world.begin()->first;
    switch (what) {
      case Act::kNew:
        return save("s" + std::to_string(++names_), {0, 10 + names_, 40, ++ids_}, Durability::kTokens, false);
      case Act::kGrow:
        return grow(first, Durability::kTokens);
      case Act::kGrowKv:
        return grow(first, Durability::kKv);
      case Act::kGrowProcess:
        return grow(first, Durability::kProcess);
      case Act::kGrowNone:
        return grow(first, Durability::kNone);
      case Act::kShareKv: {
        if (first.empty()) return {};
        Known known = world[first];
        return save("t" + std::to_string(++names_), {0, known.kind, known.length, ++ids_}, Durability::kKv, false);
      }
      case Act::kOverwrite: {
        if (first.empty()) return {};
        const Known old = world[first];
        return save(first, {old.revision, 40 + ++names_, 50, ++ids_, old.pinned}, Durability::kTokens, true);
      }
      case Act::kRemove:
        if (first.empty()) return {};
        world.erase(first);
        return store->remove("", first);
      case Act::kRename: {
        if (first.empty()) return {};
        const std::string to = "r" + std::to_string(++names_);
        world[to] = world[first];
        world[to].revision++;
        world.erase(first);
        return store->rename("", first, to);
      }
      case Act::kPin: {
        if (first.empty()) return {};
        const bool pinned = world[first].pinned = !world[first].pinned;
        if (world[first].expired) world.erase(first);
        return store->pin("", first, pinned);
      }
      case Act::kExpire: {
        if (first.empty()) return {};
        if (!(world[first].expired = world[first].pinned)) world.erase(first);
        KVRT_TRY(store->set_ttl("", first, 60));
        static_cast<FaultEnv*>(env_)->unix_offset_ms += kLaterMs;
        return store->gc(nullptr).take_status();
      }
      case Act::kGc:
        return store->gc(nullptr).take_status();
      case Act::kReopen:
        store.reset();
        return open();
    }
    return {};
  }

 private:
  Status grow(const std::string& name, Durability durability) {
    if (name.empty()) return {};
    Known known = world[name];
    known.length += 41;
    return save(name, known, durability, false);
  }
  Status save(const std::string& name, Known known, Durability durability, bool overwrite) {
    SaveOptions o;
    o.id = known.id;
    o.revision_seen = known.revision;
    o.overwrite = overwrite;
    o.durability = durability;
    known.revision++;
    known.kv = durability == Durability::kKv;
    known.expired = false;  // a save says anew when that is
    world[name] = known;
    return save_chain(store.get(), name, chain_of(known.kind, known.length), o).take_status();
  }

  std::string root_;
  Env* env_;
  int names_ = 0;
  uint8_t ids_ = 10;
};

}  // namespace kvrt::test
