// Probe: what tests of the engine read from within.
#pragma once

#include "runtime/engine/engine.h"

namespace kvrt {

struct Probe {
  static const BlockPool& pool(const KvCache& cache) { return cache.pool_; }
  static const PrefixIndex& index(const KvCache& cache) { return cache.index_; }
  static const std::unordered_map<BlockId, PrefixIndex::Entry>& entries(const KvCache& cache) { return cache.index_.entries_; }
  static KvCache& cache(Engine& engine) { return engine.parts_->cache; }
  static Autosaves& autosaves(Engine& engine) { return engine.parts_->autosaves; }
  static EngineLock& lock(Engine& engine) { return engine.lock_; }
};

}  // namespace kvrt
