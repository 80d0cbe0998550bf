// exp, tanh and softcap of the contract (NUMERICS.md §1), over any Simd.
#pragma once

#include "runtime/compute/cpu/simd.h"

namespace kvrt::simd {

// x ≤ 88; below -64 that of -64.
template <typename S>
KVRT_INLINE typename S::F exp(typename S::F x) {
  using F = typename S::F;
  const F magic = S::set1(12582912.0f), log2e = S::set1(0x1.715476p+0f);
  x = S::max(S::set1(-64.0f), x);
  const F shifted = S::fma(x, log2e, magic);
  const F n = S::sub(shifted, magic);
  const F r = S::fmsub(x, log2e, n);
  F p = S::set1(0x1.5bb9b6p-10f);
  p = S::fma(p, r, S::set1(0x1.3ceae2p-7f));
  p = S::fma(p, r, S::set1(0x1.c6b756p-5f));
  p = S::fma(p, r, S::set1(0x1.ebf9bap-3f));
  p = S::fma(p, r, S::set1(0x1.62e42ap-1f));
  p = S::fma(p, r, S::set1(1.0f));
  return S::times_power_of_two(p, n, shifted);
}

// One lane of exp: the same bits as any other lane.
template <typename S>
KVRT_INLINE float exp_one(float x) {
  return S::first(exp<S>(S::set1(x)));
}

template <typename S>
KVRT_INLINE typename S::F tanh(typename S::F x) {
  using F = typename S::F;
  const F one = S::set1(1.0f), a = S::abs(x), z = S::mul(x, x);
  F p = S::set1(-0x1.75e1cap-8f);
  p = S::fma(p, z, S::set1(0x1.52269ap-6f));
  p = S::fma(p, z, S::set1(-0x1.b83c5ap-5f));
  p = S::fma(p, z, S::set1(0x1.110726p-3f));
  p = S::fma(p, z, S::set1(-0x1.555532p-2f));
  const F near = S::fma(S::mul(p, z), x, x);
  const F e = exp<S>(S::mul(S::set1(-2.0f), a));
  const F far = S::sub(one, S::div(S::add(e, e), S::add(one, e)));
  return S::select(S::less(a, S::set1(0.625f)), near, S::with_sign_of(far, x));
}

// cap * tanh(x / cap)
template <typename S>
KVRT_INLINE typename S::F softcap(typename S::F x, typename S::F cap) {
  return S::mul(cap, tanh<S>(S::div(x, cap)));
}

}  // namespace kvrt::simd
