/* The emulated device's controls (cuda/emulation/emulator.h), in C. Exported by libkvrt_cuda_emulated. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void kvrt_emulation_reset(void);
void kvrt_emulation_fail_call(uint64_t n, int32_t error); /* the n-th call of CUDA from now on gives this error, once */
void kvrt_emulation_fail_late(uint64_t n, int32_t error); /* the n-th piece of queued work fails, and the device is lost */
void kvrt_emulation_set_budget(uint64_t bytes);           /* of device memory */
void kvrt_emulation_set_devices(uint32_t count);
void kvrt_emulation_set_current(int32_t device); /* of the calling thread: what cudaSetDevice does */
int32_t kvrt_emulation_current(void);            /* and what cudaGetDevice says */
void kvrt_emulation_use_cublaslt(int32_t use);   /* whether there is cuBLASLt (cublaslt_stand_in.h); at first there is none */
uint64_t kvrt_emulation_calls(void);             /* since reset */
uint64_t kvrt_emulation_queued(void);            /* likewise */
uint64_t kvrt_emulation_live(void);              /* allocations, streams, events, graphs */

#ifdef __cplusplus
}
#endif
