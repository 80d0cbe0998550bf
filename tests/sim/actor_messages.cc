// Actors: conversations. The text of the tokens is the template's rendering, and sampled tokens stay as they were.
#include <algorithm>

#include "runtime/text/template/chat_template.h"
#include "tests/sim/actor.h"

namespace kvrt::test {

namespace {
std::string as_json(const Said& m) {
  std::string json = "{\"role\":\"" + m.role + "\",\"content\":\"";
  for (char c : m.content) json += c == '\n' ? std::string("\\n") : std::string(1, c);
  return json + "\"}";
}
}  // namespace

uint64_t Actor::generated_end() const {
  uint64_t end = 0;
  for (const Said& m : said_) end = m.generated ? m.end : end;
  return end;
}

// The tokens of the whole conversation templated at once; promised where nothing was generated.
std::vector<int32_t> Actor::rendered(const std::vector<int32_t>& old, bool generation_prompt) const {
  std::vector<int32_t> want;
  if (w_->tokenizer->add_bos() && (old.empty() || old[0] == kToyBos)) want.push_back(kToyBos);
  SIM_CHECK(w_->tokenizer->encode(oracle_render(said_, generation_prompt), true, &want).is_ok(), "encode");
  return want;
}

// Checks the session after a call that made it say said_. whole: nothing of it was generated.
void Actor::check_rewrite(const std::vector<int32_t>& old, bool generation_prompt, bool whole) {
  const Tokenizer& t = *w_->tokenizer;
  std::string text = oracle_render(said_, generation_prompt);
  size_t skip = t.add_bos() && !tokens_.empty() && tokens_[0] == kToyBos ? 1 : 0;
  SIM_CHECK(oracle_text(t, tokens_, skip, tokens_.size(), true) == text, "the tokens do not spell the conversation: \"%s\" for \"%s\"",
            oracle_text(t, tokens_, skip, tokens_.size(), true).c_str(), text.c_str());
  for (size_t i = 0; i < said_.size(); ++i) {
    if (said_[i].generated) continue;
    std::vector<Said> first(said_.begin(), said_.begin() + static_cast<ptrdiff_t>(i) + 1);
    std::string upto = oracle_text(t, tokens_, skip, std::max<uint64_t>(said_[i].end, skip), true);
    SIM_CHECK(upto == oracle_render(first, false), "message %zu ends at token %zu, after \"%s\", expected \"%s\"", i, size_t{said_[i].end},
              upto.c_str(), oracle_render(first, false).c_str());
  }
  if (whole) {
    SIM_CHECK(tokens_ == rendered(old, generation_prompt), "other tokens than templating the whole conversation gives");
  }
}

void Actor::check_appended(const std::vector<int32_t>& old, const AppendInfo& info) {
  SIM_CHECK(info.rewritten_at <= old.size() && old.size() == info.rewritten_at + info.rewritten &&
                tokens_.size() == info.rewritten_at + info.appended,
            "rewritten at %zu: %zu of %zu tokens, appended %zu, now %zu", size_t{info.rewritten_at}, size_t{info.rewritten}, old.size(),
            size_t{info.appended}, tokens_.size());
  auto parted = std::mismatch(old.begin(), old.end(), tokens_.begin(), tokens_.end()).first - old.begin();
  SIM_CHECK(static_cast<uint64_t>(parted) == info.rewritten_at, "rewritten at %zu, parted at %zu", size_t{info.rewritten_at},
            size_t(parted));
  if (info.rewritten) w_->note("rewritten");
}

// Spans are the host's to say; the rest is compared.
void Actor::adopt_messages() {
  for (uint64_t i = 0; i < said_.size(); ++i) {
    auto m = w_->engine->conversations().message(session_, i);
    SIM_CHECK(m.has_value(), "message %zu is missing", size_t{i});
    said_[i].begin = m->begin;
    said_[i].end = m->end;
    said_[i].generated = m->generated;
  }
  check_messages();
}

void Actor::check_messages() const {
  SIM_CHECK(!w_->engine->conversations().message(session_, said_.size()), "more than %zu messages", said_.size());
  uint64_t at = 0;
  for (uint64_t i = 0; i < said_.size(); ++i) {
    auto m = w_->engine->conversations().message(session_, i);
    SIM_CHECK(m && same_message(m->json, *normalize_message(as_json(said_[i]))), "message %zu: %s, expected %s", size_t{i},
              m ? m->json.c_str() : "none", as_json(said_[i]).c_str());
    SIM_CHECK(m->begin == said_[i].begin && m->end == said_[i].end && m->generated == said_[i].generated,
              "message %zu is at %zu to %zu, expected %zu to %zu", size_t{i}, size_t{m->begin}, size_t{m->end}, size_t{said_[i].begin},
              size_t{said_[i].end});
    SIM_CHECK(at <= m->begin && m->begin <= m->end && m->end <= tokens_.size(), "message %zu of %zu tokens is at %zu to %zu after %zu",
              size_t{i}, tokens_.size(), size_t{m->begin}, size_t{m->end}, size_t{at});
    at = m->end;
  }
}

void Actor::append_message() {
  Said m{w_->random->one_in(4) ? "system" : "user", some_text(6), 0, 0, false};
  auto old = tokens_;
  const uint64_t pinned = generated_end();
  auto info = w_->engine->conversations().append_message(session_, as_json(m));
  said_.push_back(m);
  if (!info.is_ok()) {
    SIM_CHECK(info.status().code() == Code::kLimit, "append_message: %s", info.status().message().c_str());
    SIM_CHECK(pinned || rendered(old, false).size() > w_->room, "append_message: LIMIT for a conversation that fits");
    said_.pop_back();
    w_->note("messages refused");
    return;
  }
  std::string text = oracle_render(said_, false);
  size_t skip = w_->tokenizer->add_bos() && !old.empty() && old[0] == kToyBos ? 1 : 0;
  std::string spelled = oracle_text(*w_->tokenizer, old, skip, std::max<size_t>(pinned, skip), true);
  tokens_ = w_->engine->conversations().tokens(session_);
  if (pinned && text.compare(0, spelled.size(), spelled) == 0) {
    SIM_CHECK(tokens_.size() >= pinned && std::equal(old.begin(), old.begin() + static_cast<ptrdiff_t>(pinned), tokens_.begin()),
              "a generated turn that the template spells was tokenized anew");
    w_->note("generated turns kept");
  }
  adopt_messages();
  check_rewrite(old, false, pinned == 0);
  check_appended(old, *info);
  w_->note("messages");
}

void Actor::set_messages() {
  auto old = tokens_;
  size_t keep = w_->random->below(said_.size() + 1);
  if (w_->random->one_in(2)) keep = said_.size();
  std::vector<Said> list(said_.begin(), said_.begin() + static_cast<ptrdiff_t>(keep));
  for (uint64_t n = w_->random->below(3); n > 0; --n) list.push_back({n % 2 ? "user" : "assistant", some_text(5), 0, 0, false});
  std::string json = "[";
  for (const Said& m : list) json += (json.size() > 1 ? "," : "") + as_json(m);
  const uint64_t pinned = generated_end();
  auto info = w_->engine->conversations().set_messages(session_, json + "]");
  if (!info.is_ok()) {
    SIM_CHECK(info.status().code() == Code::kLimit, "set_messages: %s", info.status().message().c_str());
    return;
  }
  size_t same = 0;
  while (same < std::min(list.size(), said_.size()) && list[same].role == said_[same].role && list[same].content == said_[same].content)
    ++same;
  said_ = list;
  tokens_ = w_->engine->conversations().tokens(session_);
  adopt_messages();
  if (list.size() > same) check_rewrite(same ? old : std::vector<int32_t>{}, false, pinned == 0);
  check_appended(old, *info);
  w_->note("conversations set");
}

}  // namespace kvrt::test
