// What a file of kernels may use of CUDA, and the one way to start a kernel. Two compilers read those files: nvcc, for
// a GPU; and the host's own, with LONGHAUL_CUDA_EMULATED, for tests that run the same kernels on the processor, thread
// by thread (tests/support/cuda_emulation.h). For the sake of the second
//   - a kernel is started with launch(), not with three angle brackets;
//   - shared memory is what shared_memory() gives, as much as the launch said; there are no __shared__ variables;
//   - of the warp's own functions those below are used, by all 32 threads at the same place.
#pragma once

#ifdef LONGHAUL_CUDA_EMULATED
#include LONGHAUL_CUDA_EMULATED  // names the header
#else
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "engine/ops/cuda/cuda_check.h"

#define LONGHAUL_UNROLL _Pragma("unroll")

namespace longhaul::cuda {

__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(16) unsigned char longhaul_shared[];
  return longhaul_shared;
}
__device__ inline void sync_block() {
  __syncthreads();
}
__device__ inline void sync_warp() {
  __syncwarp();
}
// What the thread of this warp gave whose number differs in the bits of `mask`. float, double, int, unsigned.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, mask);
}
// What thread `lane` of this warp gave.
template <class T>
__device__ inline T shuffle(T value, int lane) {
  return __shfl_sync(0xFFFFFFFFU, value, lane);
}

// Kernels end before the next of the same stream begins. A launch that CUDA refuses ends the process and names it.
template <class... P, class... A>
void launch(const char* name, cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
            std::size_t shared_bytes, A... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t shared_without_asking = 48 * 1024;
  if (shared_bytes > shared_without_asking)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          name);
  std::tuple<P...> values(static_cast<P>(arguments)...);
  std::apply(
      [&](P&... value) {
        void* pointers[] = {static_cast<void*>(&value)...};
        check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared_bytes, stream),
              name);
      },
      values);
}

}  // namespace longhaul::cuda
#endif
