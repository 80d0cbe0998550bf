// The simulator: seeds drive random calls over a toy model and the real engine, against a cache-free oracle, with every invariant of the
// blocks checked after each step.
//   sim [--steps N] [--seeds K] [--first SEED]     K seeds of N steps each; some categories of events must occur
//   sim SEED [--steps N] [--trace]                           one seed again
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tests/sim/world.h"

namespace kvrt::test {
namespace {

volatile uint64_t current_seed = 0;

// A call that never comes back.
void on_alarm(int) {
  char text[64];
  int n = std::snprintf(text, sizeof text, "seed %llu: a call does not come back\n", static_cast<unsigned long long>(current_seed));
  (void)!write(STDOUT_FILENO, text, static_cast<size_t>(n));
  _exit(1);
}

// The events that a run of many seeds has to meet.
const char* const kRequired[] = {"evictions",
                                 "holes",
                                 "preemptions",
                                 "not admitted yet",
                                 "waits for another's block",
                                 "copies before a write",
                                 "steps of several sessions",
                                 "paused, unread",
                                 "recomputed",
                                 "appends refused",
                                 "messages refused",
                                 "rewritten",
                                 "generated turns",
                                 "generated turns gone on",
                                 "generated turns kept",
                                 "turns opened",
                                 "conversations set",
                                 "truncations",
                                 "erasures",
                                 "forks",
                                 "accepted",
                                 "cancels",
                                 "undone",
                                 "failed",
                                 "calls refused",
                                 "closed while generating",
                                 "checkpoints",
                                 "checkpoints while generating",
                                 "suspends",
                                 "resumes",
                                 "resumes of what does not fit",
                                 "begins of what does not fit",
                                 "resumes from disk",
                                 "resumes from memory",
                                 "conflicts",
                                 "removals",
                                 "chunks evicted",
                                 "stored chains cut",
                                 "restarts",
                                 "prompts with blocks from disk",
                                 "prompts with blocks from memory",
                                 "proposed",
                                 "accepted proposals",
                                 "proposals of lookup",
                                 "proposals of a draft",
                                 "proposals of a grammar",
                                 "proposals in a grammar's answer",
                                 "proposals in a new block",
                                 "proposals with windows",
                                 "proposals without a block",
                                 "proposals all kept",
                                 "proposals none kept",
                                 "proposals cut by a stop",
                                 "proposals cut by eos",
                                 "fewer proposals for unread events",
                                 "fewer proposals for max_tokens",
                                 "cancelled while proposals are checked",
                                 "steps of a draft",
                                 "done: eos",
                                 "done: stop",
                                 "done: max_tokens",
                                 "done: context full",
                                 "done: cancelled",
                                 "done: prefilled"};

struct Arguments {
  uint64_t steps = 400, seeds = 500, first = 1;
  bool one = false, trace = false;
};

bool run_seed(uint64_t seed, const Arguments& a, const std::string& dir, Counts* counts) {
  current_seed = seed;
  alarm(120);
  std::unique_ptr<World> world;
  try {
    world = std::make_unique<World>(seed, dir, counts, a.trace);
    world->run(a.steps);
    return true;
  } catch (const Failure& f) {
    std::printf("seed %llu, step %llu: %s\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(world ? world->now() : 0), f.what.c_str());
    if (world && a.trace) std::printf("  %s", world->describe().c_str());
    (void)world.release();  // its sessions are as broken as it is
    return false;
  }
}

int run_all(const Arguments& a, const std::string& dir) {
  Counts counts;
  uint64_t failed = 0;
  auto begin = std::chrono::steady_clock::now();
  for (uint64_t seed = a.first; seed < a.first + a.seeds; ++seed) {
    failed += !run_seed(seed, a, dir, &counts);
    std::filesystem::remove_all(dir + "/" + std::to_string(seed));
  }
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const auto& [what, n] : counts) std::printf("  %-32s %llu\n", what.c_str(), static_cast<unsigned long long>(n));
  std::printf("seeds %llu to %llu: %llu steps, %llu failed, %.1f s, %.0f steps/s\n", static_cast<unsigned long long>(a.first),
              static_cast<unsigned long long>(a.first + a.seeds - 1), static_cast<unsigned long long>(counts["calls"]),
              static_cast<unsigned long long>(failed), s, static_cast<double>(counts["calls"]) / s);
  for (const char* what : kRequired) {
    if (a.one || counts[what]) continue;
    std::printf("never: %s\n", what);
    ++failed;
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace kvrt::test

int main(int argc, char** argv) {
  kvrt::test::Arguments a;
  for (int i = 1; i < argc; ++i) {
    auto number = [&] { return i + 1 < argc ? strtoull(argv[++i], nullptr, 10) : 0; };
    if (!strcmp(argv[i], "--steps")) {
      a.steps = number();
    } else if (!strcmp(argv[i], "--seeds")) {
      a.seeds = number();
    } else if (!strcmp(argv[i], "--first")) {
      a.first = number();
    } else if (!strcmp(argv[i], "--trace")) {
      a.trace = true;
    } else {
      a.first = strtoull(argv[i], nullptr, 10);
      a.seeds = 1;
      a.one = true;
    }
  }
  signal(SIGALRM, kvrt::test::on_alarm);
  std::string dir = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/kvrt-sim-XXXXXX" : "kvrt-sim-XXXXXX";
  if (!mkdtemp(dir.data())) return 2;
  int status = kvrt::test::run_all(a, dir);
  std::filesystem::remove_all(dir);
  return status;
}
