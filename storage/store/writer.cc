// Writer: the rules of a write, and what follows it.
#include "storage/store/writer.h"

#include <new>

#include "storage/store/reserve.h"
#include "storage/store/trash.h"

namespace kvrt {

Status Writer::check_writable() {
  KVRT_TRY(take_up_writing());
  const char* root = dir_.root.c_str();
  if (dir_.read_only) return error(Code::kIo, Detail::kReadOnly, "%s: the store is open read-only", root);
  if (broken_.is_ok() && catalog.db.sync_failed()) {
    broken_ = error(Code::kIo, Detail::kNone, "%s/catalog.db: a sync failed; what it was to save may not be on the disk", root);
  }
  KVRT_TRY(broken_.clone());
  return catalog.db.check_in_place();  // else files would change in another store's directory
}

void Writer::note(const Status& status) {
  if (status.code() == Code::kIo) broken_ = status.clone();
}

Status Writer::change(bool frees, const std::function<Status()>& transaction) {
  KVRT_TRY(check_writable());
  KVRT_TRY(catalog.db.set_durability(Durability::kTokens));
  Status status = transaction();
  if (frees && status.code() == Code::kNoSpace) {
    give_reserve();
    (void)catalog.db.checkpoint(true).is_ok();
    status = transaction();
  }
  note(status);
  return status;
}

Result<CommitResult> Writer::commit(const SessionIn& session, const NewSegment* segment, const ChunkKeys& needed) {
  KVRT_TRY(check_writable());
  KVRT_ASSIGN(Space::Shortage lack, shortage(0, session.manifest.size()));
  if (lack.bytes > 0) return std::move(lack.why);
  Durability durability = session.durability == Durability::kDefault ? Durability::kTokens : session.durability;
  if (durability == Durability::kKv) KVRT_TRY(sync_reused(session));
  ChunkKeys bad;  // chunks that it brings in place of damaged ones. Others that readers find meanwhile stay bad
  if (segment != nullptr) bad = reader_->bad_of(segment->chunks);
  KVRT_TRY(catalog.db.set_durability(durability));
  auto done = catalog.commit(session, segment, needed, bad, store_->env->unix_ms());
  if (done.status().code() == Code::kNoSpace && catalog.db.checkpoint(true).is_ok()) {  // the room that the log gave back may be enough
    done = catalog.commit(session, segment, needed, bad, store_->env->unix_ms());
  }
  if (!done.is_ok()) {
    note(done.status());  // after a failed sync the kernel may have dropped the pages and forgotten the error
    return done.take_status();
  }
  if (!bad.empty()) reader_->forget_bad(bad);
  after_commit(durability);
  return done;
}

// Syncs reused segments: KV that must survive a power cut may lie in one whose save, of weaker durability, did not wait for the disk.
Status Writer::sync_reused(const SessionIn& session) {
  KVRT_ASSIGN(auto rows, catalog.segments.unsynced(session.nodes));
  if (rows.empty()) return {};
  const std::string& root = dir_.root;
  std::vector<SegmentRow> on_disk;
  for (const auto& row : rows) {
    auto file = store_->files.open(row.id);
    // Missing, unsafe, which counts as missing, or another store's: a hole for the reader, nothing to sync.
    const Code code = file.status().code();
    if (code == Code::kNotFound || code == Code::kIncompatible || file.status().detail() == Detail::kUnsafeDirectory) continue;
    KVRT_TRY(file.status().clone());
    Status synced = (*file)->sync();
    if (!synced.is_ok()) {
      KVRT_TRY(distrust(row.id, synced));
      return synced;
    }
    KVRT_TRY(store_->env->sync_dir(row.id.dir(root)));
    on_disk.push_back(row);
  }
  if (on_disk.empty()) return {};
  KVRT_TRY(store_->env->sync_dir(root + "/segs"));
  return catalog.segments.mark_synced(on_disk);
}

Status Writer::distrust(const SegmentId& id, const Status& why) {
  store_->open.fail(id, why);
  KVRT_ASSIGN(const SegmentRow row, catalog.segments.find(id));
  if (row.row == 0) return {};
  KVRT_TRY(change(true, [&]() KVRT_REQUIRES(mutex) { return catalog.chunks.forget_behind(id, row.synced).take_status(); }));
  store_->files.forget(id);
  return {};
}

std::optional<ChunkState> Writer::forget(const ChunkKey& chunk, const ChunkLocation& at, bool missing) {
  const Impatient at_once = catalog.db.impatient();
  auto now = catalog.chunks.find(chunk);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;  // removed while we read
  // The segment is compared by name: a later one may have its row number.
  if (now.is_ok() && (*now)->segment != at.segment) return std::nullopt;
  if (!check_writable().is_ok()) return reader_->note_bad(chunk, at);
  (void)catalog.db.set_durability(Durability::kProcess).is_ok();  // a power cut only brings it back, to be found again
  auto forgotten = missing ? catalog.chunks.forget_segment(at.segment) : catalog.chunks.forget(chunk, at.segment);
  if (!forgotten.is_ok()) return reader_->note_bad(chunk, at);
  store_->damaged += *forgotten;
  return ChunkState::kDamaged;
}

void Writer::after_commit(Durability durability) try {
  const Impatient at_once = catalog.db.impatient();
  const bool waits = waits_for_disk(durability);
  if (waits) {
    drop_dead();
    (void)catalog.db.set_durability(Durability::kProcess).is_ok();
    empty_trash(store_->env, store_->log, dir_.root, &catalog, &store_->files, store_->env->now_ns() + kSliceNs, nullptr);
  }
  if (unfolded_) unfolded_ = !catalog.db.checkpoint(true).is_ok();
  fold_log(kLogBytesMax);
  remake_reserve(waits);
} catch (const std::bad_alloc&) {
}

// Lets those open segments go of which every chunk was removed, on the disk: their space is free at once.
void Writer::drop_dead() {
  for (const SegmentId& id : store_->open.list()) {
    auto row = catalog.segments.find(id);
    if (!row.is_ok() || row->row == 0 || row->live > 0) continue;
    auto segment = store_->open.take(id);
    if (!segment) continue;
    Status dropped = catalog.db.set_durability(Durability::kTokens);
    if (dropped.is_ok()) dropped = catalog.segments.seal(id, row->bytes);
    note(dropped);
    if (dropped.is_ok()) segment->drop();
  }
}

Status Writer::scrub(CatalogDb::Scrub* scrub, const std::function<bool()>& more) {
  unfolded_ = true;
  Status folded = catalog.db.scrub(scrub, more);
  if (!folded.is_ok() || !scrub->finished) return folded;
  unfolded_ = false;
  if (catalog.db.log_file_bytes() > 0) (void)catalog.db.checkpoint(true).is_ok();  // no removed content is in it
  return {};
}

void Writer::fold_log(uint64_t from_bytes) {
  if (catalog.db.log_bytes() < from_bytes) return;
  Status folded = catalog.db.checkpoint();
  if (!folded.is_ok()) logf(store_->log, LogLevel::kWarn, "store: checkpoint: %s", folded.message().c_str());
}

// It is one atomic number.
uint64_t Writer::log_bytes() const KVRT_NO_THREAD_SAFETY_ANALYSIS { return catalog.db.log_bytes(); }

void Writer::give_reserve() {
  give_up_reserve(store_->env, dir_.root);
  reserve_given_ = true;
}

// There may not be room enough yet: then it is made after the next commit. The log may be in its way, so that is folded in; not for a caller
// that does not wait for the disk.
void Writer::remake_reserve(bool may_wait) {
  if (!reserve_given_) return;
  reserve_given_ = !make_reserve(store_->env, dir_.root);
  if (reserve_given_ && may_wait && catalog.db.checkpoint(true).is_ok()) reserve_given_ = !make_reserve(store_->env, dir_.root);
}

Result<Space::Shortage> Writer::shortage(uint64_t kv, uint64_t manifest) {
  return space_->shortage(&catalog, kv, manifest, reserve_given_ ? kReserveBytes : 0);
}

}  // namespace kvrt
