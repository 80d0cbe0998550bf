#include "runtime/engine/step/planner.h"

#include <algorithm>
#include <utility>

namespace kvrt {

namespace {

// Its arrays keep their memory.
void clear_plan(StepPlan* plan) {
  plan->seqs.clear();
  plan->clears.clear();
  plan->copies.clear();
  plan->unit_copies.clear();
  plan->tokens.clear();
  plan->positions.clear();
  plan->logits_rows.clear();
  plan->step_seqs.clear();
  plan->tables.clear();
  plan->samples.clear();
  plan->decodes = 0;
  plan->prompt_cost = 0;
}

}  // namespace

// The rows that a session needs next.
KvRun Planner::next_run(const Session& s) const {
  const Generation& g = *s.generation;
  const uint64_t n = s.tokens.size();
  if (!g.progress.recompute_all) {
    KvRun run = s.kv.next_run(n);
    run.end = std::min(run.end, n - s.leaves_last());
    return run;
  }
  const uint64_t next = g.progress.next_logits;
  if (s.kv.restart(next) < next) return s.kv.next_run(next);  // it had to give up its blocks
  return {next, n, s.kv.shape.all()};
}

// Decodes first: they do not wait for a prompt. A starved session comes before all, so that younger sessions give way.
void Planner::take_turns(const std::vector<Session*>& order) {
  turns_.clear();
  for (Session* s : order) turns_.push_back({s, next_run(*s)});
  std::stable_partition(turns_.begin(), turns_.end(), [](const Turn& turn) { return turn.decodes(); });
  const auto starved = std::ranges::find(turns_, queue_->starved(), &Turn::session);
  if (starved != turns_.end()) std::rotate(turns_.begin(), starved, starved + 1);
}

// Each turn may need a row of logits; proposals get what these leave.
void Planner::choose_proposals() {
  std::vector<Speculator::Offer> offers;
  std::vector<Turn*> whose;
  uint32_t rows = 0;
  bool with_prompt = false;
  for (Turn& turn : turns_) {
    if (turn.decodes()) {
      rows += static_cast<uint32_t>(turn.rows());
    } else {
      with_prompt = true;
    }
    const auto proposed = Speculator::proposed(*turn.session);
    if (proposed.empty()) continue;
    offers.push_back({proposed, turn.session->generation->options.speculation.least});
    whose.push_back(&turn);
  }
  if (offers.empty()) return;
  const auto left = [](uint32_t most, size_t taken) { return most - static_cast<uint32_t>(std::min<size_t>(most, taken)); };
  uint32_t room = std::min({left(limits_.logits_max, turns_.size()), left(limits_.rows_max, rows), left(limits_.rows_alike, rows)});
  if (with_prompt && limits_.rows_alike < limits_.rows_max) room = 0;
  speculator_->choose(offers, rows, room, with_prompt);
  for (size_t i = 0; i < offers.size(); ++i) whose[i]->ahead = offers[i].take;
}

// Two sessions that need the same block at once compute it once: the second waits for it, and adopts it when it is sealed.
bool Planner::waits_for_other(const Session& s, const KvRun& run) const {
  if (!s.kv.adopts() || s.generation->progress.recompute_all) return false;
  const uint64_t i = run.begin / block_tokens_;
  if (i >= s.kv.chain.size()) return false;  // no other session has the same tail
  const auto claim = claimed_.find(s.kv.chain[i].get());
  for (uint32_t g = 0; claim != claimed_.end() && g < kKvGroupsMax; ++g) {
    const Session* other = claim->second[g];
    if ((run.stores >> g & 1) && other && other != &s) return true;
  }
  return false;
}

// From now on the session is the one that computes this block, unless another is.
void Planner::claim(const Session* s, uint32_t group, uint64_t block) {
  if (!s->kv.share || block >= s->kv.chain.size()) return;
  const Session*& claimed = claimed_[s->kv.chain[block].get()][group];
  if (!claimed) claimed = s;
}

// A session within a block of its own goes on with it. A shared block needs a copy first, for which there may be no block.
void Planner::claim_begun_blocks() {
  claimed_.clear();
  for (const auto& [s, run, ahead] : turns_) {
    const auto i = static_cast<uint32_t>(run.begin / block_tokens_);
    for (uint32_t group = 0; group < s->kv.shape.n_groups; ++group) {
      const BlockTable& table = s->kv.tables[group];
      if ((run.stores >> group & 1) && table.filled(i) > 0 && cache_->writable(table.block(i))) claim(s, group, i);
    }
  }
}

// The conditions of a step of these turns.
Pace::Ask Planner::ask_for(uint64_t patience_ns) const {
  Pace::Ask ask{.patience_ns = patience_ns};
  for (const Turn& turn : turns_) ask.decodes += turn.decodes() ? static_cast<uint32_t>(turn.rows()) + turn.ahead : 0;
  const auto prompt = std::ranges::find_if_not(turns_, &Turn::decodes);
  if (prompt != turns_.end()) ask.begin = prompt->run.begin;
  // Sessions that wait for their host count, too: it may answer at once.
  ask.alone = queue_->generating_count() == 1;
  return ask;
}

// The tables of all units, one after the other. Places without KV have the unit of zeros, which the pool has for groups with windows. Then
// the units of the states before the run and after it; the first are none where it begins the sequence.
std::vector<int32_t> Planner::tables_of(const KvSequence& kv, const KvRun& run) const {
  const uint32_t n = kv.blocks();
  const auto nothing = static_cast<int32_t>(cache_->size());
  std::vector<int32_t> all;
  for (uint32_t g = 0; g < kv.shape.n_groups; ++g) {
    const BlockTable& table = kv.tables[g];
    if (kv.shape.groups[g].state) {
      for (const uint64_t end : {run.begin, run.end}) {
        const BlockId block = end > 0 ? table.block(static_cast<uint32_t>((end - 1) / block_tokens_)) : kNoBlock;
        for (BlockId unit = block; unit != kNoBlock; unit = cache_->next_unit(unit)) all.push_back(unit);
      }
      continue;
    }
    const size_t first = all.size();
    all.resize(first + uint64_t{n} * kv.shape.groups[g].units, nothing);
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      size_t at = first + i;
      for (BlockId unit = table.block(i); unit != kNoBlock; unit = cache_->next_unit(unit), at += n) all[at] = unit;
    }
  }
  return all;
}

