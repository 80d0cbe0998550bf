// CudaBackend's ops of recurrent layers.
#include "cuda/backend/backend.h"
#include "runtime/base/check.h"

namespace kvrt::cuda {

void CudaBackend::conv(const StateLayout&, uint8_t*, uint32_t, const Step&, const ConvParams&, uint32_t, float*) { KVRT_CHECK(capturing_); }

void CudaBackend::scan(const StateLayout&, uint8_t*, uint32_t, const Step&, const ScanParams&, uint32_t, const float*, const float*,
                       float*) {
  KVRT_CHECK(capturing_);
}

void CudaBackend::delta(const StateLayout&, uint8_t*, uint32_t, const Step&, const DeltaParams&, uint32_t, const float*, uint32_t,
                        const float*, const float*, float*) {
  KVRT_CHECK(capturing_);
}

void CudaBackend::multiply(bool, uint32_t, uint32_t, const float*, uint32_t, const float*, uint32_t, float*, uint32_t) {
  KVRT_CHECK(capturing_);
}

void CudaBackend::sigmoid_gate(uint32_t, uint32_t, const float*, uint32_t, float*, uint32_t) { KVRT_CHECK(capturing_); }

}  // namespace kvrt::cuda
