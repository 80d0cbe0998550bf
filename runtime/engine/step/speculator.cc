#include "runtime/engine/step/speculator.h"

#include <algorithm>
#include <bit>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {

using Source = Speculation::Source;

constexpr double kGainMin = 1.03;                      // tokens in a time over those without drafts: less is not worth the trouble
constexpr double kFewTokens = 32;                      // that are to come at least, and as many as came
constexpr uint64_t kDraftWindowMin = 32;               // tokens; a draft that sees fewer is not worth its time
constexpr uint64_t kBehindFree = 2 * kDraftTokensMax;  // tokens that a draft in use may be behind
constexpr double kLearnAll = 0.02;                     // the weight of one draft for the next generations
constexpr double kForgive = 0.05;                      // with each generation: a draft that was wrong in others is tried again
constexpr double kForgiveStep = 0.005;                 // with each step: likewise in this one
constexpr double kLearnUnsure = 0.05;
constexpr uint32_t kRestMax = 63;    // steps for which a draft that gave nothing is not asked
constexpr float kLookUpSure = 0.5f;  // a looked-up token with that chance needs no draft

// The one token that the mask leaves; -1: several, or none.
int32_t only_token(std::span<const uint64_t> mask) {
  int32_t found = -1;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (found >= 0 || !std::has_single_bit(mask[i])) return -1;
    found = static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(mask[i])));
  }
  return found;
}

bool needs_no_draft(const Speculation& spec) { return !spec.proposed.empty() && spec.proposed[0].chance >= kLookUpSure; }

// Proposes what a grammar leaves alone, and what followed the last tokens where they came before.
class Known {
 public:
  Known(Session* session, const Tokenizer& tokenizer) : s_(*session), spec_(*s_.generation->speculation), tokenizer_(tokenizer) {
    if (s_.generation->guide) guide_.emplace(*s_.generation->guide);
    if (spec_.lookup) spec_.lookup->add(s_.tokens);
  }
  void propose() {
    while (spec_.proposed.size() < spec_.most && (forced() || looked_up())) continue;
  }

 private:
  bool add(const Speculation::Token& token) {
    if (tokenizer_.is_end(token.token)) return false;  // no row comes after it
    if (guide_ && !guide_->accept(token.token)) return false;
    spec_.proposed.push_back(token);
    ahead_.push_back(token.token);
    return true;
  }
  bool forced() {
    const int32_t token = guide_ ? only_token(guide_->mask()) : -1;
    return token >= 0 && add({{token, 1, 0}, Source::kGrammar});
  }
  // False: there is nothing more to propose.
  bool looked_up() {
    if (!spec_.lookup) return false;
    const TokenLookup::Match match = spec_.lookup->find(ahead_);
    size_t taken = 0;
    for (const int32_t token : match.next) {
      if (spec_.proposed.size() >= spec_.most) break;
      const uint8_t rank = Speculation::rank_of_match(std::min(match.length + static_cast<uint32_t>(taken), TokenLookup::kLengthMax));
      if (!add({{token, spec_.by_match.of(rank), rank}, Source::kLookup})) break;
      ++taken;
    }
    return taken > 0 && taken == match.next.size();
  }

  const Session& s_;
  Speculation& spec_;
  const Tokenizer& tokenizer_;
  std::optional<AnswerGuide> guide_;
  std::vector<int32_t> ahead_;
};

// Not before the first token, which waits for no draft.
bool speculates(const Session& s) {
  const Generation& g = *s.generation;
  if (!g.speculation || g.report.generated == 0 || !g.warmed || !s.runnable() || !s.use.may_step()) return false;
  const KvRun run = s.kv.next_run(s.tokens.size());
  return run.begin + 1 == s.tokens.size() && run.stores == s.kv.shape.all();
}

}  // namespace

std::span<const Speculation::Token> Speculator::proposed(const Session& s) {
  const Speculation* spec = s.generation->speculation.get();
  if (!spec || spec->at != s.tokens.size()) return {};
  return spec->proposed;
}

