// The cost of a store over the life of many conversations: bytes written for the KV that is there in the end, the catalog's size, the time
// of a list, of a save's commit, and of gc's slices. store_life [sessions] [turns] [directory]. One JSON line per figure.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "storage/store/store.h"

namespace kvrt {
namespace {

constexpr size_t kBlockTokens = 32, kTokenBytes = 256;  // of a tiny model: 2 layers of 2 KV heads of 16, f16

void print(const char* what, double value, const char* unit) {
  std::printf("{\"what\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"}\n", what, value, unit);
}

double ms_since(uint64_t start) { return static_cast<double>(posix_env()->now_ns() - start) / 1e6; }

double cpu_ms() {  // of this thread
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// A block's bytes are a function of its key: high bytes that compress, low bytes that do not, the slots after its tokens zero.
void fill(const BlockKey& key, size_t tokens, std::vector<uint8_t>* payload) {
  uint64_t state;
  std::memcpy(&state, key.bytes.data(), sizeof state);
  payload->assign(kBlockTokens * kTokenBytes, 0);
  for (size_t row = 0; row < kTokenBytes / 2; row++) {
    for (size_t t = 0; t < tokens; t++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      uint8_t* element = payload->data() + (row * kBlockTokens + t) * 2;
      element[0] = static_cast<uint8_t>(state >> 33);
      element[1] = static_cast<uint8_t>(0x34 + (state >> 60 & 7));
    }
  }
}

class Life {
 public:
  Life(Store* store, size_t sessions) : store_(store), conversations_(sessions) {}

  Status turn(size_t at) {
    Conversation& c = conversations_[at];
    for (size_t n = 30 + random_() % 271; n > 0; n--) c.tokens.push_back(static_cast<int32_t>(random_() % 1000));
    const std::string name = "conversation " + std::to_string(at);
    std::vector<NodeIn> nodes;
    BlockKey parent;
    parent.bytes.fill(1);
    const BlockKey root = parent;
    for (size_t begin = 0; begin < c.tokens.size(); begin += kBlockTokens) {
      const std::span<const int32_t> part(c.tokens.data() + begin, std::min(kBlockTokens, c.tokens.size() - begin));
      nodes.push_back({chain_key(parent, part), parent, part});
      parent = nodes.back().key;
    }
    KVRT_ASSIGN(auto save, store_->begin_save());
    const std::vector<uint32_t> has = save->has(nodes);
    for (size_t i = 0; i < nodes.size(); i++) {
      if (has[i] != 0) continue;
      fill(nodes[i].key, nodes[i].tokens.size(), &payload_);
      KVRT_TRY(save->put({nodes[i].key, nodes[i].parent, nodes[i].tokens, 1, 2, payload_}));
    }
    SessionIn in;
    in.name = name;
    in.id.bytes[0] = static_cast<uint8_t>(at);
    in.id.bytes[1] = static_cast<uint8_t>(at >> 8);
    in.revision_seen = c.revision;
    in.root = root;
    in.nodes = nodes;
    in.token_count = c.tokens.size();
    in.durability = Durability::kProcess;
    const uint64_t start = posix_env()->now_ns();
    KVRT_ASSIGN(const Saved saved, save->commit(in));
    commits_ms_.push_back(ms_since(start));
    c.revision = saved.revision;
    written_ += save->bytes_written();
    return {};
  }

  Status report(const std::string& root) {
    KVRT_ASSIGN(const StoreInfo info, store_->info());
    size_t tokens = 0;
    for (const Conversation& c : conversations_) tokens += c.tokens.size();
    std::sort(commits_ms_.begin(), commits_ms_.end());
    print("KV there", static_cast<double>(info.chunk_bytes) / 1e6, "MB");
    print("bytes written for each byte of it", static_cast<double>(written_) / static_cast<double>(info.chunk_bytes), "x");
    print("commit, p50", commits_ms_[commits_ms_.size() / 2], "ms");
    print("commit, p95", commits_ms_[commits_ms_.size() * 95 / 100], "ms");
    uint64_t start = posix_env()->now_ns();
    KVRT_ASSIGN(const auto list, store_->list("", true));
    print("list", ms_since(start), "ms");
    for (size_t i = 0; i < conversations_.size(); i += 2) KVRT_TRY(store_->set_ttl("", list[i].name, 1));
    const uint64_t wait = posix_env()->now_ns();
    while (ms_since(wait) < 1100) continue;
    double longest = 0, most_cpu = 0, cpu = cpu_ms();  // a slice may be interrupted: its CPU time is gc's own work
    start = posix_env()->now_ns();
    KVRT_ASSIGN(const GcReport gc, store_->gc([&](uint64_t, uint64_t) {
      longest = std::max(longest, ms_since(start));
      most_cpu = std::max(most_cpu, cpu_ms() - cpu);
      start = posix_env()->now_ns();
      cpu = cpu_ms();
      return true;
    }));
    print("gc of half of them", gc.ms, "ms");
    print("gc, longest slice", longest, "ms");
    print("gc, most CPU time of a slice", most_cpu, "ms");
    print("bytes written, with what gc wrote anew",
          static_cast<double>(written_ + gc.bytes_rewritten) / static_cast<double>(info.chunk_bytes), "x");
    const auto catalog = static_cast<double>(std::filesystem::file_size(root + "/catalog.db"));
    print("catalog, of each token", catalog / static_cast<double>(tokens), "bytes");
    return {};
  }

 private:
  struct Conversation {
    std::vector<int32_t> tokens;
    uint64_t revision = 0;
  };
  Store* store_;
  std::vector<Conversation> conversations_;
  std::mt19937 random_{1};
  std::vector<uint8_t> payload_;
  std::vector<double> commits_ms_;
  uint64_t written_ = 0;
};

Status run(size_t sessions, size_t turns, const std::string& root) {
  KVRT_ASSIGN(auto store, Store::open(posix_env(), nullptr, root, {}));
  Life life(store.get(), sessions);
  const uint64_t start = posix_env()->now_ns();
  for (size_t t = 0; t < turns; t++) {
    for (size_t s = 0; s < sessions; s++) KVRT_TRY(life.turn(s));
    std::fprintf(stderr, "\rturn %zu of %zu", t + 1, turns);
  }
  std::fprintf(stderr, "\n");
  print("all turns", ms_since(start) / 1e3, "s");
  return life.report(root);
}

}  // namespace
}  // namespace kvrt

int main(int argc, char** argv) {
  const size_t sessions = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000, turns = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 50;
  std::string root = argc > 3 ? argv[3] : "/tmp/kvrt-life-XXXXXX";
  if (sessions == 0 || turns == 0 || (argc <= 3 && ::mkdtemp(root.data()) == nullptr)) return 1;
  const kvrt::Status status = kvrt::run(sessions, turns, root);
  if (argc <= 3) std::filesystem::remove_all(root);
  if (status.is_ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
