#include "runtime/engine/drafting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/json.h"

namespace kvrt {

// A session whose tokens are those of another from a position on, and after them what it drafted.
class Drafting::Own final : public Draft {
 public:
  explicit Own(std::shared_ptr<Drafting> model) : model_(std::move(model)), context_(model_->model_.dims().context) {}
  ~Own() override {
    if (session_) model_->sessions_->close(session_);
  }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  Status open(const SessionOptions& options) {
    KVRT_ASSIGN(session_, model_->sessions_->open(options));
    if (!session_->kv.shape.has_states()) return {};
    return error(Code::kUnsupported, Detail::kNone, "a draft goes back with each token that did not come, and a state does not go back");
  }

  uint64_t begins_at() const override { return begin_; }
  uint64_t behind(std::span<const int32_t> tokens) const override {
    if (begin_ > tokens.size()) return tokens.size();
    return tokens.size() - begin_ - std::min<uint64_t>(same_as(tokens), model_->sessions_->info(session_).kv_tokens);
  }
  void begin_at(uint64_t position) override { begin_ = position; }
  uint64_t sees_most() const override { return sees_most_; }
  void next_generation() override { sees_most_ = context_; }
  bool ask(const Ask& ask) override;
  std::vector<Proposed> take() override { return std::exchange(drafted_, {}); }

  bool runs() const { return asked_ && !over_; }
  void look();  // takes the events that came
  // Ends what it computes. False: another thread computes it.
  bool stop() {
    if (!over_) model_->driver_->cancel(session_);
    look();
    return over_;
  }

 private:
  // The leading tokens that it has of the other's.
  size_t same_as(std::span<const int32_t> tokens) const {
    const auto theirs = tokens.subspan(std::min<size_t>(begin_, tokens.size()));
    return static_cast<size_t>(std::ranges::mismatch(tokens_, theirs).in1 - tokens_.begin());
  }
  bool follow(std::span<const int32_t> tokens);
  bool too_many(uint64_t n);

