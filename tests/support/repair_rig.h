// A store with many sessions, the record of its saves, and the rules for it after a repair, whatever the damage was.
#pragma once

#include <map>
#include <set>

#include "storage/repair/repair.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

namespace fs = std::filesystem;

struct SavedSession {
  const Chain* chain = nullptr;
  std::string manifest;
  uint64_t revision = 0;
  bool chunks = true;  // its KV was saved
};
using SessionName = std::pair<std::string, std::string>;

// Marked all over, so that every page with a piece of it can be told.
inline std::string long_manifest(const std::string& name, size_t repeats) {
  std::string text;
  for (size_t i = 0; i < repeats; i++) text += "<" + name + ">";
  return text;
}

struct BigStore {
  std::map<SessionName, SavedSession> sessions;
  std::vector<std::unique_ptr<Chain>> chains;  // of every session there ever was
  std::map<SessionName, uint64_t> removed;     // and its last revision

  const Chain& chain(std::vector<int32_t> ids, uint8_t root_byte, const Chain::Items& items = {}) {
    chains.push_back(std::make_unique<Chain>(std::move(ids), 64, root_byte, items));
    return *chains.back();
  }
  void save(Store* store, const SessionName& name, const Chain& of, const std::string& manifest, uint8_t id, bool two_groups) {
    SaveOptions o;
    if (two_groups) o.groups = {0, 5};
    o.domain = name.first;
    o.manifest = manifest;
    o.id = id;
    o.revision_seen = sessions[name].revision;
    auto revision = save_chain(store, name.second, of, o);
    ASSERT_OK(revision.status());
    sessions[name] = {&of, manifest, *revision};
  }
  // Domain "" has root 1, domain "team" root 2. Some sessions share a prefix, some grew, some were renamed or removed. Those of a third of the
  // prefixes have chunks of two groups, and items.
  void fill(Store* store, int count = 30) {
    uint8_t id = 0;
    for (int i = 0; i < count; i++) {
      const SessionName name{i % 5 == 4 ? "team" : "", "s" + std::to_string(i) + "-"};
      const uint8_t root = i % 5 == 4 ? 2 : 1;
      const auto length = static_cast<size_t>(20 + 37 * i % 160);
      const Chain::Items items = i % 3 == 2 ? Chain::Items{one_item(7), {}, one_item(0)} : Chain::Items();
      save(store, name, chain(token_run(length, i % 3), root, items), long_manifest(name.second, i % 6 == 0 ? 1500 : 3), ++id, i % 3 == 2);
      if (i % 4 == 1) save(store, name, chain(token_run(length + 40, i % 3), root, items), long_manifest(name.second, 5), id, i % 3 == 2);
      if (i % 10 == 7) {
        ASSERT_OK(store->remove(name.first, name.second));
        removed[name] = sessions[name].revision;
        sessions.erase(name);
      }
    }
    ASSERT_OK(store->rename("", "s0-", "eve-"));
    sessions[{"", "eve-"}] = sessions[{"", "s0-"}];
    sessions[{"", "eve-"}].revision = 2;
    sessions.erase({"", "s0-"});
    removed[{"", "s0-"}] = 1;
    save_tokens_only(store);
  }
  void save_tokens_only(Store* store) {
    const Chain& of = chain(token_run(100, 9), 1);
    auto save = store->begin_save();
    ASSERT_OK(save.status());
    SessionIn in;
    in.name = "bare-";
    in.id = session_id(200);
    in.root = of.root;
    in.nodes = of.nodes;
    in.token_count = of.tokens.size();
    const std::string manifest = long_manifest("bare-", 3);
    in.manifest = {reinterpret_cast<const uint8_t*>(manifest.data()), manifest.size()};
    ASSERT_OK((*save)->commit(in).status());
    sessions[{"", "bare-"}] = {&of, manifest, 1, false};
  }
};

struct Repaired {
  Status status;
  RepairReport report;
  std::vector<std::string> lines;
};

inline Repaired repair(const std::string& root, Env* env = posix_env()) {
  Repaired out;
  RepairWatch watch;
  watch.note = [&](const std::string& line) {
    out.lines.push_back(line);
    return true;
  };
  auto report = repair_store(env, nullptr, root, watch);
  if (report.is_ok()) out.report = *report;
  out.status = report.take_status();
  return out;
}

inline bool begins_with(const std::vector<int32_t>& tokens, const std::vector<int32_t>& with) {
  return with.size() <= tokens.size() && std::equal(with.begin(), with.end(), tokens.begin());
}

// Verify is clean; a session under its name is exactly as it was saved; another has tokens that somebody saved in this domain. The names that
// are there.
inline std::set<SessionName> expect_repaired(Store* store, const BigStore& saved, const Repaired& repaired) {
  std::set<SessionName> names;
  auto faults = store->verify(nullptr);
  EXPECT_OK(faults.status());
  if (faults.is_ok()) {
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  }
  auto list = store->list("", true);
  EXPECT_OK(list.status());
  if (!list.is_ok()) return names;
  uint64_t recovered = 0;
  for (const SessionStat& stat : *list) {
    auto session = store->load(stat.domain, stat.name);
    EXPECT_OK(session.status());
    if (!session.is_ok()) continue;
    auto known = saved.sessions.find({stat.domain, stat.name});
    if (known == saved.sessions.end()) {
      recovered++;
      EXPECT_EQ(stat.name.rfind("recovered-", 0), 0u) << stat.name;
      EXPECT_TRUE(std::any_of(saved.chains.begin(), saved.chains.end(),
                              [&](auto& chain) { return chain->root == session->root && begins_with(chain->tokens, session->tokens); }))
          << stat.name << " has tokens that nobody saved";
      EXPECT_EQ(session->root.bytes[0], stat.domain == "team" ? 2 : 1) << stat.name << " changed its domain";
      continue;
    }
    names.insert({stat.domain, stat.name});
    EXPECT_EQ(session->tokens, known->second.chain->tokens) << stat.name;
    EXPECT_EQ(std::string(session->manifest.begin(), session->manifest.end()), known->second.manifest) << stat.name;
    EXPECT_EQ(session->revision, known->second.revision) << stat.name;
    const size_t readable = readable_chunks(store, *known->second.chain) + readable_chunks(store, *known->second.chain, 5);
    EXPECT_EQ(readable, stat.chunks) << stat.name;
  }
  if (repaired.report.outcome == RepairReport::Outcome::kRebuilt) {
    EXPECT_EQ(repaired.report.sessions_kept, names.size());
    EXPECT_EQ(repaired.report.sessions_recovered, recovered);
  }
  return names;
}

// name -> bytes of every file below the root but the locks.
inline std::map<std::string, std::vector<uint8_t>> all_files(const std::string& root) {
  std::map<std::string, std::vector<uint8_t>> files;
  for (auto& e : fs::recursive_directory_iterator(root)) {
    if (e.path().extension() == ".lock" || e.path().filename() == "lock" || !e.is_regular_file()) continue;
    files[e.path().string()] = read_file(e.path().string());
  }
  return files;
}

}  // namespace kvrt::test
