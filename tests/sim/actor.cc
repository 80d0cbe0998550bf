#include "tests/sim/actor.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>

namespace kvrt::test {

void fail(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Failure{text};
}

Actor::Actor(Setting* setting, SessionOptions o, std::shared_ptr<Bell> bell) : options(std::move(o)), w_(setting), bell_(std::move(bell)) {
  options.wake = bell_;
  auto opened = w_->engine->sessions().open(options);
  SIM_CHECK(opened.is_ok(), "open: %s", opened.status().message().c_str());
  session_ = *opened;
  id_ = w_->engine->sessions().info(session_).id;
}

Actor::Actor(Setting* setting, SessionOptions o, std::shared_ptr<Bell> bell, Session* resumed)
    : options(std::move(o)), w_(setting), session_(resumed), bell_(std::move(bell)) {}

void Actor::close() {
  if (session_) w_->engine->sessions().close(session_);
  session_ = nullptr;
}

// ---- texts

// Three texts in all, by position: sessions meet in their prefixes, and part somewhere.
std::vector<int32_t> Actor::some_tokens(uint64_t count) {
  uint64_t kind = 1 + w_->random->below(w_->random->one_in(4) ? 1000 : 3), vocab = w_->tokenizer->vocab_size();
  std::vector<int32_t> fresh(count);
  for (uint64_t i = 0; i < count; ++i) fresh[i] = static_cast<int32_t>(Random(kind << 32 | (tokens_.size() + i)).below(vocab));
  return fresh;
}

std::string Actor::some_text(uint64_t max) {
  static const char* const kWords[] = {"a", "bab", "cd", "er", "an", "\u00e9", "mist", " ", "tide", "abcd"};
  std::string text;
  for (uint64_t n = w_->random->below(max + 1); n > 0; --n) text += kWords[w_->random->below(std::size(kWords))];
  return text;
}

void Actor::append() {
  uint64_t count = w_->random->below(w_->random->one_in(3) ? w_->room : 40);
  auto fresh = some_tokens(count);
  bool bad = w_->random->one_in(40) && count;
  if (bad) fresh[w_->random->below(count)] = w_->random->one_in(2) ? -1 : static_cast<int32_t>(w_->tokenizer->vocab_size());
  Status status = w_->engine->conversations().append(session_, fresh);
  bool fits = count == 0 || tokens_.size() + count <= w_->room;
  Code want = !fits ? Code::kLimit : bad ? Code::kInvalid : Code::kOk;
  SIM_CHECK(status.code() == want, "append of %zu to %zu in %zu: %s", size_t{count}, tokens_.size(), size_t{w_->room},
            status.message().c_str());
  if (status.is_ok()) tokens_.insert(tokens_.end(), fresh.begin(), fresh.end());
  if (status.is_ok() && count % 3 == 1) {
    const KvShape& shape = w_->engine->info().kv.shape;
    const bool room = shape.units_for(tokens_.size()) + shape.boundary_units() <= w_->engine->info().units;
    const Status marked = w_->engine->conversations().mark(session_, tokens_.size() - count / 2);
    SIM_CHECK(marked.is_ok() || (marked.code() == Code::kLimit && !room), "mark: %s", marked.message().c_str());
    w_->note(marked.is_ok() ? "marks" : "marks refused");
  }
  if (want == Code::kLimit) w_->note("appends refused");
}

void Actor::append_text() {
  std::string text = some_text(12);
  bool special = w_->random->one_in(2);
  if (special) text += "<|im_end|>";
  std::vector<int32_t> fresh;
  if (tokens_.empty() && w_->tokenizer->add_bos()) fresh.push_back(kToyBos);
  SIM_CHECK(w_->tokenizer->encode(text, special, &fresh, tokens_.empty() ? -1 : tokens_.back()).is_ok(), "encode");
  Status status = w_->engine->conversations().append_text(session_, text, special);
  const bool fits = fresh.empty() || tokens_.size() + fresh.size() <= w_->room;
  SIM_CHECK(status.code() == (fits ? Code::kOk : Code::kLimit), "append_text: %s", status.message().c_str());
  if (status.is_ok()) tokens_.insert(tokens_.end(), fresh.begin(), fresh.end());
}

void Actor::truncate() {
  uint64_t to = w_->random->one_in(3) ? w_->random->below(tokens_.size() + 1)
                                      : tokens_.size() - std::min<size_t>(tokens_.size(), w_->random->below(20));
  if (w_->random->one_in(30)) {
    SIM_CHECK(w_->engine->conversations().truncate(session_, tokens_.size() + 1).code() == Code::kInvalid, "truncate past the end");
    return;
  }
  Status status = w_->engine->conversations().truncate(session_, to);
  SIM_CHECK(status.is_ok(), "truncate: %s", status.message().c_str());
  tokens_.resize(to);
  drop_messages();
  w_->note("truncations");
}

// Of an answer its first tokens stay, and say what they say.
void Actor::drop_messages() {
  Said last;
  while (!said_.empty() && said_.back().end > tokens_.size()) {
    last = said_.back();
    said_.pop_back();
  }
  if (!last.generated || last.begin >= tokens_.size()) return;
  said_.push_back({"assistant", oracle_text(*w_->tokenizer, tokens_, last.begin, tokens_.size(), false), last.begin, tokens_.size(), true});
}

// Messages go whole. With a message go the tokens that joined it to the next one, so that the rest is the template's text.
void Actor::erase() {
  uint64_t from = w_->random->below(tokens_.size() + 1), to = from + w_->random->below(tokens_.size() + 1 - from);
  if (!said_.empty() && w_->random->one_in(2)) from = said_.front().begin, to = said_[w_->random->below(said_.size())].end;
  Status status = w_->engine->conversations().erase(session_, from, to);
  std::vector<Said> rest;
  bool cuts = false;
  for (const Said& m : said_) {
    cuts |= m.begin < to && from < m.end && (m.begin < from || to < m.end);
    if (m.end <= from || m.begin >= to) rest.push_back(m);
  }
  SIM_CHECK(status.code() == (cuts ? Code::kInvalid : Code::kOk), "erase %zu to %zu: %s", size_t{from}, size_t{to},
            status.message().c_str());
  if (cuts) return;
  auto after = w_->engine->conversations().tokens(session_);
  uint64_t joint = tokens_.size() - (to - from) - after.size();
  if (joint) {
    auto next = std::find_if(rest.begin(), rest.end(), [&](const Said& m) { return m.begin >= to; });
    SIM_CHECK(from < to && next != rest.end() && to + joint < next->end, "erase %zu to %zu took %zu more", size_t{from}, size_t{to},
              size_t{joint});
    std::string text = oracle_render(rest, false),
                spelled = w_->tokenizer->decode(std::span(tokens_).subspan(to + joint, next->end - to - joint), true,
                                                from ? tokens_[from - 1] : -1);
    SIM_CHECK(text.find(spelled) != std::string::npos, "erase: what was joined is not the template's");
    to += joint;
    w_->note("erasures with a joint");
  }
  for (Said& m : rest) {
    if (m.end > from) m.begin = std::max(m.begin, to) - (to - from), m.end -= to - from;
  }
  tokens_.erase(tokens_.begin() + static_cast<ptrdiff_t>(from), tokens_.begin() + static_cast<ptrdiff_t>(to));
  said_ = rest;
  w_->note("erasures");
}

std::unique_ptr<Actor> Actor::fork(std::shared_ptr<Bell> bell) {
  auto made = w_->engine->sessions().fork(session_, bell);
  SIM_CHECK(made.is_ok(), "fork: %s", made.status().message().c_str());
  auto copy = std::make_unique<Actor>(w_, options, bell, *made);
  copy->options.wake = bell;
  copy->tokens_ = tokens_;
  copy->said_ = said_;
  copy->suspended_ = suspended_;
  copy->from_disk_ = from_disk_;
  copy->id_ = w_->engine->sessions().info(copy->session_).id;
  SIM_CHECK(!(copy->id_ == id_), "the fork has the same id");
  w_->note("forks");
  return copy;
}

// ---- the store

void Actor::save(const std::string& name, bool suspend, Saved* saved) {
  SaveOptions o{Durability::kNone, w_->random->one_in(3), suspend};
  const std::vector<int32_t> tokens = saved_tokens();
  auto report = w_->engine->saver().save(session_, name, o);
  bool mine = saved->exists && saved->id == id_ && name_ == name && saved->revision == revision_;
  if (w_->quota && report.status().code() == Code::kNoSpace) return w_->note("saves without room");
  if (!saved->exists || mine || o.overwrite) {
    SIM_CHECK(report.is_ok(), "save: %s", report.status().message().c_str());
  } else {
    SIM_CHECK(report.status().code() == Code::kConflict, "save over another session: %s", code_name(report.status().code()));
    w_->note("conflicts");
    return;
  }
  SIM_CHECK(report->revision > saved->newest && report->tokens == tokens.size(), "save: revision %zu after %zu", size_t{report->revision},
            size_t{saved->newest});
  SessionInfo info = w_->engine->sessions().info(session_);
  SIM_CHECK((info.id == id_) == (revision_ == 0 || name == name_), "save: the id");
  id_ = info.id;
  name_ = name;
  revision_ = report->revision;
  if (w_->alone) {
    auto stat = options.store->stat(options.domain, name);
    SIM_CHECK(stat.is_ok() && stat->chunks_missing == report->chunks_missing, "save: %zu of %zu chunks are missing, and the store says %zu",
              size_t{report->chunks_missing}, size_t{report->chunks}, size_t{stat.is_ok() ? stat->chunks_missing : 0});
    if (report->chunks_missing > 0) w_->note("saves with chunks missing");
  }
  *saved = {tokens, saved_said(tokens), id_, revision_, revision_, true};
  if (suspend) suspended_ = true;
  w_->note(suspend ? "suspends" : running_ ? "checkpoints while generating" : "checkpoints");
}

// The tokens that a cancel would leave now: all that are accepted, read or not; none of a generation that leaves no trace unless whole.
std::vector<int32_t> Actor::saved_tokens() const {
  if (!running_ || !undone_by_cancel()) return w_->engine->conversations().tokens(session_);
  return running_->before;
}

std::vector<Said> Actor::saved_said(const std::vector<int32_t>& tokens) const {
  if (!running_) return said_;
  if (undone_by_cancel()) return running_->said_before;
  std::vector<Said> said = said_;
  add_said(tokens, *running_, &said);
  return said;
}

bool Actor::undone_by_cancel() const {
  const Generation& g = *session_->generation;
  const bool whole = g.finished && g.report.reason != Reason::kCancelled && g.report.reason != Reason::kFailed;
  return running_->options.all_or_nothing && !whole;
}

void Actor::resumed(const std::string& name, const Saved& saved, const Report& r) {
  tokens_ = saved.tokens;
  said_ = saved.said;
  id_ = saved.id;
  name_ = name;
  revision_ = saved.revision;
  SessionInfo info = w_->engine->sessions().info(session_);
  SIM_CHECK(info.id == id_ && info.revision == revision_ && info.name == name, "resume: id, revision or name");
  SIM_CHECK(r.prompt_tokens == tokens_.size() && r.prompt_tokens == r.reused_memory + r.reused_disk + r.prefilled, "resume: the report");
  from_disk_ = r.reused_disk;
  suspended_ = tokens_.size() > w_->room;
  w_->note(suspended_ ? "resumes of what does not fit" : "resumes");
  if (r.reused_disk) w_->note("resumes from disk");
  if (r.reused_memory) w_->note("resumes from memory");
}

// ---- between calls

void Actor::check() {
  SessionInfo info = w_->engine->sessions().info(session_);
  auto have = w_->engine->conversations().tokens(session_);
  if (running_) {
    SIM_CHECK(info.state == SessionState::kGenerating, "state %u while generating", static_cast<unsigned>(info.state));
    SIM_CHECK(have.size() >= tokens_.size() && std::equal(tokens_.begin(), tokens_.end(), have.begin()), "tokens while generating");
    return;
  }
  auto state = failed_ ? SessionState::kFailed : suspended_ ? SessionState::kSuspended : SessionState::kIdle;
  SIM_CHECK(info.state == state, "state %u, expected %u", static_cast<unsigned>(info.state), static_cast<unsigned>(state));
  SIM_CHECK(have == tokens_, "the session has %zu tokens, expected %zu, or others", have.size(), tokens_.size());
  SIM_CHECK(info.unread == 0 && !info.awaits_accept, "idle with %zu unread events", size_t{info.unread});
  SIM_CHECK(info.kv_tokens <= tokens_.size() && info.messages == said_.size(), "%zu messages, expected %zu", size_t{info.messages},
            said_.size());
  check_messages();
}

void Actor::refused() {
  Code want = running_ ? Code::kBusy : Code::kInvalid;
  Engine* h = w_->engine;
  SIM_CHECK(h->conversations().append(session_, {}).code() == want, "append in another state");
  SIM_CHECK(h->conversations().truncate(session_, 0).code() == want, "truncate in another state");
  SIM_CHECK(h->conversations().mark(session_, 0).code() == want, "mark in another state");
  SIM_CHECK(h->conversations().erase(session_, 0, 0).code() == want, "erase in another state");
  SIM_CHECK(h->driver().begin(session_, {}).code() == want, "begin in another state");
  SIM_CHECK(h->conversations().append_message(session_, R"({"role":"user","content":"a"})").status().code() == want,
            "append_message in another state");
  SIM_CHECK(h->sessions().fork(session_, nullptr).status().code() == want, "fork in another state");
  SaveOptions suspend;
  suspend.suspend = true;
  if (options.store) SIM_CHECK(h->saver().save(session_, "a", suspend).status().code() == want, "suspend in another state");
  if (options.store && !running_) SIM_CHECK(h->saver().save(session_, "a", {}).status().code() == want, "checkpoint in another state");
  w_->note("calls refused");
}

}  // namespace kvrt::test
