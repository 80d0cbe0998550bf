// Calls of several processes on one store, and the answers to them: is there one order of it all, true to time, in which a store that does
// one thing after the other would have answered the same? (Strict serializability: a rename touches two names, a list all of them.)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kvrt::test {

inline constexpr uint32_t kNames = 8;
inline constexpr uint32_t kSlots = 8;      // processes at a time
inline constexpr int32_t kNobody = -1;     // kind of tokens that no save ever gave
inline constexpr int32_t kAnybody = -2;    // not looked at
inline constexpr int64_t kClockSlack = 5;  // ms between a look at the wall clock here and one in the store

// A session as the store shows it. Its tokens are told by kind and length. Without padding, so that states compare as bytes.
struct Sight {
  uint64_t revision = 0, id = 0;
  int64_t expires_ms = 0;  // 0: never
  int32_t kind = 0;
  uint32_t length = 0, pinned = 0, there = 0;
};

enum class What : uint32_t { kSave, kLoad, kStat, kList, kRemove, kRename, kPin, kTtl, kOther };
enum class Outcome : uint32_t {
  kKilled,  // its process died: done or not
  kOk,
  kNotFound,
  kConflict,
  kBusy,  // nothing was done
};

// One call. Lies in memory that outlives its process.
struct Step {
  What what = What::kOther;
  uint32_t slot = 0, name = 0, to = 0;
  int64_t begin_ns = 0, end_ns = 0;  // of a killed one: when its process was gone
  int64_t begin_ms = 0, end_ms = 0;  // wall clock
  // Asked.
  uint64_t id = 0, revision_seen = 0;
  int32_t kind = 0;
  uint32_t length = 0, overwrite = 0, pin = 0;
  int64_t ttl_ms = 0;  // 0: none
  // Told.
  Outcome outcome = Outcome::kKilled;
  Sight got[kNames];  // of a list by name, else the first
};

std::string describe(const Step& step);

// "" or the reason for which there is no such order. `states`: the number of states looked at.
std::string check_history(const std::vector<Step>& steps, uint64_t* states = nullptr);

}  // namespace kvrt::test
