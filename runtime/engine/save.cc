// ModelHost: save and resume. A session is its nodes (full blocks, then the tail that has KV) and a manifest with what comes after.
#include <algorithm>
#include <optional>

#include "runtime/base/limits.h"
#include "runtime/engine/kv_layout.h"
#include "runtime/engine/manifest.h"
#include "runtime/engine/model_host.h"

namespace kvrt {

namespace {

// Holds a pin that is there, until the blocks are copied out, whatever comes between.
class Pinned {
 public:
  Pinned(std::mutex* mu, Session* session) : mu_(mu), session_(session) {}
  Pinned(const Pinned&) = delete;
  ~Pinned() {
    std::lock_guard lock(*mu_);
    --session_->pins;
  }

 private:
  std::mutex* mu_;
  Session* session_;
};

}  // namespace

struct ModelHost::SavePlan {
  struct Chunk {
    BlockKey key, parent;
    std::span<const int32_t> tokens;
    BlockId block;
  };
  std::vector<Chunk> chunks;  // whose KV is in memory
  std::vector<NodeIn> nodes;
  std::vector<int32_t> pending;
  uint64_t tail_begin = 0, tail_end = 0;
};

// Splits the tokens into full blocks, a tail that ends where its KV ends, and pending tokens without KV. Under mu_.
ModelHost::SavePlan ModelHost::plan_save(Session* session) {
  Session& s = *session;
  scheduler_->extend_keys(session);
  SavePlan plan;
  uint64_t T = kv_.block_tokens, n = s.tokens.size();
  if (n == 0) return plan;
  auto last = static_cast<uint32_t>((n - 1) / T);
  uint64_t rest = n - last * T;
  uint64_t tail = s.table.filled(last);
  bool tail_in_memory = tail > 0;
  if (!tail && s.saved_tail_begin == last * T && s.saved_tail_end > s.saved_tail_begin) tail = s.saved_tail_end - s.saved_tail_begin;
  uint32_t full = last;
  if (rest == T && (tail == T || tail == 0)) {
    ++full;
    tail = 0;
  }
  auto tokens = std::span<const int32_t>(s.tokens);
  for (uint32_t i = 0; i < full; ++i) {
    NodeIn node{s.keys[i], i ? s.keys[i - 1] : s.root, scheduler_->block_tokens_of(s, i)};
    if (s.table.filled(i) == T) plan.chunks.push_back({node.key, node.parent, node.tokens, s.table.block(i)});
    plan.nodes.push_back(node);
  }
  if (tail) {
    NodeIn node{{}, full ? s.keys[full - 1] : s.root, tokens.subspan(full * T, tail)};
    node.key = chain_key(node.parent, node.tokens);
    if (tail_in_memory) plan.chunks.push_back({node.key, node.parent, node.tokens, s.table.block(full)});
    plan.nodes.push_back(node);
    plan.tail_begin = full * T;
    plan.tail_end = plan.tail_begin + tail;
  }
  auto pending = tokens.subspan(std::min<uint64_t>(n, full * T + tail));
  plan.pending.assign(pending.begin(), pending.end());
  return plan;
}

Status ModelHost::put_chunks(Store::Save* save, const SavePlan& plan, SaveReport* report) {
  std::vector<BlockKey> keys;
  for (const auto& chunk : plan.chunks) keys.push_back(chunk.key);
  std::vector<bool> has = save->has(keys);
  std::vector<uint8_t> bytes(kv_.block_bytes());
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    if (has[i]) continue;
    const auto& chunk = plan.chunks[i];
    engine_->backend()->download(bytes, block_data(chunk.block));
    to_payload(kv_, bytes, static_cast<uint32_t>(chunk.tokens.size()));
    KVRT_TRY(save->put({chunk.key, chunk.parent, chunk.tokens, block_layout(kv_.format), kv_.elem_bytes(), bytes}));
  }
  report->chunks_written = save->chunks_written();
  report->bytes_written = save->bytes_written();
  return {};
}

