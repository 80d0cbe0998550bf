// Several processes on one store, killed and stopped at random: one order of it all must explain the answers that they had (history.h),
// and the store that they leave must be whole.
//
//   processes [--procs 4] [--ops 2000] [--seeds 20] [--first-seed 1] [--kill-ms 25] [--seconds S]
//
// --ops: of each process; killed ones are followed by new ones. --kill-ms: a kill or a stop so often; 0: none. --seconds: no new seed after
// that. A line of figures a seed, and one for all.
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fault/processes_worker.h"

namespace kvrt::test {
namespace {

constexpr uint64_t kQuota = 700'000;  // of every fourth seed: KV must go for later saves

struct Options {
  uint32_t procs = 4, ops = 2000, kill_ms = 25;
  uint64_t seeds = 20, first_seed = 1, seconds = 0;
};

struct Figures {
  uint64_t kills = 0, stops = 0, deaths_by_own_hand = 0;
};

// The totals of all seeds, in memory that their processes share.
struct Totals {
  uint64_t seeds = 0, calls = 0, kills = 0;
};

// The processes of one seed, and the hand that kills them.
class Crowd {
 public:
  Crowd(const Options& options, uint64_t seed, std::string root, Shared* shared)
      : options_(options), random_(seed), root_(std::move(root)), shared_(shared), pids_(options.procs, 0) {}

