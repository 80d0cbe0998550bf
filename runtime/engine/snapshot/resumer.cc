// Engine: resume. Tokens and messages come from the store; KV comes from memory if another session has it, else from chunks. Where the pool
// could not hold that, the session is suspended.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

std::unique_ptr<Session> Engine::restore(const SessionOut& saved, const SessionOptions& options, Status* status) {
  auto manifest = read_manifest(saved, model_->tokenizer().vocab_size());
  if (!manifest.is_ok()) {
    *status = manifest.take_status();
    return nullptr;
  }
  auto session = std::make_unique<Session>(kv_.shape);
  Session& s = *session;
  s.saved.id = saved.id;
  s.saved.name = saved.name;
  s.saved.revision = saved.revision;
  s.domain = options.domain;
  s.store = options.store;
  s.kv.share = options.share;
  s.tokens = saved.tokens;
  s.tokens.insert(s.tokens.end(), manifest->pending.begin(), manifest->pending.end());
  s.messages = std::move(manifest->messages);
  s.arguments = std::move(manifest->arguments);
  s.grammar = std::move(manifest->grammar);
  if (options.autosave.on())
    s.saved.mark.reset(new SavedSession::Mark{{}, 0, hash_rest(s, s.arguments)});  // as saved, whatever the caller gives instead
  if (s.arguments.now == 0) s.arguments.now = runtime_->env()->unix_ms() / 1000;   // repair made it, without a manifest
  s.wake = options.wake;
  s.stored.resumed_tokens = saved.tokens.size();
  auto root = root_for(options);
  if (!root.is_ok()) {
    *status = root.take_status();
    return nullptr;
  }
  s.kv.root = *root;
  if (options.accept_foreign && manifest->block_tokens == kv_.block_tokens()) {
    *status = adopt_foreign(options, saved, &s);
    if (!status->is_ok()) return nullptr;
  }
  const bool other_numerics = (saved.root != s.kv.root && s.stored.foreign_tokens == 0) || manifest->block_tokens != kv_.block_tokens();
  for (uint32_t i = 0; other_numerics && uint64_t{i} * kv_.block_tokens() < s.stored.resumed_tokens; ++i) {
    s.kv.lacks(i, kv_.shape.all(), Hole::kOtherNumerics);
  }
  if (saved.root != s.kv.root || manifest->block_tokens != kv_.block_tokens()) {
    const uint32_t size = manifest->block_tokens;
    const auto fits = [&](const uint32_t& n) { return n == size || (n < size && &n == &saved.node_tokens.back()); };
    if (std::ranges::all_of(saved.node_tokens, fits)) {
      s.stored.other = std::make_shared<StoredKv::Other>(StoredKv::Other{saved.root, size});
      s.stored.other_tokens = saved.tokens.size();
    }
  }
  if (saved.root == s.kv.root) s.stored.own_tokens = saved.tokens.size();
  if (saved.root == s.kv.root && !other_numerics && !saved.node_tokens.empty() && saved.node_tokens.back() < kv_.block_tokens()) {
    s.stored.tail_end = saved.tokens.size();
    s.stored.tail_begin = s.stored.tail_end - saved.node_tokens.back();
  }
  *status = set_autosave(options, &s);
  if (!status->is_ok()) return nullptr;
  s.open_name = s.store->open_name(s.domain, s.saved.name);
  return session;
}

// Marks a resumed session as saved: the store has its whole conversation. Under mu_; its keys are known.
void Engine::mark_restored(Session* session) const {
  Session& s = *session;
  if (!s.saved.mark) return;
  const auto rest = std::span<const int32_t>(s.tokens).subspan(s.kv.chain.size() * kv_.block_tokens());
  s.saved.mark->head = s.kv.chain.empty() ? s.kv.root : s.kv.chain.back()->key;
  s.saved.mark->tokens = s.tokens.size();
  if (!rest.empty()) s.saved.mark->head = chain_key(s.saved.mark->head, rest);
}

Result<Session*> Engine::resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report) {
  if (!runner_) {
    return error(Code::kUnsupported, Detail::kNone, "%s holds a vocabulary and no weights: it has no sessions", model_->name().c_str());
  }
  KVRT_ASSIGN(SessionOut saved, options.store->load(options.domain, name));
  KVRT_ASSIGN(Hash256 model, model_->id(*runtime_, options.store));
  if (saved.model_id != model) {
    return error(Code::kIncompatible, Detail::kModelMismatch,
                 "session %s: field model_id: it was made with model %.16s..., this is %.16s...", saved.name.c_str(),
                 saved.model_id.hex().c_str(), model.hex().c_str());
  }
  KVRT_ASSIGN(TemplateArguments given, normalize_arguments(options.arguments));
  Status status;
  std::unique_ptr<Session> session = restore(saved, options, &status);
  if (!session) return status;
  for (auto part : {&TemplateArguments::tools, &TemplateArguments::documents, &TemplateArguments::variables}) {
    if (!(given.*part).empty()) session->arguments.*part = std::move(given.*part);
  }
  Lock lock(mu_);
  if (step_->queue.sessions().size() >= kSessionsMax) {
    return error(Code::kLimit, Detail::kNone, "%u sessions of this model are open, which is the most", kSessionsMax);
  }
  Session& s = *session;
  struct Undo {  // runs unless resume succeeds, also on an exception. The keys are shared: they go while the lock is held
    Queue* queue;
    Session* session;
    ~Undo() {
      if (session) queue->remove(session);
    }
  };
  step_->queue.add(&s);
  Undo undo{&step_->queue, &s};
  if (check_room(s.tokens.size(), 0).is_ok()) {
    KVRT_TRY(bring_back(&s, progress, report));
  } else {  // no other session loses a block to one that cannot be computed
    cache_->extend(&s.kv, s.tokens);
    mark_restored(&s);
    s.state = SessionState::kSuspended;
    report->prompt_tokens = report->prefilled = s.tokens.size();
    report->reuse_stopped = ReuseStop::kEvicted;
  }
  step_->queue.touch(&s);
  s.saved.blocks = s.kv.whole_blocks(static_cast<uint32_t>(s.kv.chain.size()));
  if (s.autosave) s.autosave->saver->add(&s, [this](Session* due) { return autosave(due); });
  undo.session = nullptr;
  return session.release();
}

// Fills the block table of a session that was just restored with the KV that memory and store have, and says how far that goes.
Status Engine::bring_back(Session* session, const Progress& progress, Report* report) {
  Session& s = *session;
  const uint64_t n = s.tokens.size();
  s.use.pin();  // no session takes its blocks while they fill
  cache_->adopt(&s.kv, s.tokens);
  mark_restored(&s);
  report->reused_memory = s.kv.reusable(n);
  const Loaded loaded = load_stored(&s, progress);
  if (loaded == Loaded::kStoppedNearer || loaded == Loaded::kStoppedInPlace)
    return error(Code::kCancelled, Detail::kNone, "resume of %s: stopped by its callback", s.saved.name.c_str());
  // A window that was in memory ends before the one that came from disk.
  cache_->boundaries().roll(&s.kv, n, s.kv.computed(n));
  report->prompt_tokens = n;
  report->reused_disk = s.kv.reusable(n) - report->reused_memory;
  report->prefilled = n - s.kv.reusable(n);
  report->reuse_stopped_at = s.kv.computed(n);
  if (report->reuse_stopped_at < n) report->reuse_stopped = step_->reports.why_stopped(s, &report->reuse_stopped_at);
  s.use.unpin();
  return {};
}

}  // namespace kvrt
