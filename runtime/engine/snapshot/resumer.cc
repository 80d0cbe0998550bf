#include "runtime/engine/snapshot/resumer.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/session/kv_root.h"
#include "runtime/engine/snapshot/foreign.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

Result<std::unique_ptr<Session>> Resumer::restore(const SessionOut& saved, const SessionOptions& options) {
  KVRT_ASSIGN(const Hash256 model, model_.id(runtime_, options.store));
  if (saved.model_id != model) {
    return error(Code::kIncompatible, Detail::kModelMismatch,
                 "session %s: field model_id: it was made with model %.16s..., this is %.16s...", saved.name.c_str(),
                 saved.model_id.hex().c_str(), model.hex().c_str());
  }
  KVRT_ASSIGN(Manifest manifest, read_manifest(saved, model_.tokenizer().vocab_size()));
  auto session = std::make_unique<Session>(kv_.shape);
  Session& s = *session;
  s.saved.id = saved.id;
  s.saved.name = saved.name;
  s.saved.revision = saved.revision;
  s.domain = options.domain;
  s.store = options.store;
  s.kv.share = options.share;
  s.tokens = saved.tokens;
  s.tokens.insert(s.tokens.end(), manifest.pending.begin(), manifest.pending.end());
  s.messages = std::move(manifest.messages);
  s.arguments = std::move(manifest.arguments);
  s.grammar = std::move(manifest.grammar);
  if (options.autosave.on())
    s.saved.mark.reset(new SavedSession::Mark{{}, 0, hash_rest(s, s.arguments)});  // as saved, whatever the caller gives instead
  if (s.arguments.now == 0) s.arguments.now = runtime_.env()->unix_ms() / 1000;    // repair made it, without a manifest
  s.wake = options.wake;
  s.stored.resumed_tokens = saved.tokens.size();
  s.kv.root = kv_root(model, kv_, runtime_.backend()->numerics(), s.domain);
  if (options.accept_foreign && manifest.block_tokens == kv_.block_tokens()) adopt_foreign(model_, kv_, saved, &s);
  note_other_root(saved, manifest.block_tokens, &s);
  KVRT_TRY(autosaves_->set_policy(options, &s));
  s.open_name = s.store->open_name(s.domain, s.saved.name);
  return session;
}

// Which KV of the snapshot is the session's own: none of another root or block size, but a save keeps that.
void Resumer::note_other_root(const SessionOut& saved, uint32_t block_tokens, Session* session) const {
  Session& s = *session;
  const uint32_t T = kv_.block_tokens();
  const bool same_root = saved.root == s.kv.root;
  const bool other_numerics = (!same_root && s.stored.foreign_tokens == 0) || block_tokens != T;
  for (uint32_t i = 0; other_numerics && uint64_t{i} * T < s.stored.resumed_tokens; ++i) {
    s.kv.lacks(i, kv_.shape.all(), Hole::kOtherNumerics);
  }
  if (!same_root || block_tokens != T) {
    const auto fits = [&](const uint32_t& n) { return n == block_tokens || (n < block_tokens && &n == &saved.node_tokens.back()); };
    if (std::ranges::all_of(saved.node_tokens, fits)) {
      s.stored.other = std::make_shared<StoredKv::Other>(StoredKv::Other{saved.root, block_tokens});
      s.stored.other_tokens = saved.tokens.size();
    }
  }
  if (same_root) s.stored.own_tokens = saved.tokens.size();
  if (same_root && !other_numerics && !saved.node_tokens.empty() && saved.node_tokens.back() < T) {
    s.stored.tail_end = saved.tokens.size();
    s.stored.tail_begin = s.stored.tail_end - saved.node_tokens.back();
  }
}

// Marks a resumed session as saved: the store has its whole conversation. Under the lock; its keys are known.
void Resumer::mark_restored(Session* session) const {
  Session& s = *session;
  if (!s.saved.mark) return;
  const auto rest = std::span<const int32_t>(s.tokens).subspan(s.kv.chain.size() * kv_.block_tokens());
  s.saved.mark->head = s.kv.chain.empty() ? s.kv.root : s.kv.chain.back()->key;
  s.saved.mark->tokens = s.tokens.size();
  if (!rest.empty()) s.saved.mark->head = chain_key(s.saved.mark->head, rest);
}

Result<Session*> Resumer::resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report) {
  KVRT_ASSIGN(SessionOut saved, options.store->load(options.domain, name));
  KVRT_ASSIGN(TemplateArguments given, normalize_arguments(options.arguments));
  KVRT_ASSIGN(std::unique_ptr<Session> session, restore(saved, options));
  for (auto part : {&TemplateArguments::tools, &TemplateArguments::documents, &TemplateArguments::variables}) {
    if (!(given.*part).empty()) session->arguments.*part = std::move(given.*part);
  }
  const ChainKeys ahead = hash_ahead(session->kv.root, 0, session->tokens, kv_.block_tokens());
  Lock lock(lock_->mu);
  KVRT_TRY(queue_->check_count());
  Session& s = *session;
  struct Undo {  // runs unless resume succeeds, also on an exception. The keys are shared: they go while the lock is held
    Queue* queue;
    Session* session;
    ~Undo() {
      if (session) queue->remove(session);
    }
  };
  queue_->add(&s);
  Undo undo{queue_, &s};
  const bool fits = gate_->check_room(s.tokens.size(), 0).is_ok();
  cache_->extend(&s.kv, s.tokens, ahead);
  mark_restored(&s);
  if (fits) {
    KVRT_TRY(bring_back(&s, progress, report));
  } else {  // no other session loses a block to one that cannot be computed
    s.state = SessionState::kSuspended;
    report->prompt_tokens = report->prefilled = s.tokens.size();
    report->reuse_stopped = ReuseStop::kEvicted;
  }
  queue_->touch(&s);
  s.saved.blocks = s.kv.whole_blocks(static_cast<uint32_t>(s.kv.chain.size()));
  autosaves_->begin(&s);
  undo.session = nullptr;
  return session.release();
}

// Fills the block table of a session that was just restored with the KV that memory and store have, and says how far that goes.
Status Resumer::bring_back(Session* session, const Progress& progress, Report* report) {
  Session& s = *session;
  const uint64_t n = s.tokens.size();
  s.use.pin();  // no session takes its blocks while they fill
  const KvLoader::Filled filled = loader_->fill(lock_, &s, s.store.get(), progress);
  if (filled.loaded == KvLoader::Loaded::kStoppedNearer || filled.loaded == KvLoader::Loaded::kStoppedInPlace)
    return error(Code::kCancelled, Detail::kNone, "resume of %s: stopped by its callback", s.saved.name.c_str());
  // A window that was in memory ends before the one that came from disk.
  cache_->boundaries().roll(&s.kv, n, s.kv.computed(n));
  report->prompt_tokens = n;
  report->reused_memory = filled.resident;
  report->reused_disk = s.kv.reusable(n) - report->reused_memory;
  report->prefilled = n - s.kv.reusable(n);
  report->reuse_stopped_at = s.kv.computed(n);
  if (report->reuse_stopped_at < n) report->reuse_stopped = reports_->why_stopped(s, &report->reuse_stopped_at);
  s.use.unpin();
  return {};
}

}  // namespace kvrt
