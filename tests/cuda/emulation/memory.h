// Device memory: one reserved range of addresses in which host code faults unless a copy or a kernel runs. Under the machine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "cuda/emulation/emulator.h"

namespace kvrt::emulation {

inline constexpr uint64_t kArenaBytes = uint64_t{64} << 30;

class DeviceMemory {
 public:
  // Aligned to 256, NaN in its first fill_bytes; the page after it faults. Null: no room within the budget.
  void* allocate(uint64_t bytes, uint64_t budget_bytes, uint64_t fill_bytes);
  // False: not an allocation.
  bool release(void* p);
  // Whether all the bytes lie in one allocation; and whether any of them lies in the arena.
  bool holds(const void* p, uint64_t bytes) const;
  bool touches(const void* p, uint64_t bytes) const;
  // Work begins and ends; nests. An allocation that was opened stays so until shut(): to change the protection costs some 60 ns a page.
  void open();
  void close();
  void shut();
  void set_protection(Protection protection);

  uint64_t allocations() const { return pieces_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    uint8_t* data;
    uint64_t bytes, mapped_bytes;
  };
  void reserve();
  uint8_t* find_room(uint64_t mapped_bytes);
  void set_access(bool accessible);

  uint8_t* base_ = nullptr;
  int empty_file_ = -1;
  uint64_t top_ = 0;                  // offset up to which pages may be in use
  uint64_t next_ = 0;                 // where the search for room begins: freed addresses come back late
  std::map<uint8_t*, Piece> pieces_;  // by first page
  uint64_t bytes_ = 0;
  int open_ = 0;
  bool accessible_ = false;
  Protection protection_ = Protection::kAfterSync;
};

// From now on a fault prints its place first: which thread of which kernel, or host code that touched device memory. (ASan does so itself.)
void explain_faults();

// Opens device memory for as long as it lives.
class OpenMemory {
 public:
  explicit OpenMemory(DeviceMemory* memory) : memory_(memory) { memory_->open(); }
  ~OpenMemory() { memory_->close(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

 private:
  DeviceMemory* memory_;
};

}  // namespace kvrt::emulation