// One token of the step comes without a proposal. So one less is proposed than there is room: for events, in the context, below max_tokens.
Speculator::Decoders Speculator::decoders() const {
  Decoders all;
  bool prompts = false;
  for (Session* s : queue_->sessions()) {
    if (!s->generation) continue;
    if (speculates(*s)) {
      Generation& g = *s->generation;
      uint64_t room = std::min<uint64_t>(kUnreadEventsMax - s->mailbox.size(), context_ - s->tokens.size());
      if (g.options.max_tokens) room = std::min<uint64_t>(room, g.options.max_tokens - g.report.generated);
      g.speculation->most = static_cast<uint32_t>(std::min<uint64_t>(g.options.speculation.most, room - std::min<uint64_t>(room, 1)));
      all.seats.push_back({s});
    } else if (s->runnable() && s->generation->warmed) {
      const bool decodes = s->kv.next_run(s->tokens.size()).begin + 1 == s->tokens.size();
      all.others += decodes;
      prompts |= !decodes;
    }
  }
  if (prompts) std::erase_if(all.seats, [](const Seat& seat) { return seat.session->generation->options.speculation.least == 0; });
  return all;
}

uint64_t Speculator::limit_ns(const Decoders& all, uint64_t patience_ns) const {
  constexpr uint64_t kMs = 1'000'000;
  if (step_ms_max_ > 0) return step_ms_max_ * kMs;
  const bool alone = all.seats.size() == 1 && all.others == 0;
  return alone ? std::clamp(patience_ns, kStepMsDefault * kMs, kLoneStepMs * kMs) : kStepMsDefault * kMs;
}

// The tokens that the draft is thought to be asked for. The answer goes on to its usual length, or to twice what it has.
double Speculator::tokens_left(const Generation& g) const {
  const auto generated = static_cast<double>(g.report.generated);
  double left = std::max(usual_tokens_ - generated, kFewTokens + generated);
  if (g.options.max_tokens) left = std::min(left, g.options.max_tokens - generated);
  return g.speculation->lookup ? left * g.speculation->unsure : left;
}

// A draft sees the last tokens, as many as are worth it. What was learned of one that saw fewer says nothing of one that sees more.
bool Speculator::catches_up(Session* s, DraftCosts::Rows rows) const {
  const Generation& g = *s->generation;
  Speculation& spec = *g.speculation;
  const uint64_t n = s->tokens.size(), behind = s->draft->behind(s->tokens), window = n - std::min(n, s->draft->begins_at());
  const uint64_t most = std::min(n, s->draft->sees_most() / 2);  // half, so that it can follow for a while
  if (g.options.speculation.least > 0) {
    if (window == 0) s->draft->begin_at(n - most);
    return true;
  }
  const double left = tokens_left(g);
  const auto worth = [&](double gain) {
    const uint64_t pay = gain < kGainMin ? 0 : draft_costs_.rows_worth(gain, left);
    return std::min(most, 2 * pay >= n ? n : pay);  // a draft that sees the beginning, too, is right more often
  };
  const uint64_t by_all = worth(draft_costs_.gain(costs_, draft_right_, spec.most, rows)), few = std::min(n, kDraftWindowMin);
  if (window < n && by_all >= std::min(n, 2 * window) && by_all >= few) {
    s->draft->begin_at(n - by_all);
    spec.draft_right = draft_right_;
    return true;
  }
  const double gain = draft_costs_.gain(costs_, spec.draft_right, spec.most, rows);
  if (gain < kGainMin) return false;
  const uint64_t by_this = worth(gain);
  if (window > behind && behind <= std::max(by_this, kBehindFree)) return true;
  if (by_this < few) return false;
  s->draft->begin_at(n - by_this);
  return true;
}

