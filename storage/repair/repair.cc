#include "storage/repair/repair.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "storage/repair/switch.h"
#include "storage/store/directory.h"
#include "storage/store/trash.h"

namespace kvrt {

namespace {

using Outcome = RepairReport::Outcome;

Status stopped() { return error(Code::kCancelled, Detail::kNone, "repair was stopped; nothing was changed"); }

class Repair {
 public:
  Repair(Env* env, Log* log, DamagedDirectory damaged, const RepairWatch& watch)
      : env_(env),
        log_(log),
        dir_(std::move(damaged.dir)),
        probe_(damaged.catalog),
        mended_(damaged.mended),
        watch_(watch),
        files_(env, dir_.root, 4) {}

  Result<RepairReport> run() {
    changed_ = mended_ || dir_.log_mended;
    if (mended_) KVRT_TRY(note("catalog: a bit of the numbers in its header had flipped; it is mended"));
    if (dir_.log_mended) KVRT_TRY(note("catalog.db-wal: bits of it had flipped; they are mended"));
    mended_ = mended_ || dir_.log_mended;
    std::vector<std::string> left;
    KVRT_ASSIGN(const bool finished, finish_switch(env_, dir_.root, &report_.aside, &left));
    for (const std::string& name : left) KVRT_TRY(note("tmp/" + name + ": a directory, which no kvrt makes; it stays"));
    changed_ = changed_ || finished;
    if (finished) {
      KVRT_ASSIGN(probe_, probe_catalog(env_, catalog_path()));
      KVRT_TRY(note("catalog: a repair that was interrupted is finished"));
    }
    KVRT_ASSIGN(const bool sound, examine());
    KVRT_TRY(sound ? mend() : rebuild());
    KVRT_TRY(mend_format());
    if (finished) report_.outcome = Outcome::kRebuilt;
    if (!report_.aside.empty()) KVRT_TRY(note(report_.aside + ": what was replaced, and what no session is left for"));
    if (mended_ && report_.outcome == Outcome::kSound) report_.outcome = Outcome::kMended;
    return std::move(report_);
  }

 private:
  std::string catalog_path() const { return dir_.root + "/catalog.db"; }
  // Only a repair that has changed nothing yet can be stopped.
  Status note(const std::string& line) { return watch_.note && !watch_.note(line) && !changed_ ? stopped() : Status(); }
  bool progress(uint64_t done, uint64_t total) { return !watch_.progress || watch_.progress(done, total) || changed_; }
  Result<FoundSegments> scan(const std::function<bool(const SegmentId&)>& wanted, const std::function<bool(const SegmentId&)>& open) {
    return scan_segments(env_, dir_.root, id_, wanted, open, [&](uint64_t done, uint64_t total) { return progress(done, total); });
  }

  Status mend_format() {
    using Kind = FormatFile::Kind;
    const Kind kind = dir_.format.kind;
    if (kind == Kind::kSound || kind == Kind::kOld) return {};
    KVRT_TRY(note(kind == Kind::kMissing ? "FORMAT: missing; written anew" : "FORMAT: damaged; written anew"));
    mended_ = true;
    return write_format(env_, dir_.root, id_);
  }

  // True if `id`, the catalog's, is another store's than FORMAT's.
  Result<bool> is_foreign(const StoreId& id) {
    if (!dir_.format.id || *dir_.format.id == id) return false;
    if (std::exchange(foreign_, true)) return true;
    KVRT_TRY(note("catalog: of another store, " + id.hex() + "; FORMAT says that this is " + dir_.format.id->hex()));
    return true;
  }

  // The rows of this store's catalog. Where its log is another store's, those of catalog.db alone; none where that is, too.
  Result<Salvage> salvage() {
    KVRT_ASSIGN(Salvage all, salvage_catalog(env_, catalog_path(), true));
    if (!all.id) return all;
    KVRT_ASSIGN(const bool foreign, is_foreign(*all.id));
    if (!foreign) return all;
    KVRT_ASSIGN(Salvage unlogged, salvage_catalog(env_, catalog_path(), false));
    if (unlogged.id && *unlogged.id == dir_.format.id) return without_log(std::move(unlogged));
    report_.sessions_lost = all.sessions.size();
    return Salvage();
  }

  // The rows of a catalog in whose log's place is another store's: its own log may have had more.
  static Salvage without_log(Salvage salvage) {
    salvage.all_sessions = salvage.all_nodes = false;
    return salvage;
  }

  // Where neither FORMAT nor the catalog tells the store's id, a new one begins as most segments say.
  Result<StoreId> choose_id(const Salvage& salvage) {
    if (dir_.format.id || salvage.id) return dir_.format.id ? *dir_.format.id : *salvage.id;
    KVRT_ASSIGN(const uint64_t tag, commonest_store(env_, dir_.root));
    if (salvage.claimed && (tag == 0 || salvage.claimed->tag() == tag)) return *salvage.claimed;
    StoreId id;
    env_->random(id.bytes);
    if (tag != 0) std::memcpy(id.bytes.data(), &tag, sizeof tag);
    return id;
  }