  // "" or the fault.
  std::string run(Figures* figures) {
    for (uint32_t slot = 0; slot < options_.procs; ++slot) start(slot);
    next_deed_ns_ = monotonic_ns() + pause_ns();
    uint64_t done = 0;
    int64_t moved_ns = monotonic_ns();
    std::string wrong;
    while (running() > 0 && wrong.empty()) {
      ::usleep(300);
      for (uint32_t slot = 0; slot < options_.procs && wrong.empty(); ++slot) wrong = look_after(slot, figures);
      if (options_.kill_ms != 0 && monotonic_ns() >= next_deed_ns_) strike(figures);
      uint64_t now = 0;
      for (uint32_t slot = 0; slot < options_.procs; ++slot) now += shared_->begun[slot];
      if (now != done) moved_ns = monotonic_ns();
      done = now;
      if (monotonic_ns() - moved_ns > 60'000'000'000) wrong = "nothing moves for a minute, after " + std::to_string(done) + " calls";
    }
    for (pid_t pid : pids_) {
      if (pid == 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    return wrong;
  }

 private:
  void start(uint32_t slot) {
    const uint64_t seed = random_();
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(Worker(slot, seed, options_.ops, root_, shared_).run());
    pids_[slot] = pid;
  }

  size_t running() const {
    size_t n = 0;
    for (pid_t pid : pids_) n += pid != 0;
    return n;
  }

  int64_t pause_ns() { return static_cast<int64_t>(random_() % (2 * uint64_t{options_.kill_ms} * 1'000'000 + 1)); }

  // One that is gone is followed by another, until all calls are made.
  std::string look_after(uint32_t slot, Figures* figures) {
    int status = 0;
    if (pids_[slot] == 0 || ::waitpid(pids_[slot], &status, WNOHANG) != pids_[slot]) return "";
    pids_[slot] = 0;
    shared_->bury(slot);
    if (shared_->wrong[slot][0] != '\0') return shared_->wrong[slot];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      figures->deaths_by_own_hand += !struck_[slot];
      struck_[slot] = false;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return "process " + std::to_string(slot) + " ended with status " + std::to_string(status);
    }
    if (shared_->begun[slot] < options_.ops) start(slot);
    return "";
  }

  // Kills, or now and then stops one for a while: a process that is alive must not be robbed of its locks.
  void strike(Figures* figures) {
    next_deed_ns_ = monotonic_ns() + pause_ns();
    const uint32_t slot = static_cast<uint32_t>(random_() % options_.procs);
    if (pids_[slot] == 0) return;
    if (random_() % 8 == 0) {
      ::kill(pids_[slot], SIGSTOP);
      ::usleep(static_cast<useconds_t>(random_() % 30'000));
      ::kill(pids_[slot], SIGCONT);
      figures->stops++;
    } else {
      struck_[slot] = true;
      ::kill(pids_[slot], SIGKILL);
      figures->kills++;
    }
  }

  const Options& options_;
  std::mt19937_64 random_;
  const std::string root_;
  Shared* const shared_;
  std::vector<pid_t> pids_;
  bool struck_[kSlots] = {};
  int64_t next_deed_ns_ = 0;
};

// The answer to a question that counts something, put to the catalog's file itself.
std::string expect_zero(sqlite3* db, const char* what, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  int64_t count = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
    count = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  return count == 0 ? "" : std::string(what) + ": " + std::to_string(count) + " (" + sqlite3_errmsg(db) + ")";
}

// Reference counts against the references, by SQL of our own.
std::string count_references(const std::string& root) {
  sqlite3* db = nullptr;
  std::string wrong;
  if (sqlite3_open_v2((root + "/catalog.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK) wrong = "the catalog does not open";
  if (wrong.empty()) {
    wrong =
        expect_zero(db, "nodes with a wrong count of references",
                    "SELECT count(*) FROM nodes n WHERE refs != (SELECT count(*) FROM nodes c WHERE c.parent = n.id) + (SELECT count(*) "
                    "FROM sessions s WHERE s.head = n.id)");
  }
  if (wrong.empty()) wrong = expect_zero(db, "nodes that gc left", "SELECT count(*) FROM nodes WHERE refs = 0");
  if (wrong.empty()) {
    wrong = expect_zero(db, "segments with a wrong sum of live bytes",
                        "SELECT count(*) FROM segments g WHERE live != (SELECT sum(bytes) FROM chunks c WHERE c.segment = g.id)");
  }
  sqlite3_close(db);
  return wrong;
}

std::string verify_whole(Store* store) {
  auto faults = store->verify(nullptr);
  if (!faults.is_ok()) return "verify at the end: " + faults.status().message();
  return faults->empty() ? "" : "verify at the end: " + faults->front().where + ": " + faults->front().what;
}

// Every session loads, with all its KV if it is to be whole; verify finds nothing, gc leaves nothing. The history ends with these sights.
std::string look_at_what_is_left(const std::string& root, bool whole, std::vector<Step>* steps) {
  auto opened = open_store(root);
  if (!opened.is_ok()) return "the open at the end: " + opened.status().message();
  Store* store = opened->get();
  std::string wrong = verify_whole(store);
  for (uint32_t name = 0; name < kNames && wrong.empty(); ++name) {
    Step s;
    s.what = What::kLoad;
    s.name = name;
    s.begin_ns = monotonic_ns();
    s.begin_ms = wall_ms();
    auto session = store->load("", name_of(name));
    if (!session.is_ok() && session.status().code() != Code::kNotFound) return "a load at the end: " + session.status().message();
    s.outcome = session.is_ok() ? Outcome::kOk : Outcome::kNotFound;
    if (session.is_ok()) {
      s.got[0] = {session->revision, number_of(session->id), 0, 0, 0, 0, 1};
      tell_tokens(session->tokens, &s.got[0]);
    }
    s.end_ns = monotonic_ns();
    s.end_ms = wall_ms();
    steps->push_back(s);
    if (!session.is_ok() || s.got[0].kind == kNobody) continue;
    const Chain& chain = chain_of(s.got[0].kind, s.got[0].length);
    if (readable_chunks(store, chain) == chain.nodes.size() || !whole) continue;
    auto still = store->load("", name_of(name));  // it may have expired just now
    if (still.is_ok()) wrong = name_of(name) + " has lost KV at the end";
  }
  if (!wrong.empty()) return wrong;
  auto swept = store->gc(nullptr);
  if (!swept.is_ok()) return "gc at the end: " + swept.status().message();
  wrong = verify_whole(store);
  auto info = store->info();
  if (wrong.empty() && (!info.is_ok() || segment_files(root).size() != info->segments))
    wrong = "files that no row names are left after a gc";
  if (wrong.empty() && !std::filesystem::is_empty(root + "/tmp")) wrong = "tmp/ is not empty after a gc";
  opened->reset();
  return wrong.empty() ? count_references(root) : wrong;
}

// One seed, in a process of its own: a process that forks must not have used a store.
int run_seed(const Options& options, uint64_t seed, Totals* totals) {
  const auto start = std::chrono::steady_clock::now();
  TempDir tmp("/dev/shm");
  const std::string root = tmp.path() + "/store";
  const size_t bytes = sizeof(Shared) + (uint64_t{options.procs} * options.ops + kNames * 4) * sizeof(Step);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  Shared* shared = new (memory) Shared;
  shared->steps_max = options.ops;
  shared->disk_bytes_max = seed % 4 == 0 ? kQuota : 0;
  Figures figures;
  std::string wrong = Crowd(options, seed, root, shared).run(&figures);
  std::vector<Step> steps;
  for (uint32_t slot = 0; slot < options.procs; ++slot) {
    for (uint32_t i = 0; i < shared->begun[slot]; ++i) steps.push_back(shared->steps(slot)[i]);
  }
  if (wrong.empty()) wrong = look_at_what_is_left(root, shared->disk_bytes_max == 0, &steps);
  uint64_t states = 0, busy = 0, saves = 0;
  std::vector<double> waits;
  for (const Step& s : steps) {
    busy += s.outcome == Outcome::kBusy;
    saves += s.what == What::kSave && s.outcome == Outcome::kOk;
    if (s.outcome != Outcome::kKilled) waits.push_back(static_cast<double>(s.end_ns - s.begin_ns) * 1e-6);
  }
  if (wrong.empty()) wrong = check_history(steps, &states);
  std::sort(waits.begin(), waits.end());
  totals->seeds++;
  totals->calls += steps.size();
  totals->kills += figures.kills + figures.deaths_by_own_hand;
  const auto ull = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf(
      "seed %llu: %zu calls, %llu saves, %llu kills and %llu at an operation, %llu stops, %llu busy, %llu states; p99 %.1f ms, most "
      "%.0f ms; %s, %.1f s\n",
      ull(seed), steps.size(), ull(saves), ull(figures.kills), ull(figures.deaths_by_own_hand), ull(figures.stops), ull(busy), ull(states),
      waits.empty() ? 0.0 : waits[waits.size() * 99 / 100], waits.empty() ? 0.0 : waits.back(),
      wrong.empty() ? "0 violations" : "1 violation", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (!wrong.empty()) std::printf("seed %llu: %s\n", ull(seed), wrong.c_str());
  std::fflush(stdout);
  return wrong.empty() ? 0 : 1;
}

int usage() {
  std::fprintf(stderr, "usage: processes [--procs 1..%u] [--ops N] [--seeds N] [--first-seed N] [--kill-ms N] [--seconds S]\n", kSlots);
  return 2;
}

}  // namespace
}  // namespace kvrt::test

int main(int argc, char** argv) {
  using namespace kvrt::test;
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    char* rest = nullptr;
    const uint64_t number = i + 1 < argc ? std::strtoull(argv[i + 1], &rest, 10) : 0;
    if (rest == nullptr || rest == argv[i + 1] || *rest != '\0') return usage();
    if (name == "--procs" && number >= 1 && number <= kSlots) {
      options.procs = static_cast<uint32_t>(number);
    } else if (name == "--ops" && number >= 1 && number <= 1'000'000) {
      options.ops = static_cast<uint32_t>(number);
    } else if (name == "--seeds") {
      options.seeds = number;
    } else if (name == "--first-seed") {
      options.first_seed = number;
    } else if (name == "--seconds") {
      options.seconds = number;
    } else if (name == "--kill-ms" && number <= 60'000) {
      options.kill_ms = static_cast<uint32_t>(number);
    } else {
      return usage();
    }
  }
  void* memory = ::mmap(nullptr, sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  Totals* totals = new (memory) Totals;
  const auto start = std::chrono::steady_clock::now();
  int code = 0;
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.seeds && code == 0; ++seed) {
    if (options.seconds != 0 && std::chrono::steady_clock::now() - start > std::chrono::seconds(options.seconds)) break;
    const pid_t pid = ::fork();
    if (pid == 0) std::exit(run_seed(options, seed, totals));
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || status != 0) code = 1;
  }
  const auto ull = [](uint64_t v) { return static_cast<unsigned long long>(v); };
  std::printf("processes: %llu seeds, %llu calls, %llu kills, %d violations\n", ull(totals->seeds), ull(totals->calls), ull(totals->kills),
              code);
  return code;
}
