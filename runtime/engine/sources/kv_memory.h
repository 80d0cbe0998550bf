// KvMemory: the memory of a model's blocks on its device, and where in it the parts of a chunk are.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/compute/backend.h"
#include "runtime/engine/resources/memory_cost.h"
#include "runtime/engine/sources/kv_chunks.h"
#include "runtime/kv/block_pool.h"

namespace kvrt {

// Thread-safe: it does not change. Who reads or writes a block holds a reference to it.
class KvMemory {
 public:
  KvMemory(const ModelKv& kv, Backend* backend, std::unique_ptr<Buffer> pool);

  const ModelKv& kv() const { return kv_; }
  const KvGroups& groups() const { return kv_.groups; }
  const KvChunk& chunk(uint32_t number) const { return chunks_[number]; }
  const KvChunk& chunk_of(uint32_t group) const { return chunks_[chunk_number(kv_.groups, group)]; }
  Buffer* pool() const { return pool_.get(); }
  uint8_t* unit(BlockId unit) const { return pool_->data() + static_cast<uint64_t>(unit) * kv_.unit_bytes(); }
  Backend* backend() const { return backend_; }

  // Copies the layers of a group's block out of the device, as a chunk has them, but laid out as the device does.
  Status download(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const;

 private:
  const ModelKv kv_;
  Backend* const backend_;
  const std::unique_ptr<Buffer> pool_;
  std::vector<KvChunk> chunks_;  // by number
};

}  // namespace kvrt