// A row of logits for the last token, or for each where all are wanted.
uint32_t Planner::logits_of(const Session& s, const KvRun& run) const {
  const Generation& g = *s.generation;
  if (!g.options.wants_logits()) return 0;
  uint64_t first = s.tokens.size() - 1;
  if (g.progress.recompute_all) first = std::min(first, g.progress.next_logits);
  return static_cast<uint32_t>(run.end - std::min(run.end, std::max(first, run.begin)));
}

void Planner::take(const Turn& turn, const KvRun& run, StepPlan* plan) {
  Session* s = turn.session;
  plan->seqs.reserve(plan->seqs.size() + 1);
  PlannedSeq seq{s, run, 0, logits_of(*s, run), 0};
  if (run.end == s->tokens.size()) seq.proposed = turn.ahead;
  for (uint32_t group = 0; group < s->kv.shape.n_groups; ++group) {
    if ((run.stores >> group & 1) == 0) continue;
    for (uint64_t i = run.begin / block_tokens_; i * block_tokens_ < run.end; ++i) claim(s, group, i);
  }
  rows_ += run.end - run.begin;
  logits_ += seq.logit_rows;
  plan->seqs.push_back(seq);
  s->use.enter_step();  // with its place in the plan: abandon() takes both back
}

// Proposed tokens have what the rows of all sessions leave: of rows, and of blocks, which no session gives up for one that may not come.
void Planner::add_proposals(StepPlan* plan) {
  for (PlannedSeq& seq : plan->seqs) {
    Session* s = seq.session;
    const uint64_t n = s->tokens.size(), wanted = std::exchange(seq.proposed, 0);
    if (seq.run.begin + 1 != n || seq.run.end != n || seq.run.stores != s->kv.shape.all()) continue;
    const uint64_t most = std::min<uint64_t>({wanted, limits_.logits_max - logits_, limits_.rows_max - rows_, limits_.prefill_chunk - 1});
    const uint64_t ahead = std::min<uint64_t>(most, Speculator::proposed(*s).size());
    if (ahead == 0) continue;
    seq.run.end = supply_->make_ahead_writable(s, {n, n + ahead, seq.run.stores}, plan);
    seq.proposed = static_cast<uint32_t>(seq.run.end - n);
    seq.logit_rows += seq.proposed;
    rows_ += seq.proposed;
    logits_ += seq.proposed;
    plan->decodes += seq.proposed;
  }
}

