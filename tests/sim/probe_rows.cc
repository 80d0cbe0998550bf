// Probe: the rows of a step, and what their proposals leave.
#include "tests/sim/probe.h"

namespace kvrt {

// The rows' tokens: of the session, then those that are proposed, each with its row of logits.
std::string Probe::check_rows(const Step& step) const {
  if (step.logits_rows.size() > kLogitsRowsMax) return std::to_string(step.logits_rows.size()) + " rows of logits";
  bool proposals = false, without = false;
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const PlannedSeq& planned = plan().seqs[q];
    const Session& s = *planned.session;
    const Generation& g = *s.generation;
    const auto begin = static_cast<uint64_t>(seq.first_position), end = begin + seq.n_rows, n = uint64_t{s.tokens.size()};
    if (!s.use.in_step() || end > n + planned.proposed || (planned.proposed && end != n + planned.proposed)) return "rows past the tokens";
    const auto proposed = Speculator::proposed(s);
    for (uint64_t p = begin; p < end; ++p) {
      const int32_t token = step.tokens[seq.first_row + (p - begin)];
      if (p >= n && (token < 0 || static_cast<uint32_t>(token) >= engine->model().tokenizer().vocab_size())) return "a row of no token";
      if (p >= n && p - n >= proposed.size()) return "a row that nobody proposed";
      if (token != (p < n ? s.tokens[p] : proposed[p - n].token)) return "rows of other tokens";
    }
    const bool decides = g.options.wants_logits() && !g.progress.recompute_all;
    without |= decides && end + 1 == n;
    proposals |= planned.proposed > 0;
    if (decides && planned.logit_rows != (end >= n ? planned.proposed + 1 : 0))
      return std::to_string(planned.logit_rows) + " rows of logits";
    if (planned.proposed == 0) continue;
    if (!g.speculation || g.options.prefill_only || g.options.emit_logits || g.options.host_samples) return "proposals that nobody wants";
    if (begin + 1 != n || planned.proposed > g.speculation->most || planned.run.stores != s.kv.shape.all()) return "too many proposals";
    if (n + planned.proposed > engine->model().dims().context) return "proposals past the context";
  }
  return proposals && without && step.logits_rows.size() == kLogitsRowsMax ? "a session has no row of logits, and another has proposals"
                                                                           : "";
}

std::string Probe::check_given_back(const Session& s) const {
  const uint64_t rows = s.kv.ready(s.tokens.size());
  for (const BlockTable& table : s.kv.tables) {
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      if (table.block(i) != kNoBlock && table.filled(i) == 0 && uint64_t{i} * cache().block_tokens() >= rows)
        return "block " + std::to_string(i) + " is held for proposals that did not come";
    }
  }
  return "";
}

}  // namespace kvrt
