// ColdChunks: the chunks of cold snapshots, rounded to few bits. They lie under a root of their own, so that no exact session finds them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/compute/cold_block.h"
#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/memory_cost.h"
#include "runtime/engine/sources/kv_chunks.h"

namespace kvrt {

// Immutable: any thread. The model outlives it.
class ColdChunks {
 public:
  // Of a model whose pool has `kv`. UNSUPPORTED: pool and format are no such pair, or the model's KV is latents.
  static Result<std::shared_ptr<const ColdChunks>> make(const LoadedModel& model, const ModelKv& kv, KvFormats cold);

  const KvFormats& formats() const { return formats_; }
  // The root of a snapshot with the exact root under these numerics, once it is converted.
  BlockKey root(const Hash256& model, std::string_view numerics, std::string_view domain) const;
  // False: the chunk has states, which stay as they are.
  bool rounds(uint32_t number) const { return !chunks_[number].states; }
  bool has(uint32_t number) const { return number < chunks_.size() && !chunks_[number].layers.empty(); }
  uint32_t layout(uint32_t number) const { return block_layout(chunks_[number].geometry); }
  uint64_t bytes(uint32_t number) const { return chunks_[number].geometry.block_bytes(); }

  // The block of tokens from `position` on, as the device has it, to a chunk's payload of bytes(number).
  void encode(RoundRow round, uint32_t number, uint64_t position, uint32_t tokens, std::span<const uint8_t> block,
              std::span<uint8_t> payload) const;
  // And back. The payload is used up; the slots after the tokens become zero.
  void decode(uint32_t number, uint64_t position, uint32_t tokens, std::span<uint8_t> payload, std::span<uint8_t> block) const;

 private:
  ColdChunks(const LoadedModel& model, const ModelKv& kv, KvFormats cold);
  std::span<const float> bias_of(uint32_t layer) const;
  std::vector<float> turned(uint32_t layer, uint64_t position, uint32_t tokens) const;
  template <typename Part>
  void for_layers(uint32_t number, uint64_t position, uint32_t tokens, Part part) const;

  const LoadedModel& model_;
  const ModelKv kv_;
  KvFormats formats_;
  std::vector<KvChunk> wide_, chunks_;  // by number: as the pool has them, and as they are rounded
};

// The conversion whose root a snapshot has, if it is one of the pool's formats under any numerics.
std::shared_ptr<const ColdChunks> find_cold(const LoadedModel& model, const ModelKv& kv, const Hash256& model_id, std::string_view domain,
                                            const BlockKey& root);

}  // namespace kvrt
