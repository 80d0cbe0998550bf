// The members of an object that come in any order: what a rule's frame keeps of those that have come, and which may come next.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace kvrt {

// The members that have come: those with a name by their bits, and how many others.
struct CameMembers {
  uint64_t named = 0;
  uint32_t others = 0;
  friend bool operator==(const CameMembers&, const CameMembers&) = default;
};

// What an object must have. All other members together count as one towards `min`, for they may have the same name.
struct MemberRules {
  static constexpr uint32_t kNamedMax = 64, kNoMax = UINT32_MAX;
  uint64_t required = 0;
  uint32_t min = 0, max = kNoMax;
  uint32_t others_counted = 0;  // others are counted up to this: more of them make no difference

  bool whole(const CameMembers& came) const {
    return (came.named & required) == required && size_of(came.named) + std::min(came.others, 1u) >= min;
  }
  // Those of `named` that may come next and leave the object a way to its end.
  uint64_t open(const CameMembers& came, uint64_t named) const {
    const bool room = max == kNoMax || uint64_t{size_of(came.named | required)} + came.others < max;
    return named & ~came.named & (room ? ~uint64_t{0} : required);
  }
  bool another_may_come(const CameMembers& came) const {
    return max == kNoMax || uint64_t{std::max(size_of(came.named | required), std::max(min, 1u) - 1)} + came.others < max;
  }
  CameMembers with(CameMembers came, uint64_t named) const {
    came.named |= named;
    if (named == 0) came.others = std::min(came.others + 1, others_counted);
    return came;
  }

 private:
  static uint32_t size_of(uint64_t named) { return static_cast<uint32_t>(std::popcount(named)); }
};

// A way on that is open only after certain members.
struct MemberGate {
  enum Way : uint8_t {
    kMayCome,  // one of `named` may come, or, if `another`, another member
    kComes,    // as kMayCome, and from there on it has come
    kWhole     // the object may end
  };
  uint32_t object = 0;  // the number of its MemberRules
  Way way = kMayCome;
  bool another = false;
  uint64_t named = 0;

  bool opens(const MemberRules& rules, const CameMembers& came) const {
    if (way == kWhole) return rules.whole(came);
    return rules.open(came, named) != 0 || (another && rules.another_may_come(came));
  }
};

}  // namespace kvrt