  // Checks the catalog against itself, read only. False: the store needs a new one.
  Result<bool> examine() {
    if (probe_.kind != CatalogProbe::Kind::kOurs) {
      KVRT_TRY(note(probe_.kind == CatalogProbe::Kind::kMissing ? "catalog: missing" : "catalog: its header is damaged"));
      return false;
    }
    if (!dir_.log_damage.empty()) {
      KVRT_TRY(note("catalog.db-wal: " + dir_.log_damage));
      return false;
    }
    std::vector<VerifyFault> faults;
    Status checked = check(&faults);
    for (const VerifyFault& f : faults) KVRT_TRY(note(f.where + ": " + f.what + (f.session.empty() ? "" : "; session " + f.session)));
    if (checked.code() == Code::kCorrupt) {
      KVRT_TRY(note("catalog: " + without_catalog(checked.message())));
      return false;
    }
    KVRT_TRY(std::move(checked));
    KVRT_ASSIGN(const bool foreign, is_foreign(id_));
    return faults.empty() && !foreign;
  }

  Status check(std::vector<VerifyFault>* faults) {
    KVRT_ASSIGN(const bool had_index, env_->exists(catalog_path() + "-shm"));
    Catalog catalog;
    CatalogDb::OpenMode mode;
    mode.read_only = true;
    mode.immutable = !probe_.log_rows;
    mode.check = true;
    Status checked = catalog.db.open(catalog_path(), mode);
    if (checked.is_ok()) checked = catalog.check(nullptr, faults, &chunks_, &segments_);
    if (checked.is_ok()) id_ = catalog.db.id();
    std::vector<VerifyFault> models;
    if (checked.is_ok() && faults->empty()) checked = catalog.models.check(&models);
    for (const VerifyFault& f : models) KVRT_TRY(note(f.where + ": " + f.what));
    wrong_models_ = !models.empty();
    if (checked.is_ok() && !probe_.logged)  // a reader works in any journal mode; a writer needs the log
      checked = error(Code::kCorrupt, Detail::kCatalogCorrupt, "its header says that it has no log");
    KVRT_TRY(catalog.db.close(false));
    if (!had_index && probe_.log_rows) (void)env_->remove_file(catalog_path() + "-shm").is_ok();  // SQLite made it for the log
    return checked;
  }

  // ---- the catalog is sound: bad chunks are forgotten

  // Look-ups in what was found.
  class FoundIndex {
   public:
    explicit FoundIndex(const FoundSegments& found) : found_(found) {
      for (size_t i = 0; i < found.segments.size(); i++) numbers_[found.segments[i].id.bytes] = i;
      for (const FoundFrame& f : found.frames) frames_[{f.segment, f.place.offset}] = &f;
    }
    const FoundSegment* segment(const SegmentId& id) const {
      const auto number = numbers_.find(id.bytes);
      return number != numbers_.end() ? &found_.segments[number->second] : nullptr;
    }
    const FoundFrame* frame(const SegmentId& id, uint64_t offset) const {
      const auto number = numbers_.find(id.bytes);
      const auto frame = number != numbers_.end() ? frames_.find({number->second, offset}) : frames_.end();
      return frame != frames_.end() ? frame->second : nullptr;
    }

   private:
    const FoundSegments& found_;
    std::map<std::array<uint8_t, 16>, size_t> numbers_;
    std::map<std::pair<size_t, uint64_t>, const FoundFrame*> frames_;
  };

  struct Bad {
    const SegmentRow* row = nullptr;
    bool missing = false;
    std::vector<ChunkKey> forget;
    std::vector<const FoundFrame*> rewrite;  // the good frames of a bad segment
  };

