// Engine: save. A session is its nodes (full blocks, then the tail that has KV) and a manifest with what comes after. A save waits for
// no generation, and none waits for it: it takes a copy of the conversation between two steps, and references to the blocks.
#include <algorithm>
#include <bit>

#include "runtime/compute/kv_layout.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/snapshot/manifest.h"
#include "runtime/engine/snapshot/save_plan.h"

namespace kvrt {

// A save's turn with its session, from its constructor to finish. Other saves wait for theirs, no other session takes its blocks, and the
// blocks that it saves keep their bytes, whatever becomes of the session: a writer to one gets a copy. Used under the engine's lock, which
// clang does not recognize in engine_->mu_.
class Engine::SaveTurn {
 public:
  SaveTurn(Engine* engine, Session* session) KVRT_REQUIRES(engine->mu_) : engine_(engine), session_(session) {
    session_->use.wait_for_save();
    engine->pressed_.notify_all();
    while (session_->use.in_save()) engine->step_over_.wait(engine->mu_);
    session_->use.begin_save();
  }
  ~SaveTurn() {
    if (session_) finish();
  }
  SaveTurn(const SaveTurn&) = delete;
  SaveTurn& operator=(const SaveTurn&) = delete;

  // If the save takes the session's last block too, waits until it is between two steps: a step writes to that one.
  void hold(bool between_steps) KVRT_NO_THREAD_SAFETY_ANALYSIS {
    session_->use.keep_from_steps(between_steps);
    while (between_steps && session_->use.in_step()) engine_->step_over_.wait(engine_->mu_);
    session_->use.keep_from_steps(false);
    session_->changed.notify_all();  // its caller of next may have found nothing to compute
  }
  void keep(const std::vector<SavePlan::Chunk>& chunks) KVRT_NO_THREAD_SAFETY_ANALYSIS {
    blocks_.reserve(chunks.size());
    for (const auto& chunk : chunks) {
      if (chunk.block == kNoBlock) continue;
      engine_->cache_->hold(chunk.block);
      blocks_.push_back(chunk.block);
    }
  }
  void finish() KVRT_NO_THREAD_SAFETY_ANALYSIS {
    for (; !blocks_.empty(); blocks_.pop_back()) engine_->cache_->drop(blocks_.back());  // the last is evicted first
    session_->use.end_save();
    engine_->step_over_.notify_all();
    session_ = nullptr;
  }