void Planner::add_rows(StepPlan* plan) const {
  for (PlannedSeq& seq : plan->seqs) {
    const Session& s = *seq.session;
    const KvRun& run = seq.run;
    const uint64_t n = s.tokens.size();
    std::span<const Speculation::Token> proposed;
    if (seq.proposed > 0) proposed = Speculator::proposed(s);
    const auto first_row = static_cast<uint32_t>(plan->tokens.size());
    seq.first_logit = static_cast<uint32_t>(plan->logits_rows.size());
    for (uint64_t p = run.begin; p < run.end; ++p) {
      plan->tokens.push_back(p < n ? s.tokens[p] : proposed[p - n].token);
      plan->positions.push_back(static_cast<int32_t>(p));
      if (run.end - p <= seq.logit_rows) plan->logits_rows.push_back(static_cast<uint32_t>(plan->tokens.size()) - 1);
    }
    plan->tables.push_back(tables_of(s.kv, run));
    plan->step_seqs.push_back(
        {first_row, static_cast<uint32_t>(run.end - run.begin), static_cast<int32_t>(run.begin), nullptr, s.kv.blocks(), run.stores});
  }
}

// The rows of the turn that fit into the plan; 0: none, this time.
uint64_t Planner::rows_of(const Turn& turn) const {
  const Session& s = *turn.session;
  const Generation& g = *s.generation;
  const KvRun& run = turn.run;
  uint64_t rows = std::min<uint64_t>({turn.rows(), limits_.rows_max - rows_, limits_.prefill_chunk});
  const uint64_t logits_left = limits_.logits_max - logits_;
  if (g.progress.recompute_all) rows = std::min<uint64_t>({rows, logits_left, kUnreadEventsMax - s.mailbox.size()});
  if (!turn.decodes()) {
    if (*budget_ < 1 && rows_ > 0) return 0;  // the step is full
    rows = std::min(rows, pace_->rows(run.begin, *budget_));
    const uint64_t edge = (run.begin + rows) / block_tokens_ * block_tokens_;  // whole blocks, if there is a choice: others can adopt them
    if (run.begin + rows < run.end && edge >= run.begin + (rows + 1) / 2) rows = edge - run.begin;
  }
  const bool no_logits = g.options.wants_logits() && logits_left == 0 && run.begin + rows == s.tokens.size();
  return no_logits ? rows - 1 : rows;
}

// Adds as many of the turn's rows as fit. False: it got no block.
bool Planner::plan_turn(const Turn& turn, StepPlan* plan) {
  Session* s = turn.session;
  if (waits_for_other(*s, turn.run)) return true;
  const uint64_t rows = rows_of(turn);
  if (rows == 0) return true;
  KvRun run{turn.run.begin, turn.run.begin + rows, turn.run.stores};
  run.end = marker_->stop_at_boundary(s, run);
  run.end = supply_->make_writable(s, run, plan);
  if (run.end == run.begin) return s->use.tail_read();  // it goes on once the save has its copy
  if (turn.decodes()) {
    plan->decodes += static_cast<uint32_t>(run.end - run.begin);
  } else {
    const double cost = pace_->cost(run.begin, run.end);
    plan->prompt_cost += cost;
    *budget_ -= cost;
  }
  take(turn, run, plan);
  return true;
}

