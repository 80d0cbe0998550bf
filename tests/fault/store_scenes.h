// The scenes that faults strike in: a store as it lies there, one thing that is done to it, and the worlds to show before and after.
#pragma once

#include <sys/wait.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/fault_env.h"
#include "tests/support/old_schema.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

namespace fs = std::filesystem;

inline constexpr int64_t kSceneLaterMs = 11'000;  // a scene's clock: sessions saved for 10 seconds have expired

struct Chains {
  Chain start{token_run(40)};      // 2 blocks and a tail
  Chain longer{token_run(120)};    // shares 2 blocks with it
  Chain shorter{token_run(20)};    // shares 1
  Chain most{token_run(100)};      // shares 6 of longer's 8
  Chain other{token_run(35, 5)};   // bob's
  Chain unlike{token_run(50, 6)};  // nobody's yet
  Chain heavy{token_run(40, 7), 1024}, heavier{token_run(60, 8), 1024};
};
inline const Chains& chains() {
  static const Chains all;
  return all;
}

struct Expected {
  uint64_t revision = 1;
  const Chain* chain = nullptr;
  bool pinned = false, expires = false;
  bool may_lack_kv = false;
};
using World = std::map<std::string, Expected>;

struct Scene {
  std::string name;
  std::function<Status(const std::string& root)> prepare;  // null: an empty directory
  std::function<Status(Store*)> work;                      // null: nothing
  World before, after;
  bool at_open = false, at_close = false;  // faults strike there too
  bool in_parts = false;                   // several transactions: a failure may leave some of them done, and there is garbage
  bool reads = false;                      // chunks, some of which may not come back
  int64_t clock_offset_ms = 0;
  StoreOptions options = {};
  bool only_kills = false;                        // its errors are those of another scene
  bool durable_kv = false;                        // the save's KV is to be durable: none of it may be left out
  std::function<Status(Store*)> begin = nullptr;  // done on the same handle before faults strike
};

inline Status save_scene(Store* store, const std::string& name, const Chain& chain, uint8_t id, uint64_t seen, Durability durability,
                         uint64_t ttl_seconds = 0) {
  SaveOptions o;
  o.id = id;
  o.revision_seen = seen;
  o.durability = durability;
  o.ttl_seconds = ttl_seconds;
  return save_chain(store, name, chain, o).take_status();
}

// "ann" and "bob", each in a segment of its own: a sync that fails costs all KV of a segment that was not on the disk before.
inline Status prepare_two(const std::string& root) {
  {
    KVRT_ASSIGN(auto store, open_store(root));
    KVRT_TRY(save_scene(store.get(), "ann", chains().start, 1, 0, Durability::kTokens));
  }
  KVRT_ASSIGN(auto store, open_store(root));
  return save_scene(store.get(), "bob", chains().other, 2, 0, Durability::kTokens);
}

// Ann's session has expired, a file lies about that no row names.
inline Status prepare_garbage(const std::string& root) {
  KVRT_TRY(prepare_two(root));
  KVRT_ASSIGN(auto store, open_store(root));
  KVRT_TRY(save_scene(store.get(), "ann", chains().longer, 1, 1, Durability::kTokens, 10));
  return {};
}

// "ann" was saved by a process that was killed: the log is full, an unfinished file lies about.
inline Status prepare_killed(const std::string& root) {
  KVRT_TRY(prepare_two(root));
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = open_store(root);
    if (!store.is_ok() || !save_scene(store->get(), "ann", chains().longer, 1, 1, Durability::kTokens).is_ok()) ::_exit(1);
    write_file(root + "/tmp/left.seg", {1, 2, 3});
    FaultPlan::die();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? Status() : error(Code::kInternal, Detail::kNone, "the child was not killed");
}

// "kim" needs the first block of a segment of eight.
inline Status prepare_sparse(const std::string& root) {
  for (const std::string& at : {root + ".tried", root}) {
    KVRT_ASSIGN(auto store, open_store(at));
    KVRT_TRY(save_scene(store.get(), "ann", chains().longer, 1, 0, Durability::kTokens));
    KVRT_TRY(save_scene(store.get(), "kim", chains().shorter, 2, 0, Durability::kTokens));
    KVRT_TRY(store->remove("", "ann"));
    if (at == root) break;
    KVRT_ASSIGN(GcReport report, store->gc(nullptr));
    if (report.bytes_rewritten == 0) return error(Code::kInternal, Detail::kNone, "nothing was compacted");
  }
  fs::remove_all(root + ".tried");
  return {};
}

