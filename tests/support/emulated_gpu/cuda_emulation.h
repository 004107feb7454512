// CUDA kernels on the processor: each thread of a block is a fiber, blocks run one after the other. Meant for small
// grids, to hold kernels to their reference where there is no GPU, and to find what a GPU would only show now and then:
//   - threads, warps and blocks come in an order drawn from a seed (CUDA_EMULATION_SEED), another one at each barrier;
//   - shared memory begins as NaN in each block, and a byte beyond what the launch asked for ends the program;
//   - a barrier or a warp function that some threads do not come to ends the program and names the kernel;
//   - with CUDA_EMULATION_RACES=1 so does a race: threads of one launch, of the same block or of two, access the same
//     bytes, one of them writes, no barrier lies between, and it is not all by atomics (access_races.h). A sum of
//     blocks by a plain += would give the right result here, because blocks do not run at the same time. Of a kernel
//     the first launches are watched, of each the first accesses.
// What it does not show: speed, memory ordering between barriers on real hardware, registers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define LONGHAUL_UNROLL

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct CUstream_st;  // an EmulatedStream (tests/support/emulated_gpu/emulated_stream.h); null: nothing surrounds its
                     // kernels
using cudaStream_t = CUstream_st*;

extern constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
// Rounded before anything is added to it.
inline double __dmul_rn(double a, double b) {
  const volatile double product = a * b;
  return product;
}
// Threads run one after the other; the compiler's own atomic is what access_races.h knows as one.
inline int atomicAdd(int* at, int more) {
  return __atomic_fetch_add(at, more, __ATOMIC_RELAXED);
}

namespace longhaul::cuda {

unsigned char* shared_memory();
void sync_block();
void sync_warp();
// Called by all threads of a warp: what thread `lane` gave.
std::uint64_t exchange_in_warp(std::uint64_t value, int lane);
// The same of the thread whose number in the warp differs in the bits of `mask`.
std::uint64_t exchange_with_neighbour(std::uint64_t value, int mask);
int lane_of_this_thread();
template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T of_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T shuffle(T value, int lane) {
  return of_bits<T>(exchange_in_warp(bits_of(value), lane));
}
template <class T>
T shuffle_xor(T value, int mask) {
  return of_bits<T>(exchange_with_neighbour(bits_of(value), mask));
}

// What all threads of a warp gave at the same place; given_by() until the next such place.
void give_to_warp(const std::uint64_t (&mine)[3]);
const std::uint64_t* given_by(int lane);
// As cuda_api.h has them. A copy is made when it is waited for, and not before.
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
void load_matrices(std::uint32_t (&to)[4], const void* row);
void load_matrices_transposed(std::uint32_t (&to)[4], const void* row);
void copy_later(void* shared, const void* global);
void wait_for_copies();
std::uint32_t pack_bf16(float low, float high);
inline bool encode_pair(bool, float, float, std::uint32_t&) {  // as a GPU before 8.9: encode() does it
  return false;
}

// Of kernels that this thread of the operating system launches from now on.
void watch_for_races(bool on);
// Called for every kernel that this thread ran, with the time that took; empty: nobody.
std::function<void(const char* name, std::int64_t ns)>& launch_observer();
// Now, or kept by a stream that is being recorded.
void run_or_keep(cudaStream_t stream, const std::function<void()>& work);
void run_grid(const char* name, cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread);

template <class... P, class... A>
void launch(const char* name, cudaStream_t stream, void (*kernel)(P...), dim3 grid, dim3 block,
            std::size_t shared_bytes, A... arguments) {
  const auto run = [=] {
    run_grid(name, stream, grid, block, shared_bytes, [&] { kernel(static_cast<P>(arguments)...); });
  };
  run_or_keep(stream, run);
}

}  // namespace longhaul::cuda