// A prefill that wants no logits ends when all its KV is there.
bool Planner::finish_prefill(const Turn& turn, uint64_t now_ns) {
  Session* s = turn.session;
  if (s->generation->options.wants_logits() || !s->kv.all_ready(s->tokens.size(), turn.run)) return false;
  generations_->finish(s, Reason::kPrefilled, now_ns);
  return true;
}

void Planner::plan(const std::vector<Session*>& order, uint64_t now_ns, uint64_t patience_ns, StepPlan* plan) {
  clear_plan(plan);
  plan->planned_ns = now_ns;
  take_turns(order);
  if (generations_->speculating > 0) choose_proposals();
  claim_begun_blocks();
  const Pace::Ask ask = ask_for(patience_ns);
  budget_.reset();
  rows_ = logits_ = 0;
  Session* starved = nullptr;
  for (Turn& turn : turns_) {
    Session* const s = turn.session;
    if (!s->runnable() || !s->generation->warmed) continue;  // it gave its blocks to another session of this plan
    queue_->touch(s);
    marker_->mark_messages(s);
    if (!s->generation->progress.recompute_all && cache_->adopt(&s->kv, s->tokens)) {  // what others sealed since the session was warmed
      reports_->count_reuse(s);
      turn.run = next_run(*s);
    }
    if (finish_prefill(turn, now_ns) || rows_ >= limits_.rows_max) continue;
    if (!turn.decodes() && !budget_) budget_ = pace_->budget(ask);
    if (!plan_turn(turn, plan)) {
      if (!starved || s->generation->order < starved->generation->order) starved = s;
    } else if (s->use.in_step() && !s->generation->times.first_step_ns) {
      s->generation->times.first_step_ns = now_ns;
    }
  }
  queue_->set_starved(starved);
  if (starved) fail_starved(starved, *plan);
  if (generations_->speculating > 0) add_proposals(plan);
  add_rows(plan);
  fill_step(plan);
}

// Only the oldest has had every block it can get: any other waits for those that began before it.
void Planner::fail_starved(Session* starved, const StepPlan& plan) {
  if (!queue_->oldest(*starved) || !plan.seqs.empty() || queue_->blocks_come_back()) return;
  generations_->fail(starved, error(Code::kLimit, Detail::kNone,
                                    "the pool of %u units of %u tokens has none left for this session of %zu tokens: raise kv_bytes_max of "
                                    "model_open, or close sessions",
                                    cache_->size(), block_tokens_, starved->tokens.size()));
}

// The most that a session of the step wants; 0, all, if one wants all.
uint32_t Planner::vocab_wanted(const StepPlan& plan) const {
  uint32_t wanted = 0;
  for (const PlannedSeq& seq : plan.seqs) {
    if (seq.logit_rows == 0) continue;
    const uint32_t here = seq.session->generation->options.vocab_wanted;
    if (here == 0) return 0;
    wanted = std::max(wanted, here);
  }
  return wanted;
}

// The step as a device sees it: it borrows the plan's arrays, which do not grow any more.
void Planner::fill_step(StepPlan* plan) const {
  const KvShape& shape = cache_->shape();
  for (size_t i = 0; i < plan->seqs.size(); ++i) {
    StepSeq& seq = plan->step_seqs[i];
    const std::vector<int32_t>& all = plan->tables[i];
    seq.blocks = all.data();
    if (!shape.has_states()) continue;
    seq.state_to = all.data() + all.size() - shape.state_units();
    if (seq.first_position > 0) seq.state_from = seq.state_to - shape.state_units();
  }
  for (const BlockCopy& copy : plan->copies) {
    for (BlockId from = copy.from, to = copy.to; from != kNoBlock; from = cache_->next_unit(from), to = cache_->next_unit(to)) {
      plan->unit_copies.push_back({from, to});
    }
  }
  plan->step = {plan->step_seqs, plan->tokens, plan->positions, plan->logits_rows};
  plan->step.vocab_wanted = vocab_wanted(*plan);
  plan->step.n_groups = shape.n_groups;
  plan->step.n_tables = shape.tables();
  plan->step.state_units = shape.state_units();
}

}  // namespace kvrt
