// A bit of a store flips: the store says so, or nothing is different. Every byte of a segment and of FORMAT once, then bits anywhere; and of a
// store whose process was killed, whose catalog lies in the log. There a few bits look like the torn end that a power cut leaves: the log's
// scan says of those that it cannot tell (FORMAT.md).
//
//   bit_flips [RANDOM_FLIPS] [SEED]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "storage/catalog/sqlite_log.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {
namespace {

namespace fs = std::filesystem;

struct Totals {
  uint64_t flips = 0, refused = 0, named = 0, harmless = 0, unclear = 0;
};

class Flips {
 public:
  Flips(bool killed, Totals* totals, std::mt19937_64* random) : killed_(killed), totals_(totals), random_(random) {}

  // Three sessions, two of which share blocks.
  Status make() {
    KVRT_ASSIGN(auto store, open_store(base()));
    uint8_t id = 0;
    for (auto [name, length, kind] : {std::tuple{"ann", 40, 0}, std::tuple{"bob", 75, 0}, std::tuple{"eve", 20, 3}}) {
      auto& chain = chains_[name] = std::make_unique<Chain>(token_run(static_cast<size_t>(length), kind));
      SaveOptions o;
      o.id = ++id;
      KVRT_TRY(save_chain(store.get(), name, *chain, o).take_status());
    }
    if (!killed_) store.reset();
    for (auto& entry : fs::recursive_directory_iterator(base())) {
      const std::string file = fs::relative(entry.path(), base()).string();
      if (!entry.is_regular_file() || file == "reserve" || file == "reserve2" || file == "lock") continue;
      if (file == "catalog.db-shm" || file == "write.lock") continue;
      files_[file] = read_file(entry.path().string());
      bytes_ += files_[file].size();
    }
    return {};
  }

  // "" or the fault.
  std::string flip(const std::string& file, size_t at, int bit) {
    fs::remove_all(work());
    fs::create_directory(work());
    fs::permissions(work(), fs::perms::owner_all);
    for (auto& [name, content] : files_) {
      fs::create_directories(fs::path(work() + "/" + name).parent_path());
      write_file(work() + "/" + name, content);
    }
    std::vector<uint8_t> bytes = files_.at(file);
    bytes[at] ^= static_cast<uint8_t>(1u << bit);
    write_file(work() + "/" + file, bytes);
    totals_->flips++;
    const std::string wrong = look();
    return wrong.empty() ? "" : "bit " + std::to_string(bit) + " of byte " + std::to_string(at) + " of " + file + ": " + wrong;
  }

  std::string flip_all(const std::string& file) {
    for (size_t at = 0; at < files_.at(file).size(); ++at) {
      const std::string wrong = flip(file, at, static_cast<int>((*random_)() % 8));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  std::string flip_any() {
    uint64_t at = (*random_)() % bytes_;
    for (auto& [file, bytes] : files_) {
      if (at < bytes.size()) return flip(file, at, static_cast<int>((*random_)() % 8));
      at -= bytes.size();
    }
    return "";
  }

  const std::string& first_segment() const { return std::find_if(files_.begin(), files_.end(), is_segment)->first; }

 private:
  static bool is_segment(const std::pair<const std::string, std::vector<uint8_t>>& file) { return file.first.ends_with(".seg"); }

  bool unclear() const {
    auto log = posix_env()->open_read(work() + "/catalog.db-wal"), database = posix_env()->open_read(work() + "/catalog.db");
    if (!log.is_ok() || !database.is_ok()) return false;
    auto scan = scan_log(**log, database->get(), false);
    return scan.is_ok() && scan->unclear;
  }

  std::string look() {
    const bool cannot_tell = unclear();
    auto store = open_store(work());
    if (!store.is_ok()) {
      totals_->refused++;
      const Code code = store.status().code();
      return code == Code::kCorrupt || code == Code::kIncompatible ? "" : "open: " + store.status().message();
    }
    auto faults = (*store)->verify(nullptr);  // first: a read forgets the damage that it meets
    if (!faults.is_ok()) return "verify: " + faults.status().message();
    bool whole = true;
    for (auto& [name, chain] : chains_) {
      auto session = (*store)->load("", name);
      whole &= session.is_ok();
      if (session.is_ok() && session->tokens != chain->tokens) return name + " has other tokens";
      for (size_t i = 0; i < chain->nodes.size(); ++i) {
        std::vector<uint8_t> out(chain->payloads[i].size());
        std::string damage;
        const ChunkState state = (*store)->read(chain->nodes[i], 0, 1, out, &damage);
        whole &= state == ChunkState::kOk;
        if (state == ChunkState::kOk && out != chain->payloads[i]) return "chunk " + std::to_string(i) + " of " + name + " has other bytes";
      }
    }
    (faults->empty() ? totals_->harmless : totals_->named)++;
    totals_->unclear += cannot_tell;
    return faults->empty() && !whole && !cannot_tell ? "something is gone, and verify finds nothing" : "";
  }
  std::string base() const { return tmp_.path() + "/base"; }
  std::string work() const { return tmp_.path() + "/work"; }

  bool killed_;  // nothing is folded in
  Totals* totals_;
  std::mt19937_64* random_;
  TempDir tmp_{"/dev/shm"};
  std::map<std::string, std::unique_ptr<Chain>> chains_;
  std::map<std::string, std::vector<uint8_t>> files_;
  uint64_t bytes_ = 0;
};

int run(uint64_t count, uint64_t seed) {
  Totals t;
  std::mt19937_64 random(seed);
  std::string wrong;
  for (bool killed : {false, true}) {
    Flips flips(killed, &t, &random);
    const Status made = flips.make();
    if (!made.is_ok()) wrong = made.message();
    if (wrong.empty() && !killed) wrong = flips.flip_all("FORMAT");
    if (wrong.empty() && !killed) wrong = flips.flip_all(flips.first_segment());
    for (uint64_t i = 0; i < count && wrong.empty(); ++i) wrong = flips.flip_any();
  }
  if (!wrong.empty()) std::fprintf(stderr, "bit_flips: %s\n", wrong.c_str());
  const auto ull = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf("bit flips: %llu, %llu refused at open, %llu named by verify, %llu harmless, %llu unclear, seed %llu, %s\n", ull(t.flips),
              ull(t.refused), ull(t.named), ull(t.harmless), ull(t.unclear), ull(seed), wrong.empty() ? "0 violations" : "1 violation");
  return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kvrt::test

int main(int argc, char** argv) {
  const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  return kvrt::test::run(count, argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}());
}
