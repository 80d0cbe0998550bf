#include "runtime/engine/snapshot/shrinker.h"

#include <algorithm>
#include <map>

#include "runtime/compute/kv_layout.h"
#include "runtime/compute/numerics.h"
#include "runtime/engine/session/kv_root.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

// A snapshot that may be converted.
struct Shrinker::Cold {
  std::string domain, name;
  uint64_t revision;
  std::vector<BlockKey> keys;
};

struct Shrinker::Run {
  std::shared_ptr<Store> store;
  const ShrinkOptions& options;
  std::shared_ptr<const ColdChunks> to;
  RoundRow round;
  Hash256 model;
  int64_t saved_before_ms;
  std::unordered_set<BlockKey, Hash256Hasher> warm_nodes{};
  ShrinkReport report{};
};

namespace {

// The numerics under which a snapshot's KV was computed, if it is exact and of the pool's formats; "": it is not.
std::string exact_numerics(const Hash256& model, const ModelKv& kv, const SessionOut& saved) {
  for (std::string& numerics : known_numerics()) {
    if (kv_root(model, kv, numerics, saved.domain) == saved.root) return std::move(numerics);
  }
  return {};
}

// The nodes of a loaded session. They point into it.
std::vector<NodeIn> nodes_of(const SessionOut& saved) {
  std::vector<NodeIn> nodes;
  BlockKey parent = saved.root;
  size_t at = 0;
  for (size_t i = 0; i < saved.keys.size(); at += saved.node_tokens[i++]) {
    nodes.push_back({saved.keys[i], parent, std::span(saved.tokens).subspan(at, saved.node_tokens[i])});
    parent = saved.keys[i];
  }
  return nodes;
}

}  // namespace

Shrinker::Kind Shrinker::kind_of(const Run& run, const SessionStat& stat, const SessionOut& saved) const {
  const ModelKv& kv = memory_.kv();
  const auto has_items = [](const std::vector<uint8_t>& items) { return !items.empty(); };
  const auto fits = [&](const uint32_t& n) { return n == kv.block_tokens() || (n < kv.block_tokens() && &n == &saved.node_tokens.back()); };
  if (saved.model_id != run.model || !std::ranges::all_of(saved.node_tokens, fits)) return Kind::kOther;
  if (exact_numerics(run.model, kv, saved).empty()) {
    return find_cold(model_, kv, run.model, saved.domain, saved.root) ? Kind::kInexact : Kind::kOther;
  }
  if (std::ranges::any_of(saved.node_items, has_items) || stat.chunks == 0) return Kind::kOther;
  if (stat.saved_unix_ms > run.saved_before_ms || stat.pinned > 0 || run.store->has_open(stat.domain, stat.name)) return Kind::kWarm;
  return Kind::kCold;
}

// Finds the cold snapshots, and the nodes of the others.
Result<std::vector<Shrinker::Cold>> Shrinker::look(Run* run) const {
  const std::optional<std::string>& domain = run->options.domain;
  KVRT_ASSIGN(const std::vector<SessionStat> stats, run->store->list(domain.value_or(""), !domain));
  std::vector<Cold> found;
  for (const SessionStat& stat : stats) {
    auto saved = run->store->load(stat.domain, stat.name, /*used=*/false);
    if (saved.status().code() == Code::kNotFound) continue;  // removed meanwhile
    ++run->report.sessions;
    const bool damaged = saved.status().code() == Code::kCorrupt;
    if (!saved.is_ok() && !damaged) return saved.take_status();
    const Kind kind = damaged ? Kind::kOther : kind_of(*run, stat, *saved);
    if (kind == Kind::kCold) found.push_back({stat.domain, stat.name, saved->revision, std::move(saved->keys)});
    if (kind == Kind::kWarm) run->warm_nodes.insert(saved->keys.begin(), saved->keys.end());
    run->report.warm += kind == Kind::kWarm;
    run->report.inexact += kind == Kind::kInexact;
    run->report.other += kind == Kind::kOther;
  }
  return found;
}

// Reads an exact chunk, and puts it as it is to be, under the other key.
Status Shrinker::put_rounded(Run* run, Store::Save* save, const NodeIn& from, const NodeIn& to, uint64_t position, uint32_t number) const {
  const KvChunk& chunk = memory_.chunk(number);
  const auto tokens = static_cast<uint32_t>(from.tokens.size());
  std::vector<uint8_t> payload(chunk.geometry.block_bytes());
  std::string damage;
  const ChunkState state = run->store->read(from, number, chunk.layout(), payload, &damage);
  if (state == ChunkState::kDamaged) return {};  // a hole before, and after
  if (state == ChunkState::kAbsent) return error(Code::kConflict, Detail::kConcurrent, "a chunk cannot be read now: %s", damage.c_str());
  uint32_t layout = chunk.layout(), elem_bytes = payload_cell_bytes(chunk.geometry);
  if (run->to->rounds(number)) {
    std::vector<uint8_t> scratch(payload_scratch_bytes(chunk.geometry)), rounded(run->to->bytes(number));
    from_payload(chunk.geometry, payload, scratch);
    run->to->encode(run->round, number, position, tokens, payload, rounded);
    payload.swap(rounded);
    layout = run->to->layout(number);
    elem_bytes = 1;
  }
  return save->put({to.key, to.parent, to.tokens, layout, elem_bytes, payload, ChunkCodec::kZstd, number});
}

