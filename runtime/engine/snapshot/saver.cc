#include "runtime/engine/snapshot/saver.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "runtime/base/limits.h"
#include "runtime/compute/kv_layout.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

// A save's turn with its session, from its constructor to finish. Other saves wait for theirs, no other session takes its blocks, and the
// blocks that it saves keep their bytes, whatever becomes of the session: a writer to one gets a copy. Used under the lock, which clang does
// not recognize in lock_->mu.
class Saver::Turn {
 public:
  Turn(EngineLock* lock, KvCache* cache, Session* session) KVRT_REQUIRES(lock->mu) : lock_(lock), cache_(cache), session_(session) {
    session_->use.wait_for_save();
    lock->pressed.notify_all();
    while (session_->use.in_save()) lock->step_over.wait(lock->mu);
    session_->use.begin_save();
  }
  ~Turn() {
    if (session_) finish();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // If the save takes the session's last block too, waits until it is between two steps: a step writes to that one.
  void wait_for_steps(bool between_steps) KVRT_NO_THREAD_SAFETY_ANALYSIS {
    session_->use.keep_from_steps(between_steps);
    while (between_steps && session_->use.in_step()) lock_->step_over.wait(lock_->mu);
    session_->use.keep_from_steps(false);
    session_->changed.notify_all();  // its caller of next may have found nothing to compute
  }
  // Holds the blocks that the plan saves.
  void hold(const SavePlan& plan) {
    blocks_.reserve(plan.chunks.size());
    tail_.reserve(plan.tail_blocks.size());
    for (const auto& chunk : plan.chunks) {
      if (chunk.block == kNoBlock) continue;
      cache_->hold(chunk.block);
      blocks_.push_back(chunk.block);
    }
    for (const auto& block : plan.tail_blocks) {
      cache_->hold(block.block);
      tail_.push_back(block.block);
    }
    session_->use.read_tail(!tail_.empty());
  }
  // The save has its copy of the tail.
  void let_tail_go() {
    if (tail_.empty()) return;
    drop(&tail_);
    session_->use.read_tail(false);
    session_->changed.notify_all();
  }
  void finish() {
    let_tail_go();
    drop(&blocks_);
    session_->use.end_save();
    lock_->step_over.notify_all();
    session_ = nullptr;
  }

 private:
  void drop(std::vector<BlockId>* blocks) {  // the last is evicted first
    for (; !blocks->empty(); blocks->pop_back()) cache_->drop(blocks->back());
  }

  EngineLock* const lock_;
  KvCache* const cache_;
  Session* session_;
  std::vector<BlockId> blocks_, tail_;
};

Status Saver::copy_block(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const {
  const Status status = memory_.download(group, units, to);
  if (status.is_ok()) return {};
  logf(runtime_.log(), LogLevel::kWarn, "a block of KV is not saved: %s", status.message().c_str());
  return Status::make(Code::kDevice, Detail::kNone, status.os_code(), status.message());  // also where it was short of memory
}

// Copies the tail out of the device, without the lock. Steps may write to those blocks meanwhile: to a copy, as after a fork. If the device
// does not give it, the plan is without.
Status Saver::copy_tail(Turn* turn, SavePlan* plan) {
  if (plan->tail_blocks.empty()) return {};
  Status copied;
  plan->tails.resize(plan->tail_blocks.size());
  {
    Unlocked unlocked(lock_->mu);
    for (uint32_t g = 0; copied.is_ok() && g < plan->tails.size(); ++g) copied = copy_block(g, plan->tail_blocks[g].units, &plan->tails[g]);
  }
  turn->let_tail_go();
  if (!copied.is_ok()) plan->leave_tail(cache_->shape());
  return copied;
}

Status Saver::put_chunk(Store::Save* save, const SavePlan& plan, size_t i, ChunkCodec codec, std::vector<uint8_t>* buffer) {
  const SavePlan::Chunk& chunk = plan.chunks[i];
  const NodeIn& node = plan.nodes[chunk.node];
  const uint32_t number = chunk_number(memory_.groups(), chunk.group);
  const KvGeometry& geometry = memory_.chunk(number).geometry;
  std::span<const uint8_t> bytes;
  uint32_t elem_bytes = payload_cell_bytes(geometry);
  if (chunk.block == kNoBlock) {
    codec = ChunkCodec::kZstd;  // always: the empty slots of a tail take no room then
    bytes = plan.tails[chunk.group];
    if (node.tokens.size() * 4 <= memory_.kv().block_tokens() * uint64_t{3}) elem_bytes = 1;  // nor in a low plane, which stays raw
  } else {
    KVRT_TRY(copy_block(chunk.group, chunk.units, buffer));
    to_payload(geometry, *buffer, memory_.kv().block_tokens());
    bytes = *buffer;
  }
  return save->put({node.key, node.parent, node.tokens, memory_.chunk(number).layout(), elem_bytes, bytes, codec, number, node.items});
}

// Puts the chunks that the store lacks. Unless the durability is KV, a chunk is left out if the store has no room or the device fails to
// give it: the tokens are saved all the same, and a resume computes their KV again.
Result<uint64_t> Saver::put_chunks(Session* session, Store::Save* save, const SavePlan& plan, const SaveOptions& options,
                                   SaveReport* report) {
  uint64_t not_needed = 0;
  const std::vector<uint32_t> has = groups_stored(memory_.groups(), save->has(plan.nodes));
  report->left_out = false;
  report->chunks_missing = report->chunks = 0;
  for (size_t i = 0; i < has.size(); ++i) {
    report->chunks_missing += static_cast<uint64_t>(std::popcount(plan.needs[i] & ~has[i]));
    report->chunks += static_cast<uint64_t>(std::popcount(plan.needs[i] | has[i]));
  }
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    if (has[plan.chunks[i].node] >> plan.chunks[i].group & 1) continue;
    const uint64_t start = runtime_.env()->now_ns(), written = save->chunks_written();
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
    if (options.autosave) give_way(session, runtime_.env()->now_ns() - start);
  }
  return not_needed;
}

// The session's values for the store, but for model and manifest. The caller has the session's Turn.
SessionIn Saver::session_in(const Session& s, const SavePlan& plan, const SaveOptions& options, std::string_view name) const {
  SessionIn in;
  in.domain = s.domain;
  in.name = name;
  in.id = s.saved.id;
  bool same_name = s.saved.revision > 0 && s.saved.name == name;
  if (s.saved.revision > 0 && !same_name) runtime_.env()->random(in.id.bytes);  // under another name it is another session
  in.revision_seen = same_name ? s.saved.revision : 0;
  in.overwrite = options.overwrite;
  in.root = plan.root;
  in.block_tokens = plan.block_tokens;
  in.token_count = plan.said.tokens.size();
  in.durability = options.durability;
  in.pin = options.pin;
  in.ttl_seconds = options.ttl_seconds;
  in.nodes = plan.nodes;
  in.groups = groups_needed(memory_.groups());
  return in;
}

Result<Saved> Saver::write_once(Session* session, const SavePlan& plan, const SaveOptions& options, const SessionIn& in, bool reuse_chunks,
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
Result<Saved> Saver::write(Session* session, SavePlan* plan, const SaveOptions& options, std::string_view name, const Hash256& model,
                           std::unique_ptr<Store::OpenName>* open_name, SaveReport* report) {
  Unlocked unlocked(lock_->mu);
  *open_name = session->store->open_name(session->domain, name);
  for (uint32_t g = 0; g < plan->tails.size(); ++g) {
    to_payload(memory_.chunk_of(g).geometry, plan->tails[g], static_cast<uint32_t>(plan->tail_end - plan->tail_begin));
  }
  auto pending = std::span<const int32_t>(plan->said.tokens).subspan(plan->pending_begin);
  Manifest manifest{plan->block_tokens,
                    session->kv.share,
                    {pending.begin(), pending.end()},
                    std::move(plan->said.messages),
                    session->arguments,
                    std::move(plan->said.grammar),
                    model_.tokenizer().text_id(),
                    model_.template_id()};
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

// What the session's next saves know of this one. The session may have changed since.
void Saver::note_saved(Session* session, const SavePlan& plan, const Saved& saved, bool left_out) {
  Session& s = *session;
  s.saved.id = saved.id;
  s.saved.revision = saved.revision;
  if (s.saved.mark) *s.saved.mark = plan.mark;
  s.saved.blocks = left_out ? 0 : plan.blocks;  // 0: the next autosave tries again
  const auto& was = plan.said.tokens;
  const auto same = static_cast<uint64_t>(std::mismatch(was.begin(), was.end(), s.tokens.begin(), s.tokens.end()).first - was.begin());
  const bool has_tail = same >= plan.tail_end && !left_out;
  const bool own = plan.root == s.kv.root && plan.block_tokens == cache_->block_tokens();
  s.stored.own_tokens = own ? std::min(same, plan.pending_begin) : 0;
  if (own) s.stored.other_tokens = 0;
  s.stored.tail_begin = has_tail ? plan.tail_begin : 0;
  s.stored.tail_end = has_tail ? plan.tail_end : 0;
}

namespace {
SaveTail tail_to_save(const Session& s, const SaveOptions& options) {
  if (options.suspend || s.use.closing()) return SaveTail::kWhole;
  return options.autosave ? SaveTail::kStored : SaveTail::kGrown;
}
}  // namespace

Result<SaveReport> Saver::save(Session* session, std::string_view name, const SaveOptions& options) {
  Session& s = *session;
  uint64_t start = runtime_.env()->now_ns();
  if (!s.store) return error(Code::kInvalid, Detail::kState, "save: the session was opened without a store");
  KVRT_ASSIGN(Hash256 model, model_.id(runtime_, s.store));
  std::unique_ptr<Store::OpenName> open_name;  // the session's last one ends without the lock
  Lock lock(lock_->mu);
  Turn turn(lock_, cache_, session);
  const SaveTail which = tail_to_save(s, options);
  turn.wait_for_steps(which != SaveTail::kStored);
  std::string own_name(options.autosave ? s.saved.name : name);  // copied now: after the commit nothing may fail
  if (own_name.empty() && s.autosave) own_name = s.autosave->policy.name;
  if (own_name.empty()) return SaveReport();  // it has no name yet
  gate_->settle(session);
  if (options.suspend || s.state != SessionState::kGenerating) {
    KVRT_TRY(gate_->check_idle(s, options.suspend ? "suspend" : options.autosave ? "save" : "checkpoint"));
  }
  cache_->boundaries().mark(&s.kv, s.tokens.size());
  SavePlan plan = plan_save(model_, cache_, session, which);
  const auto nothing_new = [&] {
    return options.autosave && s.saved.mark && plan.mark == *s.saved.mark && plan.blocks <= s.saved.blocks &&
           plan.tail_end <= s.stored.tail_end;
  };
  if (nothing_new()) return SaveReport();
  turn.hold(plan);
  const Status tail_copied = copy_tail(&turn, &plan);
  if (options.durability == Durability::kKv) KVRT_TRY(tail_copied.clone());
  if (!tail_copied.is_ok() && nothing_new()) return SaveReport();
  SaveReport report;
  auto saved = write(session, &plan, options, own_name, model, &open_name, &report);
  turn.finish();
  report.left_out |= !tail_copied.is_ok();
  if (!saved.is_ok()) {
    s.last_error = saved.status().clone();
    return saved.take_status();
  }
  note_saved(session, plan, *saved, report.left_out);
  s.saved.name = std::move(own_name);
  s.open_name.swap(open_name);
  if (options.suspend) {
    cache_->release(&s.kv, 0);
    s.stored.resumed_tokens = std::max(s.stored.resumed_tokens, s.stored.own_tokens);
    s.state = SessionState::kSuspended;
  }
  report.revision = saved->revision;
  report.tokens = plan.said.tokens.size();
  report.ms = static_cast<double>(runtime_.env()->now_ns() - start) * 1e-6;
  return report;
}

// Pauses between two portions of an autosave: sessions that compute have the machine for a while, unless somebody waits for the save.
void Saver::give_way(Session* session, uint64_t worked_ns) {
  Lock lock(lock_->mu);
  if (queue_->runnable_count() == 0) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::min(kSaverPauseMaxNs, worked_ns * kSaverPause));
  while (!session->use.save_waits() && !session->use.closing() && !queue_->starved()) {
    if (!lock_->pressed.wait_until(lock_->mu, until)) break;
  }
}

}  // namespace kvrt