  const std::shared_ptr<Drafting> model_;
  const uint64_t context_;  // tokens
  Session* session_ = nullptr;
  uint64_t sees_most_ = context_;
  uint64_t counted_ = 0;         // of the other's tokens, by vocab_wanted
  uint64_t begin_ = 0;           // the other's position of its first token
  std::vector<int32_t> tokens_;  // of the session
  bool asked_ = false, over_ = true;
  const Chances* chances_ = nullptr;  // this and the next one: of the last Ask, valid as long as it is not over
  std::vector<float> least_;
  float chance_ = 1;  // that all drafted tokens come
  bool enough_ = false;
  std::vector<Proposed> drafted_;
};

bool Drafting::Own::follow(std::span<const int32_t> tokens) {
  const size_t same = same_as(tokens);
  Conversations& conversations = *model_->conversations_;
  if (same < tokens_.size() && !conversations.truncate(session_, same).is_ok()) return too_many(tokens.size());
  tokens_.resize(same);
  const auto rest = tokens.subspan(begin_ + same);
  const auto vocab = static_cast<int32_t>(model_->model_.tokenizer().vocab_size());
  const auto foreign = std::find_if(rest.rbegin(), rest.rend(), [&](int32_t token) { return token >= vocab; });
  if (foreign != rest.rend()) {
    begin_ = tokens.size() - static_cast<size_t>(foreign - rest.rbegin());
    return false;
  }
  if (!rest.empty() && !conversations.append(session_, rest).is_ok()) return too_many(tokens.size());
  tokens_.insert(tokens_.end(), rest.begin(), rest.end());
  return true;
}

// Its context or its pool is too small for all that it was to see of the `n` tokens, or it failed: it begins anew, with fewer. False.
bool Drafting::Own::too_many(uint64_t n) {
  sees_most_ = std::min(sees_most_, n - std::min(n, begin_ + 1));
  begin_ = n;
  return false;
}

bool Drafting::Own::ask(const Ask& ask) {
  asked_ = false;
  const bool stopped = stop();
  drafted_.clear();
  if (!stopped || ask.tokens.size() <= begin_ || !follow(ask.tokens)) return false;
  GenerateOptions options;
  options.max_tokens = static_cast<uint32_t>(ask.least.size());
  options.generation_prompt = false;
  options.sampling = *ask.sampling;
  options.sampling.top_logprobs = 0;
  options.draw_offset = begin_;
  counted_ = std::min<uint64_t>(counted_, ask.tokens.size());
  options.vocab_wanted = model_->vocab_wanted(ask.tokens.subspan(std::exchange(counted_, ask.tokens.size())));
  std::erase_if(options.sampling.logit_bias,
                [&](const TokenValue& bias) { return static_cast<uint32_t>(bias.token) >= model_->model_.tokenizer().vocab_size(); });
  if (!model_->driver_->begin(session_, std::move(options)).is_ok()) return too_many(ask.tokens.size());
  chances_ = ask.chances;
  least_.assign(ask.least.begin(), ask.least.end());
  chance_ = 1;
  enough_ = false;
  asked_ = true;
  over_ = false;
  return true;
}

void Drafting::Own::look() {
  while (!over_) {
    auto next = model_->driver_->next(session_, 0);
    if (!next.is_ok()) {
      over_ = true;
      too_many(begin_ + tokens_.size());
    } else if (next->type == EventType::kIdle || next->type == EventType::kDone) {
      over_ = true;
    } else if (next->type == EventType::kNone) {
      return;
    } else if (next->type == EventType::kToken) {
      tokens_.push_back(next->token);
      if (!asked_ || enough_ || model_->model_.tokenizer().is_end(next->token)) continue;
      const uint8_t rank = rank_of(std::exp(next->logprob));
      drafted_.push_back({next->token, chances_->of(rank), rank});
      chance_ *= drafted_.back().chance;
      enough_ = drafted_.size() == least_.size() || chance_ < least_[drafted_.size() - 1];
      if (enough_) model_->driver_->cancel(session_);
    }
  }
}

std::unique_ptr<Draft> Drafting::open(const std::string& domain, bool share) {
  SessionOptions options;
  options.domain = domain;
  options.share = share;
  options.drafts = true;
  auto own = std::make_unique<Own>(self_.lock());
  if (!own->open(options).is_ok()) return nullptr;
  return own;
}

uint32_t Drafting::vocab_wanted(std::span<const int32_t> more) {
  Lock lock(mu_);
  const Tokenizer& tokenizer = model_.tokenizer();
  for (const int32_t token : more) {
    if (static_cast<uint32_t>(token) < tokenizer.vocab_size() && !tokenizer.is_control(token)) leading_.add(token);
  }
  return leading_.enough();
}

uint64_t Drafting::run(std::span<Draft* const> drafts, uint64_t deadline_ns, const std::function<bool()>& enough) {
  uint64_t rows = 0;
  const auto run = [&] {  // true: something is left to compute
    bool runs = false;
    for (Draft* draft : drafts) {
      auto* own = static_cast<Own*>(draft);
      own->look();
      runs |= own->runs();
    }
    return runs;
  };
  while (run() && env_->now_ns() < deadline_ns && !enough()) {
    const std::optional<uint64_t> ran = driver_->try_step();
    if (!ran) break;
    rows += *ran;
  }
  for (Draft* draft : drafts) static_cast<Own*>(draft)->stop();  // else it would wait before this model's hosts
  return rows;
}

Status Drafting::check_vocabulary(const Tokenizer& target) {
  const Tokenizer& own = model_.tokenizer();
  Lock lock(mu_);
  if (std::ranges::find(fit_, target.text_id()) != fit_.end()) return {};
  const auto both = static_cast<int32_t>(std::min(own.vocab_size(), target.vocab_size()));
  for (int32_t id = 0; id < both; ++id) {
    if (own.is_unused(id) || target.is_unused(id)) continue;
    if (own.piece(id, true) == target.piece(id, true) && own.is_control(id) == target.is_control(id)) continue;
    std::string here, there;
    append_json_string(own.piece(id, true), &here);
    append_json_string(target.piece(id, true), &there);
    return error(Code::kIncompatible, Detail::kNone,
                 "draft: token %d of %s is %s, in the session's model it is %s: a draft needs the same vocabulary", id,
                 model_.name().c_str(), here.c_str(), there.c_str());
  }
  fit_.push_back(target.text_id());
  return {};
}

}  // namespace kvrt
