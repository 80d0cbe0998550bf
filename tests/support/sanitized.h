// AddressSanitizer makes tests several times slower: the longest ones take fewer of their cases with it.
#pragma once

namespace kvrt::test {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace kvrt::test