// Saves the revision once more, under the root of rounded KV. BUSY: chunks that it counted on are gone.
Result<Shrinker::Kind> Shrinker::convert(Run* run, const Cold& cold, bool reuse_chunks) const {
  auto loaded = run->store->load(cold.domain, cold.name, /*used=*/false);
  if (loaded.status().code() == Code::kNotFound) return Kind::kWarm;
  KVRT_ASSIGN(const SessionOut saved, std::move(loaded));
  const std::string numerics = exact_numerics(run->model, memory_.kv(), saved);
  if (saved.revision != cold.revision || numerics.empty()) return Kind::kWarm;
  const std::vector<NodeIn> from = nodes_of(saved);
  const BlockKey root = run->to->root(run->model, numerics, saved.domain);
  const std::vector<NodeIn> to = chain_of(root, saved.tokens, memory_.kv().block_tokens());
  const SavedBy by{.domain = saved.domain, .name = saved.name, .manifest_bytes = saved.manifest.size(), .spares_others = true};
  KVRT_ASSIGN(auto save, run->store->begin_save(reuse_chunks, by));
  const std::vector<uint32_t> there = run->store->find(from), has = save->has(to);
  bool any = false;
  for (size_t i = 0; i < from.size(); ++i) {
    for (uint32_t number = 0; number < kChunkGroups; ++number) {
      if (!has_group(there[i], number)) continue;
      if (number > memory_.groups().groups.size() || memory_.chunk(number).parts.empty()) return Kind::kOther;
      any = true;
      if (has_group(has[i], number)) continue;
      const Status put = put_rounded(run, save.get(), from[i], to[i], i * memory_.kv().block_tokens(), number);
      if (put.code() == Code::kConflict) return Kind::kWarm;
      KVRT_TRY(put.clone());
    }
  }
  if (!any) return Kind::kOther;
  SessionIn in;
  in.domain = saved.domain;
  in.name = saved.name;
  in.id = saved.id;
  in.revision_seen = saved.revision;
  in.root = root;
  in.nodes = to;
  in.token_count = saved.token_count;
  in.block_tokens = saved.block_tokens;
  in.groups = groups_needed(memory_.groups());
  in.model_id = saved.model_id;
  in.manifest = saved.manifest;
  in.durability = Durability::kKv;  // what it replaces may go at once
  in.same_revision = true;
  const auto done = save->commit(in);
  if (done.status().code() == Code::kConflict) return Kind::kWarm;
  KVRT_TRY(done.status().clone());
  run->report.chunks += save->chunks_written();
  run->report.bytes_written += save->bytes_written();
  return Kind::kCold;
}

Result<ShrinkReport> Shrinker::shrink(const std::shared_ptr<Store>& store, const ShrinkOptions& options, const Progress& progress) const {
  const uint64_t start = runtime_.env()->now_ns();
  KVRT_ASSIGN(auto to, ColdChunks::make(model_, memory_.kv(), options.to));
  KVRT_ASSIGN(const Hash256 model, model_.id(runtime_, store));
  KVRT_ASSIGN(const StoreInfo before, store->info());
  if (before.read_only)
    return error(Code::kIo, Detail::kReadOnly, "%s is open read-only; to convert KV it has to be open for writing", before.path.c_str());
  const auto age = static_cast<int64_t>(std::min<uint64_t>(options.older_than_ms, INT64_MAX / 2));
  Run run{store, options, std::move(to), round_row_kernel(runtime_.log()), model, runtime_.env()->unix_ms() - age};
  KVRT_ASSIGN(const std::vector<Cold> found, look(&run));
  ShrinkReport& report = run.report;
  for (size_t i = 0; i < found.size(); ++i) {
    const Cold& cold = found[i];
    if (progress && !progress(i, found.size())) return error(Code::kCancelled, Detail::kNone, "shrink: stopped by its callback");
    const auto sizes = store->chunk_sizes(cold.keys);
    uint64_t bytes = 0, kept = 0;
    for (size_t node = 0; node < sizes.size(); ++node) {
      for (const ChunkSize& chunk : sizes[node]) {
        bytes += chunk.bytes;
        kept += run.warm_nodes.contains(cold.keys[node]) ? chunk.bytes : 0;
      }
    }
    // What a warm session has stays as it is, beside the rounded copy: that pays where it is little.
    if (2 * kept > bytes) {
      ++report.shared;
      continue;
    }
    auto kind = convert(&run, cold, true);
    if (kind.status().code() == Code::kBusy && kind.status().detail() == Detail::kConcurrent) kind = convert(&run, cold, false);
    KVRT_TRY(kind.status().clone());
    report.converted += *kind == Kind::kCold;
    report.warm += *kind == Kind::kWarm;
    report.other += *kind == Kind::kOther;
  }
  if (progress) (void)progress(found.size(), found.size());  // nothing is left to stop
  KVRT_ASSIGN(const StoreInfo after, store->info());
  report.bytes_before = before.chunk_bytes;
  report.bytes_after = after.chunk_bytes;
  report.ms = static_cast<double>(runtime_.env()->now_ns() - start) * 1e-6;
  return report;
}

}  // namespace kvrt