 private:
  Engine* engine_;
  Session* session_;
  std::vector<BlockId> blocks_;
};

Status Engine::copy_out(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const {
  const KvChunk& chunk = chunks_[chunk_number(kv_.groups, group)];
  to->resize(chunk.geometry.block_bytes());
  for (const ChunkPart& part : chunk.parts) {
    Status status =
        runtime_->backend()->download(std::span(*to).subspan(part.in_chunk, part.bytes), unit_data(units[part.unit]) + part.in_unit);
    if (status.is_ok()) continue;
    logf(runtime_->log(), LogLevel::kWarn, "a block of KV is not saved: %s", status.message().c_str());
    return Status::make(Code::kDevice, Detail::kNone, status.os_code(), status.message());  // also where it was short of memory
  }
  return {};
}

Status Engine::put_chunk(Store::Save* save, const SavePlan& plan, size_t i, ChunkCodec codec, std::vector<uint8_t>* buffer) {
  const SavePlan::Chunk& chunk = plan.chunks[i];
  const uint32_t number = chunk_number(kv_.groups, chunk.group);
  const KvGeometry& geometry = chunks_[number].geometry;
  std::span<const uint8_t> bytes;
  uint32_t elem_bytes = payload_elem_bytes(geometry);
  if (chunk.block == kNoBlock) {
    codec = ChunkCodec::kZstd;  // always: the empty slots of a tail take no room then
    bytes = plan.tails[chunk.group];
    if (chunk.tokens.size() * 4 <= kv_.block_tokens() * uint64_t{3}) elem_bytes = 1;  // nor in a low plane, which stays raw
  } else {
    KVRT_TRY(copy_out(chunk.group, chunk.units, buffer));
    to_payload(geometry, *buffer, kv_.block_tokens());
    bytes = *buffer;
  }
  return save->put({chunk.key, chunk.parent, chunk.tokens, chunks_[number].layout(), elem_bytes, bytes, codec, number});
}

// Puts the chunks that the store lacks. Unless the durability is KV, a chunk is left out if the store has no room or the device fails to
// give it: the tokens are saved all the same, and a resume computes their KV again.
Result<uint64_t> Engine::put_chunks(Session* session, Store::Save* save, const SavePlan& plan, const SaveOptions& options,
                                    SaveReport* report) {
  uint64_t not_needed = 0;
  const std::vector<uint32_t> has = groups_stored(kv_.groups, save->has(plan.nodes));
  report->left_out = false;
  report->chunks_missing = report->chunks = 0;
  for (size_t i = 0; i < has.size(); ++i) {
    report->chunks_missing += static_cast<uint64_t>(std::popcount(plan.needs[i] & ~has[i]));
    report->chunks += static_cast<uint64_t>(std::popcount(plan.needs[i] | has[i]));
  }
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    if (has[plan.chunks[i].node] >> plan.chunks[i].group & 1) continue;
    const uint64_t start = runtime_->env()->now_ns(), written = save->chunks_written();
    Status put = put_chunk(save, plan, i, options.codec, &buffer);
    const bool optional = options.durability != Durability::kKv;
    const bool full = put.code() == Code::kNoSpace;
    if (optional && (full || put.code() == Code::kDevice)) {
      report->left_out = true;
      if (full) break;
      continue;
    }
    KVRT_TRY(std::move(put));
    const bool needed = plan.needs[plan.chunks[i].node] >> plan.chunks[i].group & 1;
    const bool found = save->chunks_written() == written;  // another save brought it meanwhile
    if (found && needed) --report->chunks_missing;
    not_needed += !found && !needed;
    report->chunks += !needed;  // of a window at a boundary
    if (options.autosave) give_way(session, runtime_->env()->now_ns() - start);
  }
  return not_needed;
}

// The session's values for the store, but for model and manifest. The caller has the SaveTurn.
SessionIn Engine::session_in(const Session& s, const SavePlan& plan, const SaveOptions& options, std::string_view name) const {
  SessionIn in;
  in.domain = s.domain;
  in.name = name;
  in.id = s.saved.id;
  bool same_name = s.saved.revision > 0 && s.saved.name == name;
  if (s.saved.revision > 0 && !same_name) runtime_->env()->random(in.id.bytes);  // under another name it is another session
  in.revision_seen = same_name ? s.saved.revision : 0;
  in.overwrite = options.overwrite;
  in.root = plan.root;
  in.block_tokens = plan.block_tokens;
  in.token_count = plan.said.tokens.size();
  in.durability = options.durability;
  in.pin = options.pin;
  in.ttl_seconds = options.ttl_seconds;
  in.nodes = plan.nodes;
  in.groups = groups_needed(kv_.groups);
  return in;
}

Result<Saved> Engine::write_once(Session* session, const SavePlan& plan, const SaveOptions& options, const SessionIn& in, bool reuse_chunks,
                                 SaveReport* report) {
  const SavedBy by{std::string(in.domain), std::string(in.name), options.pin, in.manifest.size()};
  KVRT_ASSIGN(auto save, session->store->begin_save(reuse_chunks, by));
  KVRT_ASSIGN(const uint64_t not_needed, put_chunks(session, save.get(), plan, options, report));
  const uint64_t put = save->chunks_written();
  auto saved = save->commit(in);
  report->chunks_written = save->chunks_written();
  report->left_out |= report->chunks_written < put;
  const uint64_t stayed = std::min(report->chunks_written, not_needed);  // as if nothing that it needs had stayed before all else
  report->chunks_missing -= report->chunks_written - stayed;
  report->chunks -= not_needed - stayed;
  report->bytes_written = save->bytes_written();
  return saved;
}

// Writes the plan without the lock. The session goes on meanwhile: the save has copies, and blocks that do not change.
Result<Saved> Engine::write(Session* session, SavePlan* plan, const SaveOptions& options, std::string_view name, const Hash256& model,
                            SaveReport* report) {
  Unlocked unlocked(mu_);
  for (uint32_t g = 0; g < plan->tails.size(); ++g) {
    to_payload(chunks_[chunk_number(kv_.groups, g)].geometry, plan->tails[g], static_cast<uint32_t>(plan->tail_end - plan->tail_begin));
  }
  auto pending = std::span<const int32_t>(plan->said.tokens).subspan(plan->pending_begin);
  Manifest manifest{plan->block_tokens,
                    session->kv.share,
                    {pending.begin(), pending.end()},
                    std::move(plan->said.messages),
                    session->arguments,
                    std::move(plan->said.grammar),
                    model_->tokenizer().text_id(),
                    model_->template_id()};
  SessionIn in = session_in(*session, *plan, options, name);
  in.model_id = model;
  auto bytes = encode_manifest(manifest);
  in.manifest = bytes;
  auto saved = write_once(session, *plan, options, in, true, report);
  // A removal took chunks that this save was to share: now it brings all of its own.
  if (saved.status().code() == Code::kBusy && saved.status().detail() == Detail::kConcurrent)
    saved = write_once(session, *plan, options, in, false, report);
  return saved;
}

Result<SaveReport> Engine::save(Session* session, std::string_view name, const SaveOptions& options) {
  Session& s = *session;
  uint64_t start = runtime_->env()->now_ns();
  if (!s.store) return error(Code::kInvalid, Detail::kState, "save: the session was opened without a store");
  KVRT_ASSIGN(Hash256 model, model_->id(*runtime_, s.store));
  Lock lock(mu_);
  SaveTurn turn(this, session);
  const SaveTail which = options.suspend || s.use.closing() ? SaveTail::kWhole : options.autosave ? SaveTail::kStored : SaveTail::kGrown;
  turn.hold(which != SaveTail::kStored);
  std::string own_name(options.autosave ? s.saved.name : name);  // copied now: after the commit nothing may fail
  if (own_name.empty() && s.autosave) own_name = s.autosave->policy.name;
  if (own_name.empty()) return SaveReport();  // it has no name yet
  settle(session);
  if (options.suspend || s.state != SessionState::kGenerating) {
    const char* call = options.suspend ? "suspend" : options.autosave ? "save" : "checkpoint";
    KVRT_TRY(require_ready(s, call));  // a save is no activity, which would be saved again
  }
  cache_->boundaries().mark(&s.kv, s.tokens.size());
  SavePlan plan =
      plan_save(*model_, cache_.get(), session, which,
                [&](uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) { return copy_out(group, units, to); });
  if (options.durability == Durability::kKv) KVRT_TRY(plan.tail_copied.clone());
  if (options.autosave && s.saved.mark && plan.mark == *s.saved.mark && plan.blocks <= s.saved.blocks && plan.tail_end <= s.stored.tail_end)
    return SaveReport();
  turn.keep(plan.chunks);
  auto open_name = s.store->open_name(s.domain, own_name);
  SaveReport report;
  auto saved = write(session, &plan, options, own_name, model, &report);
  turn.finish();
  report.left_out |= !plan.tail_copied.is_ok();
  if (!saved.is_ok()) {
    s.last_error = saved.status().clone();
    return saved.take_status();
  }
  s.saved.id = saved->id;
  s.saved.name = std::move(own_name);
  s.open_name = std::move(open_name);
  s.saved.revision = saved->revision;
  if (s.saved.mark) *s.saved.mark = plan.mark;
  s.saved.blocks = report.left_out ? 0 : plan.blocks;  // 0: the next autosave tries again
  const auto& was = plan.said.tokens;                  // the session may have changed since
  const auto same = static_cast<uint64_t>(std::mismatch(was.begin(), was.end(), s.tokens.begin(), s.tokens.end()).first - was.begin());
  const bool has_tail = same >= plan.tail_end && !report.left_out;
  const bool own = plan.root == s.kv.root && plan.block_tokens == kv_.block_tokens();
  s.stored.own_tokens = own ? std::min(same, plan.pending_begin) : 0;
  if (own) s.stored.other_tokens = 0;
  s.stored.tail_begin = has_tail ? plan.tail_begin : 0;
  s.stored.tail_end = has_tail ? plan.tail_end : 0;
  if (options.suspend) {
    cache_->release(&s.kv, 0);
    s.state = SessionState::kSuspended;
  }
  report.revision = saved->revision;
  report.tokens = was.size();
  report.ms = static_cast<double>(runtime_->env()->now_ns() - start) * 1e-6;
  return report;
}

}  // namespace kvrt