  Status mend() {
    std::map<std::array<uint8_t, 16>, const SegmentRow*> named;
    for (const auto& row : segments_) named[row.id.bytes] = &row;
    KVRT_ASSIGN(FoundSegments found, scan([&](const SegmentId& id) { return named.count(id.bytes) != 0; },
                                          [&](const SegmentId& id) { return !named[id.bytes]->sealed; }));
    for (const std::string& fault : found.faults) KVRT_TRY(note(fault));
    KVRT_ASSIGN(std::vector<Bad> bad, find_bad(found));
    if (bad.empty() && !wrong_models_ && found.foreign.empty()) return count(nullptr);
    report_.outcome = Outcome::kMended;
    changed_ = true;
    if (!found.foreign.empty()) {
      KVRT_ASSIGN(report_.aside, move_segments_aside(env_, dir_.root, found.foreign));
    }
    Catalog catalog;
    CatalogDb::OpenMode mode;
    mode.write_lock = dir_.write_lock.get();
    KVRT_TRY(catalog.db.open(catalog_path(), mode));
    KVRT_TRY(catalog.models.forget_wrong().take_status());
    KVRT_ASSIGN(auto before, catalog.sessions.list("", true, 0));
    Status mended;
    for (size_t i = 0; i < bad.size() && mended.is_ok(); i++) mended = mend_segment(&catalog, bad[i]);
    flush_trash(env_, log_, dir_.root, &catalog, &files_);
    if (mended.is_ok()) mended = count(&before, &catalog);
    if (mended.is_ok()) mended = count_forgotten(&catalog, found);
    Status closed = catalog.db.close(mended.is_ok());
    KVRT_TRY(std::move(mended));
    return closed;
  }

  Result<std::vector<Bad>> find_bad(const FoundSegments& found) {
    const FoundIndex index(found);
    std::map<int64_t, Bad> all;
    for (const auto& row : segments_) {
      Bad& b = all[row.row];
      b.row = &row;
      b.missing = index.segment(row.id) == nullptr;
      const bool foreign = std::find(found.foreign.begin(), found.foreign.end(), row.id) != found.foreign.end();
      if (b.missing && !foreign) KVRT_TRY(note(row.id.shown() + ": missing"));
    }
    for (const auto& chunk : chunks_) {
      Bad& b = all[chunk.segment];
      if (b.row == nullptr || b.missing) continue;
      const FoundFrame* frame = index.frame(b.row->id, chunk.place.offset);
      if (frame != nullptr && is_of(chunk, *frame)) {
        b.rewrite.push_back(frame);
        continue;
      }
      b.forget.push_back(chunk.place.chunk);
      KVRT_TRY(note(chunk.place.chunk.shown() + ": lost, and will be computed again" +
                    (chunk.session.empty() ? "" : "; session " + chunk.session)));
    }
    std::vector<Bad> bad;
    for (auto& [id, b] : all) {
      const bool sound = !b.missing && index.segment(b.row->id)->sound;
      if (sound) b.rewrite.clear();
      if (b.missing || !sound || !b.forget.empty()) bad.push_back(std::move(b));
    }
    return bad;
  }

  static bool is_of(const ChunkRow& row, const FoundFrame& frame) {
    return frame.place == row.place && frame.tokens == row.tokens && frame.items == row.items &&
           (!row.parent || frame.parent == *row.parent);
  }

  Status mend_segment(Catalog* catalog, const Bad& bad) {
    if (bad.missing) return catalog->chunks.forget_segment(bad.row->id).take_status();
    for (const ChunkKey& chunk : bad.forget) KVRT_TRY(catalog->chunks.forget(chunk, bad.row->id).take_status());
    if (bad.rewrite.empty()) return {};
    KVRT_ASSIGN(CopiedSegment copy, copy_segment(env_, dir_.root, id_, bad.row->id, bad.rewrite));
    const NewSegment to{copy.writer->id(), copy.writer->bytes(), copy.writer->bytes(), copy.chunks};
    auto moved = catalog->chunks.move(*bad.row, to);
    if (!moved.is_ok() || *moved > 0) copy.writer->keep();  // a failed commit may still be on the disk
    return moved.take_status();
  }

  Status count(const std::vector<SessionStat>* before, Catalog* catalog = nullptr) {
    if (catalog == nullptr) {
      Catalog reader;
      CatalogDb::OpenMode mode;
      mode.read_only = true;
      mode.immutable = !probe_.log_rows;
      KVRT_TRY(reader.db.open(catalog_path(), mode));
      KVRT_TRY(count(nullptr, &reader));
      return reader.db.close(false);
    }
    KVRT_ASSIGN(auto sessions, catalog->sessions.list("", true, 0));
    KVRT_ASSIGN(const Catalog::Totals totals, catalog->totals(0));
    report_.sessions_kept = sessions.size();
    report_.chunks_kept = totals.chunks;
    report_.bytes_kept = totals.chunk_bytes;
    report_.chunks_lost = chunks_.size() - totals.chunks;
    for (size_t i = 0; before != nullptr && i < sessions.size(); i++) {
      report_.sessions_with_holes += sessions[i].chunks < (*before)[i].chunks;
    }
    return {};
  }

