// Actors: the options of their generations.
#include <limits>

#include "tests/sim/actor.h"

namespace kvrt::test {

// Of the words that actors say. In some places one token alone may come.
std::vector<SimGrammar> sim_grammars(const Tokenizer& tokenizer) {
  std::vector<SimGrammar> grammars;
  const auto vocab = GrammarVocab::make(tokenizer);
  for (const char* source : {R"(root ::= ("tide" | "mist" | "cd" [abe]+ " ")+)", R"(root ::= "my" "stunde" [a-e]* ("er" root | "n"))",
                             R"(root ::= [a-z \n]*)"}) {
    auto grammar = Grammar::from_gbnf(source, vocab.get());
    SIM_CHECK(grammar.is_ok(), "grammar: %s", grammar.status().message().c_str());
    grammars.push_back({source, GrammarMasks::make(*grammar, vocab)});
  }
  return grammars;
}

GenerateOptions Actor::some_options() {
  Random& r = *w_->random;
  GenerateOptions o;
  o.max_tokens = r.one_in(8) ? 0 : static_cast<uint32_t>(r.between(1, r.one_in(4) ? 100 : 24));
  o.ignore_eos = r.one_in(3);
  o.emit_logits = r.one_in(3);
  o.host_samples = r.one_in(6);
  o.all_or_nothing = r.one_in(4);
  o.generation_prompt = !r.one_in(6);
  for (uint64_t n = r.one_in(6) ? r.below(3) : 0; n > 0; --n)
    o.stop_tokens.push_back(static_cast<int32_t>(r.below(w_->tokenizer->vocab_size())));
  if (r.one_in(4)) o.stop_strings = {r.one_in(2) ? "ab" : "es", "tid"};
  SamplingOptions& s = o.sampling;
  s.temperature = r.one_in(2) ? 0 : 0.8f;
  s.seed = r.one_in(2) ? 7 : r.below(1000);
  if (r.one_in(4)) s.top_k = static_cast<uint32_t>(r.between(1, 30));
  if (r.one_in(4)) s.top_p = 0.9f;
  if (r.one_in(6)) s.min_p = 0.05f;
  if (r.one_in(6)) s.repetition_penalty = 1.2f;
  if (r.one_in(6)) s.frequency_penalty = 0.3f, s.presence_penalty = 0.2f;
  if (r.one_in(12)) s.penalty_window = static_cast<uint32_t>(r.between(1, 20));
  if (r.one_in(8)) s.top_logprobs = static_cast<uint32_t>(r.between(1, 5));
  if (r.one_in(8)) s.logit_bias = {{static_cast<int32_t>(r.below(w_->tokenizer->vocab_size())), -std::numeric_limits<float>::infinity()}};
  if (!o.ignore_eos && !w_->grammars.empty() && r.one_in(5)) {
    o.ask.kind = GrammarKind::kGbnf;
    o.ask.source = w_->grammars[r.below(w_->grammars.size())].source;
    o.host_samples = false;
  }
  speculate(&o);
  return o;
}

// Of two generations in three. Mostly with a number of proposals that come though they cost more than they save: the clock here is no machine's.
void Actor::speculate(GenerateOptions* o) {
  Random& r = *w_->random;
  SpeculationOptions& s = o->speculation;
  if (r.one_in(3)) return;
  if (!r.one_in(8)) o->emit_logits = o->host_samples = false;
  s.lookup = r.one_in(2);
  if (s.lookup && r.one_in(2)) s.prediction = some_text(30);
  if (s.lookup && r.one_in(3) && !tokens_.empty()) {  // it comes, if the turn is open
    const auto next = oracle_tokens(tokens_, w_->windows, w_->tokenizer->vocab_size(), o->sampling, r.between(1, 40));
    s.prediction = w_->tokenizer->decode(next, true, tokens_.back());
    if (Utf8Stream().push(s.prediction) != s.prediction) s.prediction.clear();
  }
  if (!w_->drafts.empty() && (!s.lookup || r.one_in(3))) s.draft = w_->drafts[r.below(w_->drafts.size())];
  if (r.one_in(3)) s.most = static_cast<uint32_t>(r.between(1, kDraftTokensMax));
  if (!r.one_in(4)) s.least = static_cast<uint32_t>(r.between(1, s.most));
  w_->note("generations that speculate", s.on());
}

}  // namespace kvrt::test
