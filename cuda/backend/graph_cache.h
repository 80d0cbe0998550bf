// GraphCache: one model's decode steps as CUDA graphs, by shape.
#pragma once

#include <cuda_runtime.h>

#include <list>

#include "cuda/backend/device_context.h"
#include "runtime/compute/backend.h"

namespace kvrt::cuda {

inline constexpr size_t kGraphsMax = 64;  // those used last stay

// One thread at a time.
class GraphCache final : public RunCache {
 public:
  struct Entry {
    uint64_t key = 0;
    uint32_t splits = 0;      // parts of a row's attention
    uint64_t generation = 0;  // the generation of the backend's memory that it has captured
    bool warm = false;        // it ran once without a graph: all memory that it needs is there
    bool refused = false;     // it could not be captured
    cudaGraphExec_t graph = nullptr;
  };
  explicit GraphCache(const DeviceContext* context) : context_(context) {}
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;
  ~GraphCache() override {
    const DeviceContext::Use use(context_);
    for (Entry& entry : entries_) drop(&entry);
  }

  // The entry of a shape, made where there is none; of too many the one used longest ago goes.
  Entry* find(uint64_t key, uint32_t splits) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->key != key || it->splits != splits) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return &entries_.front();
    }
    if (entries_.size() == kGraphsMax) {
      drop(&entries_.back());
      entries_.pop_back();
    }
    entries_.push_front({key, splits, 0, false, false, nullptr});
    return &entries_.front();
  }
  static void drop(Entry* entry) {
    if (entry->graph) (void)cudaGraphExecDestroy(entry->graph);  // a lost device has nothing to give back
    entry->graph = nullptr;
  }

 private:
  const DeviceContext* context_;
  std::list<Entry> entries_;  // the last used is first
};

}  // namespace kvrt::cuda
