// A benchmark's share of the core's peak, as counters beside its time: 1 would be the ceiling.
#pragma once

#include <benchmark/benchmark.h>

#include <string_view>

namespace kvrt_bench {

// Per iteration: 8-bit products (for f32, f16, bf16: fma) against the ports' peak with these threads and kernels ...
void set_product_share(benchmark::State& state, std::string_view isa, uint32_t threads, double macs);
void set_fma_share(benchmark::State& state, std::string_view isa, uint32_t threads, double fmas);
// ... and bytes against the read bandwidth of memory. Data that lies in a cache may have more than 1.
void set_read_share(benchmark::State& state, uint32_t threads, double bytes);

}  // namespace kvrt_bench
