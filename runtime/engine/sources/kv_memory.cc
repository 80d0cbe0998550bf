#include "runtime/engine/sources/kv_memory.h"

#include <utility>

namespace kvrt {

KvMemory::KvMemory(const ModelKv& kv, Backend* backend, std::unique_ptr<Buffer> pool) : kv_(kv), backend_(backend), pool_(std::move(pool)) {
  for (uint32_t number = 0; number <= kv_.groups.groups.size(); ++number) chunks_.push_back(kv_chunk(kv_.groups, number));
}

Status KvMemory::download(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const {
  const KvChunk& chunk = chunk_of(group);
  to->resize(chunk.geometry.block_bytes());
  for (const ChunkPart& part : chunk.parts) {
    KVRT_TRY(backend_->download(std::span(*to).subspan(part.in_chunk, part.bytes), unit(units[part.unit]) + part.in_unit));
  }
  return {};
}

}  // namespace kvrt
