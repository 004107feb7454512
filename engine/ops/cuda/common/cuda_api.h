// Room engine/ops/cuda/common
// What all kernels share: how one is started, conversions, sums in a fixed order, access by 16 bytes.
// Read cuda_api.h first (two compilers read each kernel), then device_code.h; packs.h is for 16-byte accesses.
// row_parts.h sums rows; tree_rows.h is the sum over ranks that engine/comm/nccl is handed.
// It knows no operation and no contract of engine/ops, so that every kernel room can include it.
//
// What a file of kernels may use of CUDA, and the one way to start a kernel. Two compilers read those files: nvcc, for
// a GPU; and the host's own, with LONGHAUL_CUDA_EMULATED, for tests that run the same kernels on the processor, thread
// by thread (tests/support/emulated_gpu/cuda_emulation.h). For the sake of the second
//   - a kernel is started with launch(), not with three angle brackets;
//   - shared memory is what shared_memory() gives, as much as the launch said; there are no __shared__ variables;
//   - of the warp's own functions those below are used, by all 32 threads at the same place;
//   - assembly stands here and in packs.h alone.
#pragma once

#ifdef LONGHAUL_CUDA_EMULATED
#include LONGHAUL_CUDA_EMULATED  // names the header
#else
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "engine/ops/cuda/common/cuda_check.h"

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

// Products of small matrices of bf16 by a warp (PTX ISA, "Matrix Fragments for mma.m16n8k16"; for GPUs of 8.0 on). With
// g = lane / 4 and t = lane % 4, a thread has of a [16, 16], by rows: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..),
// (g + 8, 2t + 8..), two neighbours in each register; of b [16, 8]: (2t.., g), (2t + 8.., g); and of d [16, 8]:
// (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). d += a b, in f32.
__device__ inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Four matrices [8, 8] of 16 bits from shared memory. Lane l names row l % 8 of matrix l / 8, 16 bytes at a multiple of
// 16; register i of it gets (g, 2t) and (g, 2t + 1) of matrix i, transposed: (2t, g) and (2t + 1, g).
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
// 16 bytes into shared memory, both at a multiple of 16; there for this thread after its wait_for_copies(), for others
// after a barrier behind that.
__device__ inline void copy_later(void* shared, const void* global) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(address), "l"(global) : "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;\n" ::: "memory");
}
// Two bf16 in a register, `low` in its lower half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
// Codes of two numbers, `low` in the lower byte: E4M3, or E5M2. To nearest, ties to even, what is too large becomes the
// largest; NaN is 0x7F. False: this GPU (before 8.9) has no instruction for it.
__device__ inline bool encode_pair(bool e5m2, float low, float high, std::uint32_t& codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t both;
  if (e5m2)
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;\n" : "=h"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\n" : "=h"(both) : "f"(high), "f"(low));
  codes = both;
  return true;
#else
  return false;
#endif
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