// A part of ann's first segment is dead, and less than half.
inline Status prepare_dead(const std::string& root) {
  for (const std::string& at : {root + ".tried", root}) {
    KVRT_ASSIGN(auto store, open_store(at));
    KVRT_TRY(save_scene(store.get(), "ann", chains().longer, 1, 0, Durability::kKv));
    KVRT_TRY(save_scene(store.get(), "ann", chains().most, 1, 1, Durability::kKv));
    if (at == root) break;
    KVRT_ASSIGN(GcReport report, store->gc(nullptr));
    if (report.bytes_punched == 0) return error(Code::kInternal, Detail::kNone, "nothing was punched");
  }
  fs::remove_all(root + ".tried");
  return {};
}

inline constexpr uint64_t kSceneQuota = 138'000;  // for heavy or heavier, not for both

// "ann" has much KV, and must give it to later saves under the quota; "bob" is pinned.
inline Status prepare_heavy(const std::string& root) {
  {
    KVRT_ASSIGN(auto store, open_store(root));
    KVRT_TRY(save_scene(store.get(), "ann", chains().heavy, 1, 0, Durability::kTokens));
  }
  KVRT_ASSIGN(auto store, open_store(root));
  KVRT_TRY(save_scene(store.get(), "bob", chains().other, 2, 0, Durability::kTokens));
  return store->pin("", "bob", true);
}

// A store of an older kvrt, which was killed with rows in the log.
inline Status prepare_old(const std::string& root) {
  KVRT_TRY(prepare_two(root));
  make_schema_2(root);
  return kill_with_log(root, "UPDATE segments SET synced = synced");
}

// Every chunk of it, and each as it was saved.
inline Status resume_whole(Store* store, const std::string& name, const Chain& chain) {
  KVRT_ASSIGN(SessionOut session, store->load("", name));
  EXPECT_EQ(session.tokens, chain.tokens);
  (void)readable_chunks(store, chain);  // a chunk that cannot be had is computed again
  return {};
}

// "zoe" in the handle's open segment, behind the dead frames of another.
inline Status begin_with_dead(Store* store) {
  KVRT_TRY(save_scene(store, "tmp", chains().heavier, 8, 0, Durability::kTokens));
  KVRT_TRY(save_scene(store, "zoe", chains().unlike, 7, 0, Durability::kTokens));
  return store->remove("", "tmp");
}

inline Status verify_clean(Store* store) {
  KVRT_ASSIGN(auto faults, store->verify(nullptr));
  return faults.empty() ? Status() : error(Code::kIo, Detail::kNone, "verify: %s: %s", faults[0].where.c_str(), faults[0].what.c_str());
}

inline std::function<Status(Store*)> saving(const std::string& name, const Chain& chain, uint8_t id, uint64_t seen, Durability durability) {
  return [=, &chain](Store* s) { return save_scene(s, name, chain, id, seen, durability); };
}

// Scenes whose segment is open, and has another session's frames, or dead ones.
inline void add_open_scenes(const World& two, std::vector<Scene>* scenes) {
  const Chains& c = chains();
  World with_zoe = two;
  with_zoe["zoe"] = {1, &c.unlike};
  World grown_beside = with_zoe;
  grown_beside["ann"] = {2, &c.longer};
  for (const Durability durability : {Durability::kTokens, Durability::kKv}) {
    const bool kv = durability == Durability::kKv;
    scenes->push_back({kv ? "SaveBesideKv" : "SaveBeside", prepare_two, saving("ann", c.longer, 1, 1, durability), with_zoe, grown_beside});
    scenes->back().durable_kv = kv;
    scenes->back().begin = saving("zoe", c.unlike, 7, 0, durability);
  }
  scenes->push_back({"SaveBehindDead", prepare_two, saving("ann", c.longer, 1, 1, Durability::kTokens), with_zoe, grown_beside});
  scenes->back().begin = begin_with_dead;
  scenes->push_back({"GcOfTheOpenSegment", prepare_two, [](Store* s) { return s->gc(nullptr).take_status(); }, with_zoe, with_zoe});
  scenes->back().in_parts = true;
  scenes->back().begin = begin_with_dead;
  scenes->push_back(
      {"CloseBehindDead", prepare_two, saving("ann", c.longer, 1, 1, Durability::kTokens), with_zoe, grown_beside, false, true});
  scenes->back().begin = begin_with_dead;
}

