// World: what it does with the store: saves, resumes and removals, a quota, and saves that take the room of others.
#include "tests/sim/world.h"

namespace kvrt::test {

// Opens the store with another quota: so much, or little, more than it takes.
void World::reopen_store() {
  if (!store_) return;
  const std::string path = store_->info()->path;
  StoreOptions options;
  const auto open = [&] {
    store_.reset();
    auto store = runtime_->open_store(runtime_, path, options);
    SIM_CHECK(store.is_ok(), "store: %s", store.status().message().c_str());
    store_ = std::move(store).value();
  };
  open();
  if (!quota_random_.one_in(3)) {
    options.disk_bytes_max = store_->info()->disk_bytes + 20'000 + quota_random_.below(60'000);
    open();
  }
  setting_.quota = options.disk_bytes_max != 0;
}

void World::check_store(const std::string& domain, const std::string& name) {
  if (!stored_) return;
  const uint64_t evicted = stored_->evicted();
  const std::string wrong = stored_->look({domain, name});
  SIM_CHECK(wrong.empty(), "stored %s", wrong.c_str());
  setting_.note("chunks evicted", stored_->evicted() - evicted);
  setting_.note("stored chains cut", stored_->cut());
}

void World::save(Actor* a, bool suspend) {
  if (!a->options.store || !saves_left_ || a->tokens().size() < 10) return;
  --saves_left_;
  std::string name(1, static_cast<char>('a' + random_.below(3)));
  a->save(name, suspend, &saved_[{a->options.domain, name}]);
  check_store(a->options.domain, name);
}

// One more session in a store that has no room for all.
void World::save_for_room(Actor* a) {
  if (!setting_.quota || !a->options.store || a->tokens().size() < 10 || !quota_random_.one_in(6)) return;
  const std::string name(1, static_cast<char>('d' + quota_random_.below(8)));
  a->save(name, false, &saved_[{a->options.domain, name}]);
  check_store(a->options.domain, name);
}

// Another save takes the room that is left, and some of what sessions have; then it is given up.
void World::squeeze() {
  if (!setting_.quota || !quota_random_.one_in(4)) return;
  const Hash256 root = Hasher().add_string("squeeze").finish();
  const std::vector<int32_t> tokens(16, 7);
  for (const bool first : {true, false}) {  // the first takes the log's room and garbage, if that is enough
    const StoreInfo info = store_->info().value();
    if (info.chunk_bytes == 0) break;
    std::vector<uint8_t> payload(info.bytes_free + (first ? 1 : 1 + quota_random_.below(info.chunk_bytes)));
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(quota_random_.next());
    auto save = store_->begin_save(true, {"", "squeeze"});
    SIM_CHECK(save.is_ok(), "begin_save: %s", save.status().message().c_str());
    (void)(*save)->put({chain_key(root, tokens), root, tokens, 1, 1, payload, ChunkCodec::kNone}).is_ok();
  }
  check_store("", "squeeze");
}

std::vector<uint64_t> World::blocks_held() const {
  std::vector<uint64_t> held;
  for (const auto& a : actors_) held.push_back(a->session()->kv.units_held());
  held.push_back(engine_->metrics().evictions);
  return held;
}

void World::resume() {
  if (!store_ || actors_.size() >= kActorsMax) return;
  SessionOptions o = some_session();
  o.store = store_;
  std::string name(1, static_cast<char>('a' + random_.below(3)));
  const Saved& saved = saved_[{o.domain, name}];
  auto bell = some_bell();
  o.wake = bell;
  Report report;
  const std::vector<uint64_t> held = blocks_held();
  auto made = engine_->resumer().resume(o, name, nullptr, &report);
  Code want = saved.exists ? Code::kOk : Code::kNotFound;
  SIM_CHECK(made.status().code() == want, "resume %s of %zu tokens: %s", name.c_str(), saved.tokens.size(),
            made.status().message().c_str());
  if (!made.is_ok()) return;
  if (saved.tokens.size() > size_.room()) SIM_CHECK(held == blocks_held(), "resume of a session that does not fit took blocks");
  actors_.push_back(std::make_unique<Actor>(&setting_, o, bell, *made));
  actors_.back()->resumed(name, saved, report);
}

void World::remove() {
  if (!store_) return;
  std::string domain = random_.one_in(4) ? "other" : "", name(1, static_cast<char>('a' + random_.below(3)));
  Saved& saved = saved_[{domain, name}];
  SIM_CHECK(store_->remove(domain, name).code() == (saved.exists ? Code::kOk : Code::kNotFound), "remove %s", name.c_str());
  if (saved.exists) setting_.note("removals");
  saved.exists = false;
  check_store("", "");
}

}  // namespace kvrt::test