  // Adds the damaged chunks whose rows a reader removed before, and that are still missing: they go with their segment's copy.
  Status count_forgotten(Catalog* catalog, const FoundSegments& found) {
    std::set<std::pair<std::array<uint8_t, 16>, uint64_t>> named;
    std::map<int64_t, const SegmentRow*> rows;
    for (const SegmentRow& row : segments_) rows[row.row] = &row;
    for (const ChunkRow& chunk : chunks_) named.insert({rows.at(chunk.segment)->id.bytes, chunk.place.offset});
    for (const BadFrame& bad : found.bad) {
      if (named.count({found.segments[bad.segment].id.bytes, bad.offset}) != 0) continue;
      KVRT_ASSIGN(const bool needed, catalog->nodes.has(bad.chunk.node));
      KVRT_ASSIGN(const auto now, catalog->chunks.find(bad.chunk));
      report_.chunks_lost += needed && !now;
    }
    return {};
  }

  // ---- the catalog is not sound: a new one is made

  Status rebuild() {
    report_.outcome = Outcome::kRebuilt;
    KVRT_ASSIGN(Salvage salvage, this->salvage());
    KVRT_ASSIGN(id_, choose_id(salvage));
    auto trash = salvage.trash;
    KVRT_ASSIGN(FoundSegments found,
                scan([&](const SegmentId& id) { return trash.count(id) == 0; }, [](const SegmentId&) { return false; }));
    Recovery plan = recover(env_, id_, std::move(salvage), found);
    if (plan.foreign_log) {
      KVRT_TRY(note("catalog.db-wal: no session in it is this store's; it is not read"));
      KVRT_ASSIGN(salvage, salvage_catalog(env_, catalog_path(), false));
      salvage = without_log(std::move(salvage));
      plan = recover(env_, id_, std::move(salvage), found);
    }
    for (const std::string& fault : found.faults) KVRT_TRY(note(fault));
    for (const std::string& line : plan.lines) KVRT_TRY(note(line));
    changed_ = true;
    KVRT_ASSIGN(std::vector<CopiedSegment> copies, copy_unsound(plan, &found));
    std::vector<SegmentId> aside = found.foreign;
    for (size_t segment : plan.unowned) aside.push_back(found.segments[segment].id);
    KVRT_TRY(write_catalog(env_, dir_.root, id_, plan, found));
    for (CopiedSegment& copy : copies) copy.writer->keep();  // a failed switch may be finished later
    KVRT_ASSIGN(report_.aside, switch_catalogs(env_, dir_.root, aside));
    report_.sessions_kept = plan.kept;
    report_.sessions_with_holes = plan.with_holes;
    report_.sessions_recovered = plan.recovered;
    report_.sessions_lost += plan.lost;
    report_.chunks_kept = plan.chunks;
    report_.chunks_lost = plan.chunks_lost;
    report_.chunks_orphaned = plan.chunks_orphaned;
    report_.bytes_kept = plan.chunk_bytes;
    return {};
  }

  // Copies the frames that the plan needs from damaged segments into new ones.
  Result<std::vector<CopiedSegment>> copy_unsound(const Recovery& plan, FoundSegments* found) {
    std::map<size_t, std::vector<FoundFrame*>> needed;
    for (const RecoveredNode& node : plan.nodes) {
      for (size_t number : node.frames) {
        FoundFrame* frame = &found->frames[number];
        if (!found->segments[frame->segment].sound) needed[frame->segment].push_back(frame);
      }
    }
    std::vector<CopiedSegment> copies;
    for (auto& [segment, frames] : needed) {
      const std::vector<const FoundFrame*> list(frames.begin(), frames.end());
      KVRT_ASSIGN(CopiedSegment copy, copy_segment(env_, dir_.root, id_, found->segments[segment].id, list));
      for (size_t i = 0; i < frames.size(); i++) {
        frames[i]->segment = found->segments.size();
        frames[i]->place.offset = copy.chunks[i].offset;
      }
      found->segments.push_back({copy.writer->id(), copy.writer->bytes()});
      copies.push_back(std::move(copy));
    }
    return copies;
  }

  Env* env_;
  Log* log_;
  StoreDirectory dir_;
  CatalogProbe probe_;
  bool mended_;           // something other than the catalog's rows was mended
  bool changed_ = false;  // it has begun to write
  bool foreign_ = false;  // the catalog is another store's
  StoreId id_;
  const RepairWatch& watch_;
  SegmentCache files_;
  std::vector<ChunkRow> chunks_;
  std::vector<SegmentRow> segments_;
  bool wrong_models_ = false;  // rows of the cache of model ids are wrong
  RepairReport report_;
};

}  // namespace

Result<RepairReport> repair_store(Env* env, Log* log, const std::string& path, const RepairWatch& watch) {
  const uint64_t start = env->now_ns();
  KVRT_ASSIGN(DamagedDirectory damaged, open_damaged(env, path));
  KVRT_ASSIGN(RepairReport report, Repair(env, log, std::move(damaged), watch).run());
  report.ms = static_cast<double>(env->now_ns() - start) * 1e-6;
  return report;
}

}  // namespace kvrt
