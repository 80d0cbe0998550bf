// A store that hands every call on to another: a test overrides the one that it is about.
#pragma once

#include <memory>
#include <utility>

#include "storage/store/store.h"

namespace kvrt::test {

class StoreProxy : public Store {
 public:
  explicit StoreProxy(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::vector<uint32_t> find(std::span<const NodeIn> chain) override { return store_->find(chain); }
  ChunkState read(const NodeIn& node, uint32_t number, uint32_t layout, std::span<uint8_t> out, std::string* damage) override {
    return store_->read(node, number, layout, out, damage);
  }
  uint32_t layout_of(const NodeIn& node, uint32_t number) override { return store_->layout_of(node, number); }
  uint64_t discard(std::span<const NodeIn> chain, const std::string& why) override { return store_->discard(chain, why); }
  std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys) override { return store_->chunk_sizes(keys); }
  Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks, const SavedBy& by) override { return store_->begin_save(reuse_chunks, by); }
  Result<SessionOut> load(std::string_view domain, std::string_view name, bool used) override { return store_->load(domain, name, used); }
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all) override { return store_->list(domain, all); }
  Result<SessionStat> stat(std::string_view domain, std::string_view name) override { return store_->stat(domain, name); }
  Status remove(std::string_view domain, std::string_view name) override { return store_->remove(domain, name); }
  Status rename(std::string_view domain, std::string_view from, std::string_view to) override { return store_->rename(domain, from, to); }
  Status pin(std::string_view domain, std::string_view name, uint8_t priority) override { return store_->pin(domain, name, priority); }
  Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) override {
    return store_->set_ttl(domain, name, seconds);
  }
  std::unique_ptr<OpenName> open_name(std::string_view domain, std::string_view name) override { return store_->open_name(domain, name); }
  int32_t other_process(std::string_view domain, std::string_view name) override { return store_->other_process(domain, name); }
  bool has_open(std::string_view domain, std::string_view name) override { return store_->has_open(domain, name); }
  Result<GcReport> gc(const std::function<bool(uint64_t, uint64_t)>& progress) override { return store_->gc(progress); }
  Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t, uint64_t)>& progress, const SessionCheck& check) override {
    return store_->verify(progress, check);
  }
  Result<StoreInfo> info() override { return store_->info(); }
  Place place() override { return store_->place(); }
  void retry_writing() override { store_->retry_writing(); }
  Result<uint64_t> remove_old() override { return store_->remove_old(); }
  bool cached_model_id(const ModelFile& file, Hash256* out) override { return store_->cached_model_id(file, out); }
  void cache_model_id(const ModelFile& file, const Hash256& id) override { store_->cache_model_id(file, id); }

 protected:
  const std::shared_ptr<Store> store_;
};

}  // namespace kvrt::test
