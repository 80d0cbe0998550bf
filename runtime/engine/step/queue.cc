#include "runtime/engine/step/queue.h"

#include <algorithm>

namespace kvrt {

Status Queue::check_count() const {
  if (sessions_.size() < kSessionsMax) return {};
  return error(Code::kLimit, Detail::kNone, "%u sessions of this model are open, which is the most", kSessionsMax);
}

void Queue::add(Session* session) { sessions_.push_back(session); }

void Queue::remove(Session* session) {
  cache_->release(&session->kv, 0);
  session->kv.chain.clear();
  session->kv.ends.clear();
  sessions_.erase(std::find(sessions_.begin(), sessions_.end(), session));
  if (starved_ == session) starved_ = nullptr;
}

uint32_t Queue::open_count() const { return static_cast<uint32_t>(std::ranges::count(sessions_, false, &Session::drafts)); }

uint32_t Queue::runnable_count() const {
  return static_cast<uint32_t>(std::ranges::count_if(sessions_, [](const Session* s) { return s->runnable(); }));
}

uint32_t Queue::generating_count() const {
  const auto generates = [](const Session* s) { return s->state == SessionState::kGenerating && !s->generation->finished; };
  return static_cast<uint32_t>(std::ranges::count_if(sessions_, generates));
}

void Queue::begin(Session* session) {
  session->generation->order = ++begun_;
  touch(session);
}

// A generation may begin when its blocks can be had without taking them from others that run: else it and they would take turns in
// computing the same again. The oldest always may.
bool Queue::admit(Session* session) {
  cache_->extend(&session->kv, session->tokens, session->generation->ahead);
  const KvCache::Resident shares = cache_->resident(session->kv);
  auto wanted = [](const Session& s) { return s.kv.shape.units_for(s.tokens.size() + 1); };
  uint64_t have = cache_->free_count() + cache_->cached_count() - shares.cached + session->kv.units_held(), promised = 0;
  bool oldest = true;
  for (const Session* s : sessions_) {
    if (s == session) continue;
    const uint64_t held = s->kv.units_held();
    if (!s->runnable()) {
      have += s->use.pinned() ? 0 : held;
    } else if (s->generation->admitted) {
      oldest &= s->generation->order > session->generation->order;
      promised += wanted(*s) > held ? wanted(*s) - held : 0;
    }
  }
  return oldest || have >= wanted(*session) - std::min(shares.units, wanted(*session)) + promised;
}

Session* Queue::next_cold() {
  for (Session* s : sessions_) {
    if (!s->runnable() || !s->use.may_step() || s->generation->warmed || !admit(s)) continue;
    s->generation->admitted = true;
    return s;
  }
  return nullptr;
}

std::vector<Session*> Queue::order() {
  std::vector<Session*> order;
  for (Session* s : sessions_) {
    if (s->runnable() && s->use.may_step() && s->generation->warmed) order.push_back(s);
  }
  if (order.empty()) return order;
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn_++ % order.size()), order.end());
  return order;
}

bool Queue::oldest(const Session& session) const {
  return std::ranges::none_of(sessions_,
                              [&](const Session* s) { return s->runnable() && s->generation->order < session.generation->order; });
}

bool Queue::blocks_come_back() const {
  return std::ranges::any_of(sessions_, [](const Session* s) { return s->use.pinned(); });
}

}  // namespace kvrt
