#include "runtime/engine/speculation/token_lookup.h"

#include <algorithm>

namespace kvrt {

namespace {
constexpr uint32_t kCandidates = 64;  // places that are compared
constexpr uint32_t kNear = 96;        // tokens that an edit may skip or insert, and the copy goes on
constexpr int32_t kNoToken = -1;
constexpr size_t kHeadsMin = 1024;
}  // namespace

TokenLookup::TokenLookup(std::span<const int32_t> before) : heads_(kHeadsMin, kNone) {
  add(before);
  if (before.empty()) return;
  all_.push_back(kNoToken);
  older_.push_back(kNone);
  before_ = all_.size();
}

uint32_t& TokenLookup::chain_of(int32_t first, int32_t second) {
  const uint64_t pair = uint64_t{static_cast<uint32_t>(first)} << 32 | static_cast<uint32_t>(second);
  return heads_[(pair * 0x9e3779b97f4a7c15ull >> 32) % heads_.size()];
}

void TokenLookup::index(uint32_t at) {
  older_.push_back(kNone);
  if (at == 0) return;
  uint32_t& head = chain_of(all_[at - 1], all_[at]);
  older_[at] = head;
  head = at;
}

void TokenLookup::grow() {
  heads_.assign(heads_.size() * 4, kNone);
  older_.clear();
  for (uint32_t at = 0; at < all_.size(); ++at) index(at);
}

void TokenLookup::add(std::span<const int32_t> tokens) {
  for (size_t i = all_.size() - before_; i < tokens.size(); ++i) {
    all_.push_back(tokens[i]);
    index(static_cast<uint32_t>(all_.size() - 1));
    if (all_.size() > heads_.size()) grow();
  }
}

TokenLookup::Match TokenLookup::find(std::span<const int32_t> ahead) {
  // The last tokens, the latest first.
  const auto last = [&](uint32_t i) { return i < ahead.size() ? ahead[ahead.size() - 1 - i] : all_[all_.size() - 1 - (i - ahead.size())]; };
  const auto total = static_cast<uint32_t>(all_.size() + ahead.size());
  if (total < 2) return {};
  Match best;
  uint32_t best_place = kNone;
  bool best_near = false;
  uint32_t candidates = kCandidates;
  for (uint32_t place = chain_of(last(1), last(0)); place != kNone && candidates-- > 0; place = older_[place]) {
    if (place + 1 >= all_.size()) continue;  // the text's own end
    uint32_t length = 0;
    const uint32_t most = std::min({kLengthMax, place + 1, total});
    while (length < most && all_[place - length] == last(length) && last(length) != kNoToken) ++length;
    if (length < 2) continue;
    const bool near = follows_ != kNone && place + 1 >= follows_ && place + 1 - follows_ <= kNear;
    if (length < best.length || (length == best.length && (best_near || !near))) continue;
    best = {std::span(all_).subspan(place + 1), length};
    best_place = place;
    best_near = near;
  }
  if (best_place != kNone && ahead.empty()) follows_ = best_place + 1;
  const auto stop = std::ranges::find(best.next, kNoToken);
  best.next = best.next.first(static_cast<size_t>(stop - best.next.begin()));
  return best;
}

}  // namespace kvrt
