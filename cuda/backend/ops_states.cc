// CudaBackend's ops of recurrent layers.
#include "cuda/backend/cuda_backend.h"
#include "runtime/base/check.h"

namespace kvrt::cuda {

// A step of few rows may become a graph, which is replayed for any number of sequences with as many rows together.
DeviceStates CudaBackend::device_states(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step) const {
  KVRT_CHECK(step.state_units == states.units);
  const uint32_t rows = step.n_rows(), n_seqs = rows <= kFewRows ? rows : static_cast<uint32_t>(step.seqs.size());
  return {states, pool, layer, n_seqs, arrays_.device().state_seqs, arrays_.device().tables};
}

void CudaBackend::conv(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ConvParams& params,
                       uint32_t stride, float* x) {
  cuda::conv(&stream_, device_states(states, pool, layer, step), params, stride, x);
}

void CudaBackend::scan(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ScanParams& params,
                       uint32_t stride, const float* x, const float* dt, float* out) {
  cuda::scan(&stream_, device_states(states, pool, layer, step), params, stride, x, dt, out);
}

void CudaBackend::delta(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const DeltaParams& params,
                        uint32_t stride, const float* qkv, uint32_t gate_stride, const float* beta, const float* alpha, float* out) {
  cuda::delta(&stream_, device_states(states, pool, layer, step), params, stride, qkv, gate_stride, beta, alpha, out);
}

void CudaBackend::multiply(Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride,
                           float* out, uint32_t out_stride) {
  cuda::multiply(&stream_, gate, n, width, x, x_stride, y, y_stride, out, out_stride);
}

}  // namespace kvrt::cuda