bool Speculator::ask_draft(Session* s, DraftCosts::Rows rows) const {
  const Generation& g = *s->generation;
  Speculation& spec = *g.speculation;
  const bool forced = g.options.speculation.least > 0;
  if (spec.most == 0 || needs_no_draft(spec)) return false;
  if (spec.rest > 0 && !forced) {
    --spec.rest;
    return false;
  }
  if (!catches_up(s, rows)) return false;
  const double share = static_cast<double>(rows.drafted) / rows.all();
  const double token = costs_.of(rows.all()) / draft_costs_.gain(costs_, spec.draft_right, spec.most, rows) * share;
  // A token more is drafted while it is likelier to come than what it takes is of a token's time.
  std::vector<float> least(spec.most);
  for (uint32_t k = 0; k < spec.most && !forced; ++k) {
    const double takes = draft_costs_.token() * costs_.of(1) + costs_.of(rows.with(k + 2)) - costs_.of(rows.with(k + 1));
    least[k] = static_cast<float>(std::min(1.0, takes / token));
  }
  return s->draft->ask({s->tokens, least, &g.options.sampling, &spec.by_draft});
}

// Drafts of one model are computed together.
void Speculator::run_drafts(Decoders* all, const Limit& limit, const Runtime& runtime, const LoadedModel& target) {
  const std::span<Seat> seats = all->seats;
  const DraftCosts::Rows step{static_cast<uint32_t>(seats.size()), all->others};
  Env* env = runtime.env();
  const auto work = [&] { return runtime.backend()->unified() ? env->cpu_ns() : env->now_ns(); };
  const double weight_bytes = target.weights() ? static_cast<double>(target.weights()->weight_bytes) : 1;
  std::vector<DraftModel*> models;
  for (const Seat& seat : seats) {
    DraftModel* model = seat.session->generation->options.speculation.draft.get();
    if (model && std::ranges::find(models, model) == models.end()) models.push_back(model);
  }
  if (!models.empty()) draft_costs_.forget();
  for (DraftModel* model : models) {
    draft_costs_.expect(static_cast<double>(model->weight_bytes()), weight_bytes);
    std::vector<Draft*> drafts;
    const uint64_t begin = work();
    for (Seat& seat : seats) {
      Session* s = seat.session;
      if (s->generation->options.speculation.draft.get() != model) continue;
      if (!s->draft) s->draft = model->open(s->domain, s->kv.share);
      seat.asked = s->draft && ask_draft(s, step);
      if (!seat.asked) continue;
      seat.behind = s->draft->behind(s->tokens);
      drafts.push_back(s->draft.get());
    }
    if (drafts.empty()) continue;
    const uint64_t rows = model->run(drafts, env->now_ns() + limit.ns, limit.enough);
    take_drafts(seats, target.tokenizer(), static_cast<double>(work() - begin), rows);
    for (Seat& seat : seats) seat.asked = false;
  }
}

// `rows` ran for all of them. A draft's vocabulary may be larger than the session's, and a draft knows no grammar.
void Speculator::take_drafts(std::span<Seat> seats, const Tokenizer& tokenizer, double work_ns, uint64_t rows) {
  size_t tokens = 0, most = 0;
  for (const Seat& seat : seats) {
    if (!seat.asked) continue;
    const Generation& g = *seat.session->generation;
    const std::vector<Proposed> drafted = seat.session->draft->take();
    tokens += drafted.size();
    most = std::max(most, drafted.size());
    Speculation& spec = *g.speculation;
    const bool stuck = drafted.empty() && seat.session->draft->behind(seat.session->tokens) >= seat.behind;  // its model is another's now
    spec.rests = stuck ? std::min(2 * spec.rests + 1, kRestMax) : 0;
    spec.rest = spec.rests;
    if (drafted.empty()) continue;
    spec.proposed.clear();
    std::optional<AnswerGuide> guide;
    if (g.guide) guide.emplace(*g.guide);
    for (const Proposed& token : drafted) {
      if (spec.proposed.size() >= spec.most || token.token < 0 || static_cast<uint32_t>(token.token) >= tokenizer.vocab_size()) break;
      if (guide && !guide->accept(token.token)) break;
      spec.proposed.push_back({token, Source::kDraft});
    }
  }
  draft_costs_.measured(costs_, work_ns, rows, tokens, most);
}

