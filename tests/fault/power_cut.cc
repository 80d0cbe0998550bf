// Every power cut of every short story: a store does up to three things (save, grow, remove, rename, expire, gc, reopen ...), the power goes
// behind each operation on its files, and each disk that it may leave (op_log.h) is opened. It must open without help, hold exactly what
// was acknowledged or was under way, and never give back a wrong byte. A story of no acts opens a store of an older kvrt:
// a migration.
//
//   power_cut --log DIR     one long story in DIR, and the log of its operations on files, which audit.py holds against the kernel's view
//   power_cut [--depth 0..3] [--exhaustive N] [--parts N] [--states N] [--seconds S] [--seed N] [--shard I/N] [--from STORY]
//
// --exhaustive: up to so many unsynced operations (5) every part of them is tried; --parts: of a cut at most so many. A shard takes every Nth story. One line of figures; the first violation ends it, with the story that shows it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/fault/power_cut_story.h"
#include "tests/support/old_schema.h"

namespace kvrt::test {
namespace {

// Sessions as the store shows them; "" or a fault that they have whatever they should be.
std::string look(Store* store, World* found) {
  auto list = store->list("", true);
  if (!list.is_ok()) return "list: " + list.status().message();
  for (const SessionStat& stat : *list) {
    auto session = store->load("", stat.name);
    if (!session.is_ok()) return "load " + stat.name + ": " + session.status().message();
    Known known;
    known.revision = session->revision;
    known.length = session->tokens.size();
    known.pinned = stat.pinned;
    known.kind = session->tokens.empty() ? 0 : session->tokens[0] / 100003;
    if (session->tokens != chain_of(known.kind, known.length).tokens) return stat.name + " has tokens of nobody";
    (*found)[stat.name] = known;
  }
  return "";
}

bool same_sessions(const World& expected, const World& found) {
  if (expected.size() != found.size()) return false;
  for (auto& [name, known] : expected) {
    auto at = found.find(name);
    if (at == found.end()) return false;
    const Known& is = at->second;
    if (is.revision != known.revision || is.kind != known.kind || is.length != known.length || is.pinned != known.pinned) return false;
  }
  return true;
}

// Reads every chunk: none may have other bytes; all are there if `whole`.
std::string read_all(Store* store, const Chain& chain, bool whole) {
  for (size_t i = 0; i < chain.nodes.size(); ++i) {
    std::vector<uint8_t> out(chain.payloads[i].size());
    std::string damage;
    const ChunkState state = store->read(chain.nodes[i], 0, 1, out, &damage);
    if (state == ChunkState::kOk && out != chain.payloads[i]) return "chunk " + std::to_string(i) + " came back with other bytes";
    if (state != ChunkState::kOk && whole) return "durable chunk " + std::to_string(i) + " is gone: " + damage;
  }
  return "";
}

// `weak`: a power cut may leave such a log where durability was below TOKENS.
std::string catalog_fault(Store* store, bool weak) {
  auto faults = store->verify(nullptr);
  if (!faults.is_ok()) return "verify: " + faults.status().message();
  for (const VerifyFault& fault : *faults) {
    if (weak && fault.where == "catalog.db-wal") continue;
    if (fault.where.compare(0, 5, "segs/") != 0) return fault.where + ": " + fault.what;
  }
  return "";
}

// The rules for a disk after a cut: one of worlds[least ... most], and a store that goes on.
std::string check(const std::string& root, const std::vector<World>& worlds, size_t least, size_t most, bool weak) {
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  env.unix_offset_ms = 4 * kLaterMs;  // after any story
  auto store = open_store(root, {}, &env);
  if (!store.is_ok()) return "open: " + store.status().message();
  World found;
  std::string wrong = look(store->get(), &found);
  if (!wrong.empty()) return wrong;
  std::optional<size_t> at;
  for (size_t i = least; i <= most; ++i) {
    if (same_sessions(worlds[i], found)) at = i;
  }
  if (!at) {
    std::string names;
    for (auto& [name, known] : found) names += " " + name + "@" + std::to_string(known.revision);
    return "sessions that never were together:" + names;
  }
  wrong = catalog_fault(store->get(), weak);
  for (auto& [name, known] : worlds[*at]) {
    if (wrong.empty()) wrong = read_all(store->get(), chain_of(known.kind, known.length), known.kv);
    if (!wrong.empty()) return name + ": " + wrong;
  }
  if (!wrong.empty()) return wrong;
  SaveOptions o;
  o.id = 99;
  const Chain& fresh = chain_of(90, 40);
  Status saved = save_chain(store->get(), "fresh", fresh, o).take_status();
  if (!saved.is_ok()) return "a save afterwards: " + saved.message();
  auto swept = (*store)->gc(nullptr);
  if (!swept.is_ok()) return "gc afterwards: " + swept.status().message();
  wrong = catalog_fault(store->get(), weak);
  if (wrong.empty()) wrong = read_all(store->get(), fresh, true);
  if (!wrong.empty()) return "afterwards: " + wrong;
  auto info = (*store)->info();
  if (!info.is_ok()) return "info: " + info.status().message();
  if (segment_files(root).size() > info->segments) return "files that no row names are left after a gc";
  store->reset();
  auto again = open_store(root, {}, &env);
  if (!again.is_ok()) return "the second open: " + again.status().message();
  World now;
  wrong = look(again->get(), &now);
  if (!wrong.empty()) return "the second open: " + wrong;
  now.erase("fresh");
  return same_sessions(worlds[*at], now) ? "" : "the second open shows other sessions than the first";
}

struct Totals {
  uint64_t stories = 0, operations = 0, cuts = 0, states = 0, states_max = UINT64_MAX;
  uint64_t last = 0, all = 0;  // stories
  size_t exhaustive = 5, parts = SIZE_MAX;
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  bool over() const { return states >= states_max || std::chrono::steady_clock::now() >= end; }
};

// Plays a story and cuts it in its last act; the cuts before are those of shorter stories. "" or the fault.
std::string play(const std::string& dir, const Disk& base, const World& base_world, const std::vector<Act>& acts, uint64_t seed,
                 Totals* t) {
  const std::string root = dir + "/live", copy = dir + "/cut";
  base.write_to(root);
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  env.random_seed = seed;
  OpLog log;
  set_sqlite_faults(&plan);
  plan.record(&log);
  std::vector<World> worlds{base_world};
  std::vector<size_t> began, ended;
  std::vector<bool> durable;
  {
    Story story(root, &env);
    story.world = base_world;
    Status status = story.open();
    for (Act act : acts) {
      began.push_back(log.size());
      if (status.is_ok()) status = story.act(act);
      if (!status.is_ok()) return "the story itself: " + status.message();
      ended.push_back(log.size());
      durable.push_back(act != Act::kGrowProcess && act != Act::kGrowNone && act != Act::kReopen);
      worlds.push_back(story.world);
    }
    plan.record(nullptr);
  }
  set_sqlite_faults(nullptr);
  const bool weak = std::any_of(acts.begin(), acts.end(), [](Act act) { return act == Act::kGrowProcess || act == Act::kGrowNone; });
  PowerCut cuts(base, root, log.take());
  cuts.states_max = t->parts;
  std::string wrong;
  t->stories++;
  const size_t first = began.empty() ? 0 : began.back();
  std::set<std::tuple<uint64_t, size_t, size_t>> seen;
  t->operations += cuts.size() - first;
  cuts.explore(first, t->exhaustive, seed, [&](size_t done, const Disk& disk) {
    if (!wrong.empty() || t->over()) return;
    size_t least = 0, most = 0;
    for (size_t i = 0; i < acts.size(); ++i) {
      if (durable[i] && ended[i] <= done) least = i + 1;
      if (began[i] < done || ended[i] <= done) most = i + 1;
    }
    if (!seen.insert({disk.hash(), least, most}).second) return;  // an operation that did not arrive: the same disk as before it
    disk.write_to(copy);
    t->states++;
    wrong = check(copy, worlds, least, most, weak);
    if (!wrong.empty()) wrong += " (cut behind operation " + std::to_string(done) + " of " + std::to_string(cuts.size()) + ")";
  });
  t->cuts += cuts.size() - first + 1;
  return wrong;
}

// Two sessions whose KV is durable; a's first segment has a tail that nobody needs any more, for gc to punch.
World make_base(const std::string& root) {
  Story story(root, posix_env());
  World world;
  if (!story.open().is_ok()) return world;
  uint8_t id = 1;
  for (auto [name, kind, length, revision] : {std::tuple{"a", 1, size_t{36}, uint64_t{1}}, std::tuple{"b", 2, size_t{35}, uint64_t{1}},
                                              std::tuple{"a", 1, size_t{40}, uint64_t{2}}}) {
    SaveOptions o;
    o.id = revision == 1 ? id++ : world[name].id;
    o.revision_seen = revision - 1;
    o.durability = Durability::kKv;
    if (!save_chain(story.store.get(), name, chain_of(kind, length), o).is_ok()) return {};
    world[name] = {revision, kind, length, o.id, false, true};
  }
  return world;
}

int run(size_t depth, uint64_t seed, uint64_t shard, uint64_t shards, uint64_t from, Totals* t) {
  TempDir tmp("/dev/shm");
  const World world = make_base(tmp.path() + "/base");
  if (world.size() != 2) return std::fprintf(stderr, "power_cut: the base store could not be made\n"), 1;
  const Disk base = Disk::of(tmp.path() + "/base");
  constexpr size_t kinds = std::size(kActs);
  uint64_t stories = 1, number = 0;
  if (depth == 0) {
    t->all = t->last = 1;
    make_schema_2(tmp.path() + "/base");
    const std::string wrong = play(tmp.path(), Disk::of(tmp.path() + "/base"), world, {}, seed, t);
    if (!wrong.empty()) return std::fprintf(stderr, "power_cut: a migration: %s\n", wrong.c_str()), 1;
  }
  for (size_t length = 1; length <= depth; ++length) {
    stories *= kinds;
    t->all += stories;
    for (uint64_t i = 0; i < stories && !t->over(); ++i) {
      if (number++ < from || number % shards != shard) continue;
      t->last = number;
      std::vector<Act> acts;
      for (uint64_t rest = i, n = 0; n < length; ++n, rest /= kinds) acts.push_back(kActs[rest % kinds]);
      const std::string wrong = play(tmp.path(), base, world, acts, seed + number, t);
      if (wrong.empty()) continue;
      std::fprintf(stderr, "power_cut: %s\n  story: %s\n  seed: %llu\n", wrong.c_str(), describe(acts).c_str(),
                   static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  return 0;
}

// Every act, twice, in `root`; the log, a line an operation.
int print_log(const std::string& root) {
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  OpLog log;
  set_sqlite_faults(&plan);
  plan.record(&log);
  Story story(root, &env);
  Status status = story.open();
  for (int i = 0; i < 2; ++i) {
    for (Act act : kActs) {
      if (status.is_ok()) status = story.act(act);
    }
  }
  story.store.reset();
  plan.record(nullptr);
  if (!status.is_ok()) return std::fprintf(stderr, "power_cut: %s\n", status.message().c_str()), 1;
  constexpr const char* kNames[] = {"mkdir", "create", "write", "truncate", "sync", "syncdir", "rename", "unlink"};
  for (const DiskOp& op : log.take()) std::printf("%s %s\n", kNames[static_cast<int>(op.kind)], op.path.c_str());
  return 0;
}

}  // namespace
}  // namespace kvrt::test

int main(int argc, char** argv) {
  using namespace kvrt::test;
  size_t depth = 1;
  uint64_t seed = 1, shard = 0, shards = 1, from = 0;
  Totals t;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[++i] : "";
    char* rest = nullptr;
    const uint64_t number = std::strtoull(value, &rest, 10);
    bool good = rest != value && (*rest == '\0' || name == "--shard");
    if (name == "--depth" && number <= 3) {
      depth = number;
    } else if (name == "--log" && *value == '/' && argc == 3) {
      return print_log(value);
    } else if (name == "--exhaustive" && number <= 16) {
      t.exhaustive = number;
    } else if (name == "--parts" && number > 1) {
      t.parts = number;
    } else if (name == "--states") {
      t.states_max = number;
    } else if (name == "--seconds") {
      t.end = start + std::chrono::seconds(number);
    } else if (name == "--seed") {
      seed = number;
    } else if (name == "--from") {
      from = number;
    } else if (name == "--shard" && *rest == '/') {
      shard = number;
      shards = std::strtoull(rest + 1, nullptr, 10);
      good = shard < shards;
    } else {
      good = false;
    }
    if (!good)
      return std::fprintf(
                 stderr,
                 "usage: power_cut --log DIR | [--depth 0..3] [--exhaustive N] [--parts N] [--states N] [--seconds S] [--seed N] [--shard "
                 "I/N] [--from STORY]\n"),
             2;
  }
  const int code = run(depth, seed, shard, shards, from, &t);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto ull = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf("power cuts: %llu stories, %llu operations, %llu cuts, %llu states, %s, %.0f s; next story %llu of %llu\n", ull(t.stories),
              ull(t.operations), ull(t.cuts), ull(t.states), code == 0 ? "0 violations" : "1 violation", seconds,
              ull(t.over() && t.last > 0 ? t.last - 1 : t.last), ull(t.all));
  return code;
}
