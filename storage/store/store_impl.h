// The open store: its parts, and the calls of Store over them. chunks.cc reads chunks; stored_sessions.cc reads and changes sessions;
// store_care.cc tells of the store, and verify.cc checks it; store.cc opens and closes it.
#pragma once

#include <optional>

#include "storage/store/collector.h"
#include "storage/store/open_names.h"
#include "storage/store/reader.h"
#include "storage/store/saves.h"
#include "storage/store/sealer.h"
#include "storage/store/space.h"
#include "storage/store/store.h"
#include "storage/store/store_context.h"
#include "storage/store/writer.h"

namespace kvrt {

// A part is given those before it that it uses: Reader and Lister look up, Writer writes, Sealer ends segments, Collector collects garbage,
// Saves save.
class StoreImpl final : public Store {
 public:
  StoreImpl(Env* env, Log* log, StoreDirectory dir, const StoreOptions& options)
      : store_(env, log, std::move(dir), options.item_tag_max), open_names_(store_.dir.lock.get()), space_(&store_, options) {}
  ~StoreImpl() override;

  Status start();

  std::vector<uint32_t> find(std::span<const NodeIn> chain) override { return reader_.find(chain); }
  ChunkState read(const NodeIn& node, uint32_t number, uint32_t layout, std::span<uint8_t> out, std::string* damage) override;
  uint32_t layout_of(const NodeIn& node, uint32_t number) override;

  Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks, const SavedBy& by) override { return saves_.begin(reuse_chunks, by); }
  Result<SessionOut> load(std::string_view domain, std::string_view name, bool used) override;
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) override;
  Result<SessionStat> stat(std::string_view domain, std::string_view name) override;
  std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys) override { return reader_.chunk_sizes(keys); }
  Status remove(std::string_view domain, std::string_view name) override;
  Status rename(std::string_view domain, std::string_view from, std::string_view to) override;
  Status pin(std::string_view domain, std::string_view name, uint8_t priority) override;
  Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) override;
  std::unique_ptr<OpenName> open_name(std::string_view domain, std::string_view name) override;
  int32_t other_process(std::string_view domain, std::string_view name) override { return open_names_.other_process(domain, name); }
  bool has_open(std::string_view domain, std::string_view name) override {
    return open_names_.open_here(domain, name) || open_names_.other_process(domain, name) != 0;
  }

  Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) override { return collector_.gc(progress); }
  Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                          const SessionCheck& check) override;
  uint64_t discard(std::span<const NodeIn> chain, const std::string& why) override;
  Result<StoreInfo> info() override;
  Place place() override;
  void retry_writing() override;
  Result<uint64_t> remove_old() override;

  bool cached_model_id(const ModelFile& file, Hash256* out) override;
  void cache_model_id(const ModelFile& file, const Hash256& id) override;

 private:
  Status change_session(bool frees, const std::function<Status(SessionTable*, int64_t now_ms)>& change);
  void touch(std::string_view domain, std::string_view name);
  std::optional<ChunkState> lose(const ChunkKey& chunk, const ChunkLocation& at, const Status& why, std::string* damage);
  bool discard(const ChunkKey& chunk, const std::string& why);
  bool still_there(const ChunkRow& chunk, std::span<const SegmentRow> segments);

  StoreContext store_;
  OpenNames open_names_;
  Space space_;
  Writer writer_{&store_, &reader_, &lister_, &space_};  // its connection is closed after theirs: only the last one folds the log in
  Reader reader_{&store_};
  Lister lister_;
  Sealer sealer_{&store_, &writer_};
  Collector collector_{&store_, &writer_, &sealer_};
  Saves saves_{&store_, &reader_, &writer_, &space_, &sealer_, &collector_};
};

}  // namespace kvrt