void Speculator::propose_known(std::span<const Seat> seats, const Tokenizer& tokenizer) {
  for (const Seat& seat : seats) {
    Speculation& spec = *seat.session->generation->speculation;
    if (spec.draft_right == 0) {
      draft_right_ += (kBelieved - draft_right_) * kForgive;
      spec.draft_right = draft_right_;
    }
    spec.draft_right += (draft_right_ - spec.draft_right) * kForgiveStep;
    if (spec.learn(seat.session->tokens)) draft_right_ += (spec.draft_right - draft_right_) * kLearnAll;
    spec.at = seat.session->tokens.size();
    Known(seat.session, tokenizer).propose();
    spec.unsure += ((needs_no_draft(spec) ? 0 : 1) - spec.unsure) * kLearnUnsure;
  }
}

void Speculator::propose(EngineLock* lock, const Runtime& runtime, const LoadedModel& model, uint64_t patience_ns) {
  Decoders all = decoders();
  const std::vector<Seat>& seats = all.seats;
  if (seats.empty()) return;
  usual_tokens_ = generations_->usual_tokens();
  for (const Seat& seat : seats) seat.session->use.enter_step();
  struct Leave {  // also if memory runs out half-way
    const std::vector<Seat>* seats;
    ~Leave() {
      for (const Seat& seat : *seats) seat.session->use.leave_step();
    }
  };
  const uint32_t runnable = queue_->runnable_count();
  const auto enough = [&] {  // nobody wants them any more, or somebody else waits
    Lock again(lock->mu);
    return queue_->runnable_count() > runnable ||
           std::ranges::all_of(seats, [](const Seat& seat) { return seat.session->generation->cancel; });
  };
  {
    const Leave leave{&seats};
    Unlocked unlocked(lock->mu);
    try {
      propose_known(seats, model.tokenizer());
      run_drafts(&all, {limit_ns(all, patience_ns), enough}, runtime, model);
    } catch (...) {  // no memory: nothing is proposed, and drafts that are half-way go, and what was looked up
      for (const Seat& seat : seats) {
        seat.session->generation->speculation->proposed.clear();
        seat.session->generation->speculation->lookup.reset();
        seat.session->draft = nullptr;
      }
    }
  }
  for (const Seat& seat : seats) {
    if (seat.session->generation->cancel) generations_->finish(seat.session, Reason::kCancelled, runtime.env()->now_ns());
  }
}

void Speculator::choose(std::span<Offer> offers, uint32_t rows, uint32_t room, bool with_prompt) const {
  struct Row {
    double chance;  // that all of the offer's tokens so far come
    size_t offer;
  };
  std::vector<Row> more;
  for (size_t i = 0; i < offers.size(); ++i) {
    Offer& offer = offers[i];
    double chance = 1;
    for (size_t k = 0; k < offer.tokens.size(); ++k) {
      chance *= offer.tokens[k].chance;
      if (k < offer.least && room > 0) {
        ++offer.take, ++rows, --room;
      } else if (!with_prompt && k >= offer.least) {
        more.push_back({chance, i});
      }
    }
  }
  std::ranges::stable_sort(more, std::ranges::greater{}, &Row::chance);
  size_t best = 0;
  double tokens = rows, best_rate = costs_.of(rows) > 0 ? kGainMin * tokens / costs_.of(rows) : 0;
  for (size_t m = 0; m < more.size() && m < room; ++m) {
    tokens += more[m].chance;
    const auto n = static_cast<uint32_t>(rows + m + 1);
    const double rate = n <= StepCosts::kRowsMax && costs_.of(n) > 0 ? tokens / costs_.of(n) : 0;
    if (rate > best_rate) best = m + 1, best_rate = rate;
  }
  for (size_t m = 0; m < best; ++m) ++offers[more[m].offer].take;
}

void Speculator::measured(uint32_t rows, bool prompt, uint64_t work_ns) {
  if (!prompt) costs_.measured(rows, work_ns);
}

}  // namespace kvrt
