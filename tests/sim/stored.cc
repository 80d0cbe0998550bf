#include "tests/sim/stored.h"

#include <algorithm>

namespace kvrt::test {

// A chunk of number 0 has all layers; a model of one group writes no other.
bool Stored::has(uint32_t stored, size_t group) const { return (stored & 1) != 0 || (windows_.size() > 1 && (stored >> (group + 1) & 1)); }

// Position by position.
uint64_t Stored::missing(const Session& s) const {
  uint64_t end = 0, missing = 0;
  for (const uint64_t n : s.tokens) end += n;
  for (size_t g = 0; g < windows_.size(); ++g) {
    uint64_t position = 0;
    for (size_t i = 0; i < s.tokens.size(); ++i) {
      bool needed = false;
      for (uint64_t t = 0; t < s.tokens[i]; ++t, ++position) needed |= windows_[g] == 0 || position + windows_[g] >= end;
      missing += needed && !has(s.stored[i], g);
    }
  }
  return missing;
}

bool Stored::is_boundary(const Session& s, size_t nodes) const {
  std::vector<uint32_t> stored;  // by position
  for (size_t i = 0; i < nodes; ++i) stored.insert(stored.end(), s.tokens[i], s.stored[i]);
  for (size_t g = 0; g < windows_.size(); ++g) {
    for (size_t p = windows_[g] == 0 || windows_[g] > stored.size() ? 0 : stored.size() - windows_[g]; p < stored.size(); ++p) {
      if (!has(stored[p], g)) return false;
    }
  }
  return true;
}

std::string Stored::read(const SessionStat& stat, Session* out) {
  auto loaded = store_->load(stat.domain, stat.name);
  if (!loaded.is_ok()) return loaded.status().message();
  out->revision = stat.revision;
  out->keys = loaded->keys;
  std::vector<NodeIn> chain;
  size_t at = 0;
  for (size_t i = 0; i < loaded->keys.size(); ++i) {
    out->tokens.push_back(loaded->node_tokens[i]);
    chain.push_back(
        {loaded->keys[i], i ? loaded->keys[i - 1] : loaded->root, std::span(loaded->tokens).subspan(at, loaded->node_tokens[i])});
    at += loaded->node_tokens[i];
  }
  out->stored = store_->find(chain);
  out->missing = missing(*out);
  auto counted = store_->stat(stat.domain, stat.name);
  if (!counted.is_ok()) return counted.status().message();
  if (counted->chunks_missing != out->missing || stat.chunks_missing != out->missing) {
    return "the store counts " + std::to_string(counted->chunks_missing) + " missing chunks, in its list " +
           std::to_string(stat.chunks_missing) + ", and " + std::to_string(out->missing) + " are";
  }
  return "";
}

// True if another session goes on where the first `nodes` of this one end, or ends there.
bool Stored::goes_on(const Sessions& sessions, const Session& session, size_t nodes,
                     const std::pair<std::string, std::string>& saver) const {
  return std::any_of(sessions.begin(), sessions.end(), [&](const auto& other) {
    const Session& o = other.second;
    if (&o == &session || o.keys.size() < nodes || o.keys[nodes - 1] != session.keys[nodes - 1]) return false;
    const bool more =
        std::any_of(o.stored.begin() + static_cast<ptrdiff_t>(nodes), o.stored.end(), [](uint32_t mask) { return mask != 0; });
    return other.first == saver || o.keys.size() == nodes || more;
  });
}

// The nodes up to the last one that has chunks, of those up to the last boundary before: what is saved behind a hole is of no use.
size_t Stored::left_of(const Session& before, const Session& now) const {
  size_t left = now.stored.size();
  while (left > 0 && !is_boundary(before, left)) --left;
  while (left > 0 && now.stored[left - 1] == 0) --left;
  return left;
}

std::string Stored::compare(const Session& before, const Session& now, bool evicted, bool others) {
  for (size_t i = 0; i < now.stored.size(); ++i) {
    if ((before.stored[i] & ~now.stored[i]) == 0) continue;
    if (!evicted) return "a node lost chunks, though none were evicted";
    if (now.stored[i] != 0) return "a node lost the chunks of some groups alone";
  }
  if (now.missing <= before.missing) return "";
  const size_t left = left_of(before, now);
  cut_ += left > 0;
  return is_boundary(now, left) || others ? "" : "what is left of it, " + std::to_string(left) + " nodes, does not end at a boundary";
}

std::string Stored::look(const std::pair<std::string, std::string>& saver) {
  auto list = store_->list("", true);
  if (!list.is_ok()) return list.status().message();
  Sessions now;
  for (const SessionStat& stat : *list) {
    const std::string wrong = read(stat, &now[{stat.domain, stat.name}]);
    if (!wrong.empty()) return stat.name + ": " + wrong;
  }
  const StoreInfo info = store_->info().value();
  const bool forgot = std::exchange(forgotten_, info.chunks_damaged) != info.chunks_damaged;
  const bool evicted = std::exchange(evicted_, info.chunks_evicted) != info.chunks_evicted;
  cut_ = 0;
  for (const auto& [name, session] : now) {
    const auto before = before_.find(name);
    if (forgot || before == before_.end() || before->second.revision != session.revision) continue;
    const size_t left = left_of(before->second, session);
    const std::string wrong = compare(before->second, session, evicted, left > 0 && goes_on(now, session, left, saver));
    if (!wrong.empty()) return name.second + ": " + wrong;
  }
  before_ = std::move(now);
  return "";
}

}  // namespace kvrt::test
