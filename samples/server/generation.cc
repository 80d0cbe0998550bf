#include "generation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "room.h"

namespace {

class LogProbs {
 public:
  explicit LogProbs(kvrt::Span<const float> logits) : logits_(logits) {
    const float most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
    log_sum_ = most + std::log(sum);
  }
  double of(int32_t token) const { return logits_[static_cast<size_t>(token)] - log_sum_; }
  std::vector<kvrt_token_value> best(size_t count) const {
    std::vector<int32_t> tokens(logits_.size());
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
    count = std::min(count, tokens.size());
    const auto value = [&](int32_t token) {
      const float x = logits_[static_cast<size_t>(token)];
      return std::isnan(x) ? -INFINITY : x;
    };
    const auto before = [&](int32_t a, int32_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; };
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count), tokens.end(), before);
    std::vector<kvrt_token_value> out;
    for (size_t i = 0; i < count; ++i) out.push_back({tokens[i], static_cast<float>(of(tokens[i]))});
    return out;
  }

 private:
  kvrt::Span<const float> logits_;
  double log_sum_ = 0;
};

}  // namespace

Generation::Generation(const kvrt::Model& model, Conversations& conversations, Watcher& watcher, const Request& request,
                       const std::string& domain, int socket, std::chrono::seconds limit)
    : model_(model), conversations_(conversations), request_(request), watch_(watcher, socket, limit) {
  if (!request.messages.empty()) {
    conversation_ = conversations.take(request, domain);
    conversations.begins(conversation_, watch_.cancel());
  }
  try {
    begin_all(domain);
    if (conversation_ && !conversations.is_as_sent(*conversation_)) {
      end_all();
      conversation_ = conversations.renew(conversation_, request);
      begin_all(domain);
    }
    if (conversation_) conversations.begun(conversation_);
  } catch (...) {
    end_all();
    if (conversation_) conversations.drop(conversation_);
    throw;
  }
}

// Each prompt has n choices, which share its KV: the first computes it, the others are forks that wait for it.
void Generation::begin_all(const std::string& domain) {
  const size_t prompts = conversation_ ? 1 : request_.prompts.size();
  std::vector<kvrt::Session*> sessions;
  for (size_t p = 0; p < prompts; ++p) {
    kvrt::Session* first =
        conversation_ ? &conversation_->session : &sessions_.emplace_back(conversations_.open_text(request_.prompts[p], domain));
    sessions.push_back(first);
    if (request_.echo && request_.logprobs) scores_.push_back(score(first, request_.prompts[p]));
    for (uint32_t i = 1; i < request_.n; ++i) sessions.push_back(&sessions_.emplace_back(first->fork().or_throw()));
  }
  for (uint32_t i = 0; i < sessions.size(); ++i) begin(i, sessions[i], i % request_.n == 0);
}

void Generation::end_all() {
  for (Choice& c : choices_) (void)c.session->cancel();
  for (Choice& c : choices_) {
    kvrt::Status end;
    for (const kvrt::Event& e : c.session->events(end)) (void)e;
  }
  choices_.clear();
  sessions_.clear();
}

void Generation::begin(uint32_t index, kvrt::Session* session, bool first) {
  kvrt_generate_options options = request_.generate_options(index);
  options.cancel = watch_.cancel().get();
  if (!request_.no_answer) session->begin(options).or_throw();
  Choice choice;
  choice.session = session;
  choice.first = first;
  choices_.push_back(std::move(choice));
  const uint64_t most = tokens_max(model_), has = session->info().or_throw().tokens;
  if (has >= most && !request_.no_answer) throw too_long(most, {has}, conversation_ != nullptr);
  if (!request_.echo) return;
  const Prompt& prompt = request_.prompts[index / request_.n];
  std::string text = prompt.text;
  if (!prompt.tokens.empty()) (void)model_.detokenize(prompt.tokens, KVRT_TEXT_SPECIAL, text);
  if (!scores_.empty()) choices_.back().chances = scores_[index / request_.n];
  add(index, Piece::kContent, valid_utf8(text));
  if (!request_.no_answer) return;
  choices_.back().over = true;
  if (first) usage_.prompt += has;
  end(index, "length");
}

