// World: models that draft, and what becomes of proposals.
#include <algorithm>

#include "tests/sim/world.h"

namespace kvrt::test {

// A draft that is the same function as the target is always right where it sees all tokens.
void World::open_drafts() {
  auto guess = std::make_shared<GuessModel>(&env_, setting_.windows, setting_.tokenizer, draft_random_.next());
  guess->during = [this] { cancel_in_step(); };
  setting_.drafts = {guess};
  if (draft_random_.one_in(3)) return;
  HostSize size = some_size(&draft_random_);
  size.blocks = static_cast<uint32_t>(draft_random_.between(2, draft_random_.one_in(2) ? 4 : 20));
  if (draft_random_.one_in(2)) {
    size.windows = size_.windows, size.layer_heads = size_.layer_heads;
    size.recurrent = size_.recurrent, size.state = size_.state;
  }
  draft_ = open_toy(runtime_, &env_, size, text_, draft_random_.next(), &draft_runner_);
  draft_probe_ = std::make_unique<Probe>(draft_.get());
  draft_probe_->salted = true;
  draft_runner_->before = [this](const Step& step, uint8_t*) {
    if (step_fault_.empty()) step_fault_ = draft_probe_->check_step(step);
    draft_runner_->salts = draft_probe_->salts();
    setting_.note("steps of a draft");
  };
  auto model = draft_->draft_for(*engine_);
  SIM_CHECK(model.is_ok(), "draft_for: %s", model.status().message().c_str());
  setting_.drafts.push_back(*model);
}

void World::close_drafts() {
  setting_.drafts.clear();
  draft_probe_.reset();
  draft_.reset();
}

void World::check_drafts(bool deep) {
  if (!draft_) return;
  const std::string wrong = draft_probe_->check(deep);
  SIM_CHECK(wrong.empty(), "the draft: %s", wrong.c_str());
  SIM_CHECK(draft_runner_->faults == 0, "the draft: a row found no KV, or in pieces, or another's");
  if (!actors_.empty()) return;
  const EngineMetrics m = draft_->metrics();
  SIM_CHECK(m.units_used == 0 && draft_probe_->parts().queue.sessions().empty(), "the draft holds %zu blocks for nobody",
            size_t{m.units_used});
}

// A call beside the step ends a generation that may be in it.
void World::cancel_in_step() {
  if (!draft_random_.one_in(60)) return;
  Actor* a = some_actor();
  if (!a || !a->generating() || !a->session()->use.in_step()) return;
  const bool verifies = std::ranges::any_of(proposing_, [&](const Proposing& p) { return p.session == a->session(); });
  setting_.note("cancelled while proposals are checked", verifies);
  a->cancel_in_step();
}

void World::note_proposals(const Step& step) {
  const KvShape& shape = probe_->cache().shape();
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const PlannedSeq& seq = probe_->plan().seqs[q];
    const Session& s = *seq.session;
    const Generation& g = *s.generation;
    const auto known = Speculator::proposed(s);
    const uint64_t n = s.tokens.size();
    if (known.empty()) continue;
    const uint64_t blocks = (n + shape.block_tokens - 1) / shape.block_tokens, end = n + seq.proposed;
    setting_.note("proposals without a block", seq.proposed < std::min<size_t>(known.size(), g.options.speculation.least) &&
                                                   end == blocks * shape.block_tokens && probe_->blocks_left() < shape.units());
    if (seq.proposed == 0) continue;
    setting_.note("steps with proposals");
    setting_.note("proposals of lookup", known[0].source == Speculation::Source::kLookup);
    setting_.note("proposals of a draft", known[0].source == Speculation::Source::kDraft);
    setting_.note("proposals of a grammar", known[0].source == Speculation::Source::kGrammar);
    setting_.note("proposals in a grammar's answer", g.guide != nullptr);
    setting_.note("proposals in a new block", end > blocks * shape.block_tokens);
    setting_.note("proposals with windows", shape.has_windows());
    setting_.note("fewer proposals for unread events",
                  g.speculation->most < g.options.speculation.most && g.speculation->most + s.mailbox.size() + 1 == kUnreadEventsMax);
    setting_.note("fewer proposals for max_tokens",
                  g.speculation->most < g.options.speculation.most && g.speculation->most + g.report.generated + 1 == g.options.max_tokens);
    std::vector<int32_t> proposed;
    for (const auto& token : known.first(seq.proposed)) proposed.push_back(token.token);
    proposing_.push_back({&s, &g, std::move(proposed), n, g.report.accepted});
  }
}

// What the last step made of its proposals. In the next one it may have some again, or have given up its blocks.
void World::settle_proposals(bool between_steps) {
  for (const Proposing& p : proposing_) {
    const Session& s = *p.session;
    if (step_fault_.empty() && between_steps) step_fault_ = probe_->check_given_back(s);
    const Generation* g = s.generation.get();
    if (g != p.generation) continue;  // its DONE was taken meanwhile
    const size_t kept = g->report.accepted - p.accepted;
    const bool right = kept < p.proposed.size() && s.tokens.size() > p.tokens + kept && s.tokens[p.tokens + kept] == p.proposed[kept];
    setting_.note("proposals all kept", kept == p.proposed.size());
    setting_.note("proposals none kept", kept == 0 && !right);
    setting_.note("proposals cut by a stop", right && g->finished && g->report.reason == Reason::kStop);
    setting_.note("proposals cut by eos", right && g->finished && g->report.reason == Reason::kEos);
    if (between_steps && g->finished && g->report.reason != Reason::kFailed && step_fault_.empty() &&
        g->report.kv_units != s.kv.units_held())
      step_fault_ = "the report counts units of proposals";
  }
  proposing_.clear();
}

}  // namespace kvrt::test
