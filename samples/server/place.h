// The place of the store on the disk. Others may remove the store there, or put another one in its place, while the server runs: the one that
// is there now is opened, and where there is none the server goes on without.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "kvrt.hpp"

class StorePlace {
 public:
  using Log = std::function<void(const std::string&)>;
  // A path of "": the server has no store. Opens it, and makes it where there is none. Throws kvrt::Error.
  StorePlace(kvrt::Runtime runtime, std::string path, const kvrt_store_options& options, Log log);
  StorePlace(const StorePlace&) = delete;

  struct Found {
    kvrt::Store store;   // NULL: none is there
    uint64_t count = 0;  // of the stores that were opened here, with this one; 0 with none
  };
  // Looks at the disk, and at most opens what is there.
  Found look();
  bool named() const { return !path_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Identity {  // of the catalog, whose number no other file gets while a store has it open
    uint64_t device = 0, inode = 0;
    bool operator==(const Identity&) const = default;
  };
  Identity identity() const;
  Found current();
  void open(uint32_t must_exist);

  const kvrt::Runtime runtime_;
  const std::string path_;
  kvrt_store_options options_;
  const Log log_;
  std::mutex opening_;  // over an opening, which may wait for other processes; mu_ is taken under it
  Clock::time_point again_{};
  std::mutex mu_;
  Found found_;
  Identity identity_;
  uint64_t opened_ = 0;
};