// Computes the prompt: its tokens, each with its chance. A BOS that kvrt put before a text is no part of it.
std::vector<TokenChance> Generation::score(kvrt::Session* session, const Prompt& prompt) const {
  std::vector<int32_t> tokens;
  session->tokens(tokens).or_throw();
  auto options = kvrt::init<kvrt_generate_options>();
  options.prefill = 1;
  options.logits = KVRT_LOGITS_ALL;
  options.cancel = watch_.cancel().get();
  session->begin(options).or_throw();
  std::vector<TokenChance> out = {chance(tokens[0], NAN, {})};
  kvrt::Status end;
  for (const kvrt::Event& e : session->events(end)) {
    if (e.type == KVRT_EVENT_DONE && e.reason == KVRT_REASON_CANCELLED) check_ended();
    if (e.type != KVRT_EVENT_LOGITS || e.position + 1 >= tokens.size()) continue;
    const LogProbs probs(e.logits_span());
    const int32_t token = tokens[e.position + 1];
    out.push_back(chance(token, probs.of(token), probs.best(request_.options.top_logprobs)));
  }
  end.or_throw();
  const auto info = model_.info().or_throw();
  if (prompt.tokens.empty() && (prompt.text.empty() || (info.add_bos && tokens[0] == info.bos_token))) out.erase(out.begin());
  // Nor is the space that some vocabularies put there.
  if (!out.empty() && out[0].bytes.starts_with(' ') && !prompt.text.empty() && prompt.text[0] != ' ') out[0].bytes.erase(0, 1);
  return out;
}

Generation::~Generation() {
  cancel();
  for (Choice& c : choices_) {
    if (c.over) continue;
    kvrt::Status end;
    for (const kvrt::Event& e : c.session->events(end)) (void)e;  // up to its end, within a step
  }
  save();
}

void Generation::save(const std::string& response) noexcept {
  if (std::exchange(saved_, true)) return;
  if (conversation_) {
    const auto info = conversation_->session.info();
    if (const uint64_t cut = choices_[0].cut; cut > 0 && info.ok())
      (void)conversation_->session.truncate(info->tokens - std::min(cut, info->tokens));
    if (!response.empty()) conversations_.keep(&conversation_, request_, response);
    conversations_.give_back(conversation_, request_);
  }
  for (size_t p = 0; p < request_.prompts.size(); ++p) conversations_.save_text(*choices_[p * request_.n].session, request_.prompts[p]);
}

std::optional<Piece> Generation::next() {
  while (ready_.empty()) {
    uint32_t tried = 0;
    while (tried < choices_.size() && choices_[turn_].over) turn_ = (turn_ + 1) % choices_.size(), ++tried;
    if (tried == choices_.size()) return std::nullopt;
    // The choices are computed together: while this one's next token comes, so do the others'.
    const auto event = choices_[turn_].session->next(-1);
    if (!event.ok()) {
      choices_[turn_].over = true;
      event.status().or_throw();
    }
    take(turn_, *event);
    turn_ = (turn_ + 1) % choices_.size();
  }
  Piece piece = std::move(ready_.front());
  ready_.pop_front();
  return piece;
}

void Generation::take(uint32_t index, const kvrt::Event& event) {
  Choice& c = choices_[index];
  const bool whole = request_.options.reply == KVRT_REPLY_DEFAULT;  // tokens are the answer, and not parts of it
  switch (event.type) {
    case KVRT_EVENT_TOKEN:
      ++c.unclaimed;
      if (request_.logprobs) add_chance(&c, event);
      if (whole) add(index, Piece::kContent, event.text_view());
      break;
    case KVRT_EVENT_CONTENT:
      // Where calls alone may come, other text is a call that was cut: nothing that a client could show or run.
      if (!request_.must_call()) add(index, Piece::kContent, event.text_view());
      break;
    case KVRT_EVENT_REASONING:
      add(index, Piece::kReasoning, event.text_view());
      break;
    case KVRT_EVENT_TOOL_CALL:
      c.called = true;
      add(index, Piece::kCall, event.text_view());
      break;
    case KVRT_EVENT_DONE:
      // The end is no part of the text. Beside a prompt's chances it has its own: harnesses count one entry for each token.
      if (event.reason == KVRT_REASON_EOS && !request_.echo) c.mark.reset();
      if (whole) add(index, Piece::kContent, event.text_view());
      finish(index, event);
      break;
    default:
      break;
  }
}

// A token without text of its own may be the end of the turn, which text that was held back follows: it waits for the next one.
void Generation::add_chance(Choice* c, const kvrt::Event& event) const {
  if (c->mark) c->chances.push_back(std::move(*c->mark));
  c->mark.reset();
  TokenChance one = chance(event.token, event.logprob, event.top_span());
  if (bytes_of(event.token, 0).empty())
    c->mark = std::move(one);
  else
    c->chances.push_back(std::move(one));
}

// Text goes on as it comes, but for what may stand for a half of a character at the end of all.
void Generation::add(uint32_t index, Piece::Kind kind, std::string_view text) {
  constexpr std::string_view kBroken = "\uFFFD";
  Choice& c = choices_[index];
  if (text.empty()) return;
  if (c.held_kind != kind) release(index);
  std::string now = std::exchange(c.held, "") + std::string(text);
  if (kind != Piece::kCall && now.ends_with(kBroken)) {
    now.resize(now.size() - kBroken.size());
    c.held = kBroken;
    c.held_kind = kind;
  }
  if (!now.empty()) give(index, kind, std::move(now));
}