Result<SaveReport> ModelHost::save(Session* session, std::string_view name, const SaveOptions& options) {
  Session& s = *session;
  uint64_t start = engine_->env()->now_ns();
  if (!s.store) return error(Code::kInvalid, Detail::kState, "save: the session was opened without a store");
  KVRT_ASSIGN(Hash256 model, model_id_for(s.store.get()));
  SavePlan plan;
  Manifest manifest;
  {
    std::lock_guard lock(mu_);
    KVRT_TRY(require(s, options.suspend ? "suspend" : "checkpoint"));
    plan = plan_save(session);
    manifest = {kv_.block_tokens, s.share, plan.pending, s.messages, s.arguments, s.grammar, tokenizer_->text_id(), template_id_};
    ++s.pins;
  }
  std::optional<Pinned> pinned(std::in_place, &mu_, session);
  // Unlocked: the blocks are pinned, sealed ones never change, and the tail only by a call on this session.
  SaveReport report;
  SessionIn in;
  in.domain = s.domain;
  in.name = name;
  in.id = s.id;
  bool same_name = s.gen > 0 && s.name == name;
  if (s.gen > 0 && !same_name) engine_->env()->random(in.id.bytes);  // under another name it is another session
  in.gen_seen = same_name ? s.gen : 0;
  in.overwrite = options.overwrite;
  in.root = s.root;
  in.block_tokens = kv_.block_tokens;
  in.token_count = s.tokens.size();
  in.model_id = model;
  in.durability = options.durability;
  in.pin = options.pin;
  in.ttl_seconds = options.ttl_seconds;
  in.nodes = plan.nodes;
  auto bytes = encode_manifest(manifest);
  in.manifest = bytes;
  auto write = [&](bool reuse_chunks) -> Result<Saved> {
    KVRT_ASSIGN(auto save, s.store->begin_save(reuse_chunks, {s.domain, std::string(name), options.pin}));
    KVRT_TRY(put_chunks(save.get(), plan, &report));
    return save->commit(in);
  };
  std::string own_name(name);  // now: after the commit nothing may fail
  auto saved = write(true);
  // Another session's removal took chunks that this one was to share: now it brings all of its own.
  if (!saved.is_ok() && saved.status().code() == Code::kBusy && saved.status().detail() == Detail::kConcurrent) saved = write(false);
  pinned.reset();
  std::lock_guard lock(mu_);
  if (!saved.is_ok()) {
    s.last_error = saved.status().clone();
    return saved.take_status();
  }
  s.id = saved->id;
  s.name = std::move(own_name);
  s.gen = saved->gen;
  s.saved_tail_begin = plan.tail_begin;
  s.saved_tail_end = plan.tail_end;
  if (options.suspend) {
    scheduler_->release_blocks(session, 0);
    s.state = SessionState::kSuspended;
  }
  report.gen = saved->gen;
  report.tokens = s.tokens.size();
  report.chunks = plan.nodes.size();
  report.ms = static_cast<double>(engine_->env()->now_ns() - start) * 1e-6;
  return report;
}

std::unique_ptr<Session> ModelHost::restore(const SessionOut& saved, const SessionOptions& options, Status* status) {
  auto manifest = read_manifest(saved, tokenizer_->vocab_size());
  if (!manifest.is_ok()) {
    *status = manifest.take_status();
    return nullptr;
  }
  auto session = std::make_unique<Session>(kv_.block_tokens);
  Session& s = *session;
  s.id = saved.id;
  s.name = saved.name;
  s.gen = saved.gen;
  s.domain = options.domain;
  s.store = options.store;
  s.share = options.share;
  s.tokens = saved.tokens;
  s.tokens.insert(s.tokens.end(), manifest->pending.begin(), manifest->pending.end());
  s.messages = std::move(manifest->messages);
  s.arguments = std::move(manifest->arguments);
  s.grammar = std::move(manifest->grammar);
  s.wake = options.wake;
  s.resumed_tokens = saved.tokens.size();
  auto root = root_for(options);
  if (!root.is_ok()) {
    *status = root.take_status();
    return nullptr;
  }
  s.root = *root;
  s.other_numerics = saved.root != s.root || manifest->block_tokens != kv_.block_tokens;
  if (!s.other_numerics && !saved.node_tokens.empty() && saved.node_tokens.back() < kv_.block_tokens) {
    s.saved_tail_end = saved.tokens.size();
    s.saved_tail_begin = s.saved_tail_end - saved.node_tokens.back();
  }
  return session;
}

Result<Session*> ModelHost::resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report) {
  if (!runner_) {
    return error(Code::kUnsupported, Detail::kNone, "%s holds a vocabulary and no weights: it has no sessions", name_.c_str());
  }
  KVRT_ASSIGN(SessionOut saved, options.store->load(options.domain, name));
  KVRT_ASSIGN(Hash256 model, model_id_for(options.store.get()));
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
  std::unique_lock lock(mu_);
  KVRT_TRY(check_room(*session, 0));
  if (scheduler_->sessions().size() >= kSessionsMax) {
    return error(Code::kLimit, Detail::kNone, "%u sessions of this model are open, which is the most", kSessionsMax);
  }
  Session& s = *session;
  uint64_t n = s.tokens.size();
  struct Undo {  // unless it comes to an end, also by an exception
    Scheduler* scheduler;
    Session* session;
    ~Undo() {
      if (session) scheduler->remove(session);
    }
  };
  scheduler_->add(&s);
  Undo undo{scheduler_.get(), &s};
  ++s.pins;  // nobody takes its blocks while they fill
  scheduler_->adopt_resident(&s);
  report->reused_memory = s.table.covered(n);
  bool complete = load_stored(&s, lock, progress);
  if (!complete) return error(Code::kCancelled, Detail::kNone, "resume of %s: stopped by its callback", saved.name.c_str());
  report->prompt_tokens = n;
  report->reused_disk = s.table.covered(n) - report->reused_memory;
  report->prefilled = n - s.table.covered(n);
  report->reuse_stopped_at = s.table.first_missing(n);
  if (report->reuse_stopped_at < n) report->reuse_stopped = scheduler_->why_stopped(s, &report->reuse_stopped_at);
  --s.pins;
  scheduler_->touch(&s);
  undo.session = nullptr;
  return session.release();
}

}  // namespace kvrt
