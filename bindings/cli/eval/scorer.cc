#include "bindings/cli/eval/scorer.h"

#include <cmath>

#include "bindings/cli/eval/numbers.h"

namespace cli::eval {

namespace {

constexpr size_t kBeside = 32;  // choices

// A choice that is computed.
struct Run {
  Session session;
  const std::vector<int32_t>* tokens = nullptr;
  size_t done = 0;
  double* sum = nullptr;
  bool over = false;
};

// The log of the probability that a row of logits gives a token.
kvrt_status log_probability(const Event& event, int32_t token, double* out) {
  const std::span<const float> row(event.logits, event.logits_count);
  *out = static_cast<double>(row[static_cast<size_t>(token)]) - log_sum_exp(row);
  if (std::isfinite(*out)) return KVRT_OK;
  return complain(KVRT_DEVICE, fmt::format("cannot score: logits of position {} hold a NaN or an infinity", event.position),
                  KVRT_DETAIL_NUMERIC);
}

kvrt_status next(Session* session, Event* out) {
  Result<Event> event = session->next();
  if (Interrupt::came()) return KVRT_CANCELLED;
  *out = *event;
  return checked(event.status(), "cannot compute");
}

kvrt_status advance(Run* run) {
  Event event;
  if (kvrt_status s = next(&run->session, &event)) return s;
  if (event.type == KVRT_EVENT_DONE && run->done < run->tokens->size())
    return complain(KVRT_LIMIT, "cannot score: the model's context, or the pool, cannot hold a prompt and its choice: raise --kv-bytes");
  run->over = event.type == KVRT_EVENT_DONE;
  if (event.type != KVRT_EVENT_LOGITS) return KVRT_OK;
  const int32_t token = (*run->tokens)[run->done++];
  double one = 0;
  if (kvrt_status s = log_probability(event, token, &one)) return s;
  *run->sum += one;
  return checked(run->session.accept(token), "cannot score");
}

// All of them, in turn: while one's next token comes, so do the others'.
kvrt_status run_all(std::span<Run> runs, Place* place) {
  for (size_t left = runs.size(); left > 0;) {
    for (Run& run : runs) {
      if (run.over) continue;
      place->position = run.session.info()->tokens - 1;
      if (kvrt_status s = advance(&run)) return s;
      left -= run.over;
    }
  }
  return KVRT_OK;
}

kvrt_status open(const Model& model, const std::vector<int32_t>& tokens, Session* out) {
  auto options = init<kvrt_session_options>();
  options.no_prefix_cache = 1;  // each item is computed anew: none depends on those before
  if (kvrt_status s = take(Session::open(model, options), *out, "cannot open a session")) return s;
  return checked(out->append(tokens), "cannot append tokens");
}

kvrt_status prefill(std::vector<Session>& sessions) {
  auto options = init<kvrt_generate_options>();
  options.prefill = 1;
  for (Session& session : sessions) {
    if (kvrt_status s = checked(session.begin(options), "cannot compute")) return s;
  }
  for (Session& session : sessions) {
    for (Event event; event.type != KVRT_EVENT_DONE;) {
      if (kvrt_status s = next(&session, &event)) return s;
    }
  }
  return KVRT_OK;
}

}  // namespace

uint64_t ItemTokens::rows() const {
  uint64_t sum = prompt.size();
  for (const auto& choice : choices) sum += choice.size();
  return sum;
}

Scorer::Scorer(const Model& model, uint32_t tokens_max, Place* place) : model_(model), place_(place), tokens_max_(tokens_max) {
  const auto info = model.info();
  if (info->add_bos) flags_ |= KVRT_TEXT_BOS;
  prefix_ = info->bos_token >= 0 ? info->bos_token : info->eos_token;
  room_ = tokens_held(*info) / 2;
  block_ = info->block_tokens;
}

kvrt_status Scorer::tokens_of(const std::string& text, std::vector<int32_t>* out) const {
  return tokenize(model_, text, KVRT_TEXT_SPECIAL, *out);
}

// White space at the prompt's end belongs to the choices, as words begin with it.
kvrt_status Scorer::tokens_of(const DataFile& file, const Item& item, ItemTokens* out) const {
  const auto refuse = [&](size_t choice, const std::string& why) {
    return complain(KVRT_INVALID, fmt::format("--data: {}:{}: choice {}: {}", in_quotes(file.path), item.line, choice, why));
  };
  const std::string prompt = item.prompt.substr(0, item.prompt.size() - white_space_at_end(item.prompt));
  const std::string between = item.prompt.substr(prompt.size()) + item.delimiter;
  const uint32_t flags = prompt.empty() ? uint32_t{KVRT_TEXT_SPECIAL} : flags_;
  if (!prompt.empty()) {
    if (kvrt_status s = tokenize(model_, prompt, flags, out->prompt)) return s;
  }
  const size_t first = out->prompt.size();
  if (out->prompt.empty()) out->prompt.push_back(prefix_);
  for (size_t i = 0; i < item.choices.size(); ++i) {
    std::vector<int32_t> whole;
    if (kvrt_status s = tokenize(model_, prompt + between + item.choices[i], flags, whole)) return s;
    if (whole.size() <= first) return refuse(i, "its characters become one token with the prompt's last ones: end the prompt elsewhere");
    out->choices.emplace_back(whole.begin() + static_cast<ptrdiff_t>(first), whole.end());
    const size_t tokens = out->prompt.size() + out->choices.back().size();
    if (tokens > tokens_max_)
      return refuse(i, fmt::format("it has {} tokens with the prompt, more than the {} of --tokens", tokens, tokens_max_));
  }
  return KVRT_OK;
}

size_t Scorer::fit(std::span<const ItemTokens> items) const {
  size_t count = 0, choices = 0;
  for (uint64_t tokens = 0; count < items.size(); ++count) {
    const ItemTokens& item = items[count];
    choices += item.choices.size();
    tokens += item.rows() + (item.choices.size() + 1) * block_;
    if (choices > kBeside || tokens > room_) break;
  }
  return std::max<size_t>(count, 1);
}

kvrt_status Scorer::score(std::span<const ItemTokens> items, std::vector<Answers>* out) {
  std::vector<Session> prompts(items.size());
  out->resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (kvrt_status s = open(model_, items[i].prompt, &prompts[i])) return s;
  }
  if (kvrt_status s = prefill(prompts)) return s;
  std::vector<Run> runs;
  for (size_t i = 0; i < items.size(); ++i) {
    Answers& answers = (*out)[i];
    answers.scores.resize(items[i].choices.size());
    answers.rows = items[i].rows();
    for (size_t c = 0; c < items[i].choices.size(); ++c) {
      Run run;
      run.tokens = &items[i].choices[c];
      run.sum = &answers.scores[c];
      if (kvrt_status s = take(prompts[i].fork(), run.session, "cannot copy a session")) return s;
      runs.push_back(std::move(run));
    }
  }
  prompts.clear();
  for (size_t begin = 0; begin < runs.size(); begin += kBeside) {
    const std::span<Run> some = std::span(runs).subspan(begin, std::min(kBeside, runs.size() - begin));
    for (Run& run : some) {
      auto options = init<kvrt_generate_options>();
      options.sampler = KVRT_SAMPLER_HOST;
      options.max_tokens = run.tokens->size();
      options.ignore_eos = 1;
      if (kvrt_status s = checked(run.session.begin(options), "cannot compute")) return s;
    }
    if (kvrt_status s = run_all(some, place_)) return s;
  }
  for (const Answers& answers : *out) rows_ += answers.rows;
  return KVRT_OK;
}

kvrt_status Scorer::score(const Window& window, Answers* out) {
  Session session;
  if (kvrt_status s = open(model_, window.tokens, &session)) return s;
  auto options = init<kvrt_generate_options>();
  options.prefill = 1;
  options.logits = KVRT_LOGITS_ALL;
  if (kvrt_status s = checked(session.begin(options), "cannot compute")) return s;
  for (Event event; event.type != KVRT_EVENT_DONE;) {
    if (kvrt_status s = next(&session, &event)) return s;
    const uint64_t at = event.position + 1;
    place_->position = event.position;
    if (event.type != KVRT_EVENT_LOGITS || at < window.context || at >= window.tokens.size()) continue;
    out->scores.emplace_back();
    if (kvrt_status s = log_probability(event, window.tokens[at], &out->scores.back())) return s;
  }
  out->rows = window.tokens.size();
  rows_ += out->rows;
  return KVRT_OK;
}

}  // namespace cli::eval
