// StoreCare: what keeps a store small and sound, and says how it is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "storage/values.h"

namespace kvrt {

// Thread-safe.
class StoreCare {
 public:
  virtual ~StoreCare() = default;
  // Removes expired sessions, chunks that no session needs, and files that no row names. Writes a segment anew if less than half of it is
  // live; zeroes the dead chunks in the others and the rests of removed rows in the catalog, and empties the log. In slices: progress
  // returns false to stop after one (CANCELLED), and the next gc does the rest.
  virtual Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) = 0;
  // Reads every frame and row; a session that `check`, where it is given, finds wrong is a fault. progress returns false to stop (CANCELLED).
  virtual Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                                  const SessionCheck& check = nullptr) = 0;
  // Forgets a chain's chunks, of all numbers, as if they were damaged: their frames are as they were written, but the KV is no good. The
  // count.
  virtual uint64_t discard(std::span<const NodeIn> chain, const std::string& why) = 0;
  virtual Result<StoreInfo> info() = 0;
  // kGone: the path leads to another catalog now, or to none. What is open reads what it can, and writes nothing. kLogLeft: so it is, but the
  // log or its index is still the open one's, so that nobody may open that other catalog beside it.
  enum class Place { kThere, kGone, kLogLeft };
  virtual Place place() = 0;
  // A store that is read for want of room for the catalog's log writes from now on, if there is room. Every call that writes tries it first.
  virtual void retry_writing() = 0;
  // Removes catalog.db.old and damaged-<n>. Gives the bytes that were in them.
  virtual Result<uint64_t> remove_old() = 0;
};

}  // namespace kvrt