void Generation::release(uint32_t index) {
  Choice& c = choices_[index];
  if (!c.held.empty()) give(index, c.held_kind, std::exchange(c.held, ""));
}

void Generation::give(uint32_t index, Piece::Kind kind, std::string text) {
  Choice& c = choices_[index];
  Piece piece;
  piece.kind = kind;
  piece.choice = index;
  piece.text = std::move(text);
  if (kind == Piece::kContent)
    piece.chances = std::move(c.chances);
  else
    c.mark.reset();
  if (kind == Piece::kReasoning) usage_.reasoning += c.unclaimed;
  c.answers = kind == Piece::kContent;
  c.chances.clear();
  c.unclaimed = 0;
  ready_.push_back(std::move(piece));
}

// Of an answer that was cut: what there is of a character that it does not end is no part of its text, nor of the conversation if it has tokens
// of its own.
void Generation::end_whole(Choice* c) {
  constexpr uint64_t kMost = 3;  // tokens with bytes of it
  const uint64_t all = c->session->info().or_throw().tokens, end = all - std::min(c->cut, all), begin = end - std::min(kMost, end);
  std::string tail, cut;
  if (!c->session->text(begin, end, 0, tail).ok() || !c->session->text(end, all, 0, cut).ok()) return;
  size_t stop = cut.size();  // where it begins, perhaps within a token
  for (size_t at = 0; at < request_.stop.size(); at += std::strlen(&request_.stop[at]) + 1)
    stop = std::min(stop, cut.find(&request_.stop[at]));
  const size_t half = half_character(tail + cut.substr(0, stop));
  if (half == 0) return;
  c->held.clear();
  for (uint64_t tokens = 1; stop == 0 && tokens <= end - begin; ++tokens) {
    if (!c->session->text(end - tokens, end, 0, tail).ok() || tail.size() < half) continue;
    if (tail.size() == half) c->cut += tokens;
    return;
  }
}

void Generation::finish(uint32_t index, const kvrt::Event& event) {
  Choice& c = choices_[index];
  const kvrt_report& report = *event.report;
  c.over = true;
  c.cut = report.stop_string_tokens;
  usage_.completion += report.generated;
  usage_.drafted += report.drafted;
  usage_.accepted += report.accepted;
  if (c.first) {
    usage_.prompt += report.prompt_tokens;
    if (scores_.empty()) usage_.cached += report.reused_memory + report.reused_disk;
  }
  if (event.reason == KVRT_REASON_CANCELLED) check_ended();
  const bool full = event.reason == KVRT_REASON_MAX_TOKENS || event.reason == KVRT_REASON_CONTEXT_FULL;
  if (full || event.reason == KVRT_REASON_STOP) end_whole(&c);
  end(index, full ? "length" : c.called ? "tool_calls" : "stop");
}

void Generation::end(uint32_t index, const char* reason) {
  release(index);
  Choice& c = choices_[index];
  Piece piece;
  piece.kind = Piece::kEnd;
  piece.choice = index;
  // Of tokens that no text came of: a stop text cut it.
  if (c.mark) c.chances.push_back(std::move(*c.mark));
  if (c.answers && !request_.must_call()) piece.chances = std::move(c.chances);
  piece.reason = reason;
  ready_.push_back(std::move(piece));
}

void Generation::check_ended() const {
  switch (watch_.reason()) {
    case Watcher::kLate:
      throw ApiError(503, "the request took longer than this server's time limit", "time_limit");
    case Watcher::kStopping:
      throw ApiError(503, "the server is stopping; the conversation is saved: ask again when it is back", "server_stopping");
    default:
      throw ApiError(503, "the client ended its side of the connection: keep it open until the answer is there", "client_gone");
  }
}

// The token's own bytes, as they stand within a text: some vocabularies leave out the space before the first token.
std::string Generation::bytes_of(int32_t token, uint32_t flags) const {
  const int32_t twice[] = {token, token};
  std::string one, two;
  (void)model_.detokenize(kvrt::Span<const int32_t>(twice, 1), flags, one);
  (void)model_.detokenize(kvrt::Span<const int32_t>(twice, 2), flags, two);
  return two.substr(std::min(one.size(), two.size()));
}

TokenChance Generation::chance(int32_t token, double logprob, kvrt::Span<const kvrt_token_value> others) const {
  TokenChance out{bytes_of(token), logprob, {}};
  for (const kvrt_token_value& other : others) out.others.push_back({bytes_of(other.token), other.value, {}});
  return out;
}