inline std::vector<Scene> make_scenes() {
  const Chains& c = chains();
  const World two{{"ann", {1, &c.start}}, {"bob", {1, &c.other}}};
  const auto with = [&](const std::string& name, Expected expected) {
    World world = two;
    world[name] = expected;
    return world;
  };
  const auto without_ann = [&](World more) {
    more["bob"] = two.at("bob");
    return more;
  };
  const World grown = with("ann", {2, &c.longer});
  std::vector<Scene> scenes;
  scenes.push_back({"Create", nullptr, nullptr, {}, {}, true});
  scenes.push_back({"Open", prepare_two, nullptr, two, two, true});
  scenes.push_back({"OpenAfterKill", prepare_killed, nullptr, grown, grown, true});
  scenes.push_back({"Migrate", prepare_old, nullptr, two, two, true});
  scenes.push_back({"SaveNew", prepare_two, saving("eve", c.unlike, 3, 0, Durability::kTokens), two, with("eve", {1, &c.unlike})});
  scenes.push_back({"SaveDelta", prepare_two, saving("ann", c.longer, 1, 1, Durability::kTokens), two, grown});
  scenes.push_back({"SaveDeltaKv", prepare_two, saving("ann", c.longer, 1, 1, Durability::kKv), two, grown});
  scenes.back().durable_kv = true;
  scenes.push_back({"SaveDeltaProcess", prepare_two, saving("ann", c.longer, 1, 1, Durability::kProcess), two, grown});
  scenes.push_back({"SaveDeltaNone", prepare_two, saving("ann", c.longer, 1, 1, Durability::kNone), two, grown});
  scenes[scenes.size() - 2].only_kills = scenes.back().only_kills = true;
  scenes.push_back({"SaveShorter", prepare_two, saving("ann", c.shorter, 1, 1, Durability::kTokens), two, with("ann", {2, &c.shorter})});
  scenes.push_back({"SaveDedup", prepare_two, saving("eve", c.other, 3, 0, Durability::kTokens), two, with("eve", {1, &c.other})});
  scenes.push_back({"SaveDedupKv", prepare_two, saving("eve", c.other, 3, 0, Durability::kKv), two, with("eve", {1, &c.other})});
  scenes.back().durable_kv = true;
  scenes.push_back({"Resume", prepare_two, [&c](Store* s) { return resume_whole(s, "ann", c.start); }, two, two});
  scenes.back().at_open = scenes.back().reads = true;
  scenes.push_back({"Remove", prepare_two, [](Store* s) { return s->remove("", "ann"); }, two, without_ann({})});
  scenes.push_back(
      {"Rename", prepare_two, [](Store* s) { return s->rename("", "ann", "eve"); }, two, without_ann({{"eve", {2, &c.start}}})});
  scenes.push_back({"Pin", prepare_two, [](Store* s) { return s->pin("", "ann", true); }, two, with("ann", {1, &c.start, true})});
  scenes.push_back(
      {"Ttl", prepare_two, [](Store* s) { return s->set_ttl("", "ann", 1000); }, two, with("ann", {1, &c.start, false, true})});
  scenes.push_back(
      {"Gc", prepare_garbage, [](Store* store) { return store->gc(nullptr).take_status(); }, without_ann({}), without_ann({})});
  scenes.back().in_parts = true;
  scenes.back().clock_offset_ms = kSceneLaterMs;
  const World sparse{{"kim", {1, &c.shorter}}};
  scenes.push_back({"Compact", prepare_sparse, [](Store* store) { return store->gc(nullptr).take_status(); }, sparse, sparse});
  scenes.back().in_parts = true;
  const World most{{"ann", {2, &c.most}}};
  scenes.push_back({"Punch", prepare_dead, [](Store* store) { return store->gc(nullptr).take_status(); }, most, most});
  scenes.back().in_parts = true;
  World room{{"ann", {1, &c.heavy, false, false, true}}, {"bob", {1, &c.other, true}}};
  scenes.push_back({"Evict", prepare_heavy, saving("eve", c.heavier, 3, 0, Durability::kTokens), room, room});
  scenes.back().after["eve"] = {1, &c.heavier};
  scenes.back().options.disk_bytes_max = kSceneQuota;
  scenes.push_back({"Verify", prepare_two, verify_clean, two, two});
  scenes.push_back({"Close", prepare_two, saving("ann", c.longer, 1, 1, Durability::kTokens), two, grown, false, true});
  add_open_scenes(two, &scenes);
  return scenes;
}

// "" or the world that the store shows instead. `whole`: with all its KV.
inline std::string compare_world(Store* store, const World& world, bool whole) {
  auto list = store->list("", true);
  if (!list.is_ok()) return "list: " + list.status().message();
  if (list->size() != world.size()) return std::to_string(list->size()) + " sessions, not " + std::to_string(world.size());
  for (const SessionStat& stat : *list) {
    auto expected = world.find(stat.name);
    if (expected == world.end()) return "a session " + stat.name;
    const Expected& e = expected->second;
    auto session = store->load("", stat.name);
    if (!session.is_ok()) return stat.name + ": " + session.status().message();
    if (session->revision != e.revision) return stat.name + " at revision " + std::to_string(session->revision);
    if (session->tokens != e.chain->tokens) return stat.name + " with other tokens";
    if (stat.pinned != e.pinned || (stat.expires_unix_ms != 0) != e.expires) return stat.name + " with another pin or expiry";
    const size_t readable = readable_chunks(store, *e.chain);
    if (whole && !e.may_lack_kv && readable != e.chain->nodes.size()) return stat.name + " with " + std::to_string(readable) + " chunks";
  }
  return "";
}

}  // namespace kvrt::test
