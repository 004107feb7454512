#include "tests/support/cuda_emulation.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/dtype.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace longhaul::cuda {
namespace {

constexpr std::size_t stack_bytes = 64 * 1024;
constexpr unsigned warp_threads = 32, block_threads_max = 1024;

[[noreturn]] void die(const char* kernel, const std::string& what) {
  std::fprintf(stderr, "CUDA emulation: kernel %s, block (%u, %u, %u): %s\n", kernel, blockIdx.x, blockIdx.y,
               blockIdx.z, what.c_str());
  std::abort();
}

std::uint64_t mix(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t seed_given() {
  const char* given = std::getenv("CUDA_EMULATION_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

template <class T>
void shuffle_order(std::vector<T>& order, std::uint64_t& state) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[mix(state) % i]);
}

enum class Waits { nothing, block, warp, ended };

struct Fiber {
  dim3 thread;
  ucontext_t first;
  jmp_buf here;
  bool begun = false;
  Waits waits = Waits::nothing;
  std::uint64_t given[2][3] = {};  // to its warp, by turns: nobody is more than one exchange ahead
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<Copy> copies;  // not waited for yet
  int turn = 0;
};

// One per thread of the operating system that launches.
class Machine {
 public:
  Machine() : random_(seed_given()) {
    stacks_ = static_cast<std::byte*>(::mmap(nullptr, block_threads_max * stack_bytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks_ == MAP_FAILED) std::abort();
  }
  ~Machine() { ::munmap(stacks_, block_threads_max * stack_bytes); }

  void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread) {
    name_ = name, thread_ = &thread;
    blockDim = block, gridDim = grid;
    const std::size_t threads = std::size_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > block_threads_max) die(name, std::to_string(threads) + " threads in a block");
    if (shared_bytes > 227 * 1024) die(name, std::to_string(shared_bytes) + " bytes of shared memory");
    shared_.assign((shared_bytes + 15) / 16 * 16 + guard_bytes, 0xFF);
    fibers_.resize(threads);
    std::vector<std::uint64_t> blocks(std::size_t{grid.x} * grid.y * grid.z);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
    shuffle_order(blocks, random_);
    for (const std::uint64_t index : blocks) {
      blockIdx = dim3(static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                      static_cast<unsigned>(index / grid.x / grid.y));
      run_block(shared_bytes);
    }
  }

  unsigned char* shared() { return shared_.data(); }
  void wait(Waits what) {
    Fiber& self = *running_;
    self.waits = what;
    if (_setjmp(self.here) == 0) _longjmp(scheduler_, 1);
    threadIdx = self.thread;
  }
  void give(const std::uint64_t (&mine)[3]) {
    Fiber& self = *running_;
    std::copy(mine, mine + 3, self.given[self.turn]);
    self.turn = 1 - self.turn;
    wait(Waits::warp);
  }
  const std::uint64_t* given_by(int lane) const {
    const std::size_t warp = static_cast<std::size_t>(running_ - fibers_.data()) / warp_threads * warp_threads;
    return fibers_[warp + static_cast<std::size_t>(lane)].given[1 - running_->turn];
  }
  std::uint64_t exchange(std::uint64_t value, int lane) {
    give({value, 0, 0});
    return *given_by(lane);
  }
  void copy_later(void* to, const void* from) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
      die(name_, "a copy of 16 bytes that does not begin at a multiple of 16");
    running_->copies.push_back({to, from});
  }
  void wait_for_copies() {
    for (const Fiber::Copy& copy : running_->copies) std::memcpy(copy.to, copy.from, 16);
    running_->copies.clear();
  }

 private:
  static constexpr std::size_t guard_bytes = 256;

  static void enter() { current->body(); }
  void body() {
    (*thread_)();
    running_->waits = Waits::ended;
    _longjmp(scheduler_, 1);
  }

  void go_on(Fiber& fiber) {
    running_ = &fiber;
    threadIdx = fiber.thread;
    fiber.waits = Waits::nothing;
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.begun) _longjmp(fiber.here, 1);
    fiber.begun = true;
    current = this;
    ::getcontext(&fiber.first);
    fiber.first.uc_stack.ss_sp = stacks_ + static_cast<std::size_t>(&fiber - fibers_.data()) * stack_bytes;
    fiber.first.uc_stack.ss_size = stack_bytes;
    fiber.first.uc_link = nullptr;
    ::makecontext(&fiber.first, &Machine::enter, 0);
    ::setcontext(&fiber.first);
  }

  void run_block(std::size_t shared_bytes) {
    std::fill(shared_.begin(), shared_.end(), 0xFF);
    const dim3 block = blockDim;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      if (!fibers_[i].copies.empty()) die(name_, "a copy that nobody waited for");
      fibers_[i] = Fiber{};
      fibers_[i].thread = dim3(static_cast<unsigned>(i % block.x), static_cast<unsigned>(i / block.x % block.y),
                               static_cast<unsigned>(i / block.x / block.y));
    }
    std::vector<std::size_t> ready(fibers_.size());
    for (std::size_t i = 0; i < ready.size(); ++i) ready[i] = i;
    while (!ready.empty()) {
      shuffle_order(ready, random_);
      for (const std::size_t i : ready) go_on(fibers_[i]);
      ready = released();
    }
    for (std::size_t i = (shared_bytes + 15) / 16 * 16; i < shared_.size(); ++i)
      if (shared_[i] != 0xFF) die(name_, "wrote beyond its shared memory");
  }

  // Warps all of whose threads wait for each other; else the block, where all do. Empty: all have ended.
  std::vector<std::size_t> released() {
    std::vector<std::size_t> ready;
    std::size_t ended = 0, at_barrier = 0;
    for (std::size_t warp = 0; warp < fibers_.size(); warp += warp_threads) {
      const std::size_t end = std::min(fibers_.size(), warp + warp_threads);
      std::size_t in_warp = 0;
      for (std::size_t i = warp; i < end; ++i) {
        ended += fibers_[i].waits == Waits::ended, at_barrier += fibers_[i].waits == Waits::block;
        in_warp += fibers_[i].waits == Waits::warp;
      }
      if (in_warp == warp_threads)
        for (std::size_t i = warp; i < end; ++i) ready.push_back(i);
      else if (in_warp != 0)
        die(name_, "a warp function that " + std::to_string(in_warp) + " of 32 threads come to");
    }
    if (!ready.empty() || ended == fibers_.size()) return ready;
    if (at_barrier != fibers_.size())
      die(name_, "a barrier that " + std::to_string(at_barrier) + " of " + std::to_string(fibers_.size()) +
                     " threads come to");
    for (std::size_t i = 0; i < fibers_.size(); ++i) ready.push_back(i);
    return ready;
  }

  static thread_local Machine* current;
  std::uint64_t random_;
  std::byte* stacks_;
  const char* name_ = "";
  const std::function<void()>* thread_ = nullptr;
  std::vector<unsigned char> shared_;
  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  jmp_buf scheduler_;
};
thread_local Machine* Machine::current = nullptr;

Machine& machine() {
  thread_local Machine one;
  return one;
}

}  // namespace

void give_to_warp(const std::uint64_t (&mine)[3]) {
  machine().give(mine);
}
const std::uint64_t* given_by(int lane) {
  return machine().given_by(lane);
}
void copy_later(void* shared, const void* global) {
  machine().copy_later(shared, global);
}
void wait_for_copies() {
  machine().wait_for_copies();
}
std::uint32_t pack_bf16(float low, float high) {
  return bf16(low).bits | static_cast<std::uint32_t>(bf16(high).bits) << 16;
}

void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const auto two = [](std::uint32_t low, std::uint32_t high) { return low | static_cast<std::uint64_t>(high) << 32; };
  give_to_warp({two(a[0], a[1]), two(a[2], a[3]), two(b[0], b[1])});
  const auto half = [](std::uint64_t registers, int which, int element) {
    return static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(registers >> (32 * which + 16 * element))));
  };
  const int group = lane_of_this_thread() / 4, column = lane_of_this_thread() % 4 * 2;
  for (int i = 0; i < 4; ++i)             // of d: row group + 8 (i / 2), column + i % 2
    for (int part = 0; part < 2; ++part)  // of the 16 products: the first eight, the others
      for (int t = 0; t < 4; ++t)
        for (int element = 0; element < 2; ++element)
          d[i] += half(given_by(4 * group + t)[part], i / 2, element) *
                  half(given_by(4 * (column + i % 2) + t)[2], part, element);
}

namespace {
void load_rows(std::uint32_t (&to)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) die("", "a matrix row that does not begin at a multiple of 16");
  std::uint64_t mine[3] = {};
  std::memcpy(mine, row, 16);
  give_to_warp(mine);
  const int g = lane_of_this_thread() / 4, t = lane_of_this_thread() % 4;
  const auto element = [](int matrix, int r, int c) {
    return static_cast<std::uint32_t>(given_by(8 * matrix + r)[c / 4] >> (16 * (c % 4)) & 0xFFFF);
  };
  for (int i = 0; i < 4; ++i)
    to[i] = transposed ? element(i, 2 * t, g) | element(i, 2 * t + 1, g) << 16
                       : element(i, g, 2 * t) | element(i, g, 2 * t + 1) << 16;
}
}  // namespace
void load_matrices(std::uint32_t (&to)[4], const void* row) {
  load_rows(to, row, false);
}
void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  load_rows(to, row, true);
}

unsigned char* shared_memory() {
  return machine().shared();
}
void sync_block() {
  machine().wait(Waits::block);
}
void sync_warp() {
  machine().exchange(0, 0);
}
std::uint64_t exchange_in_warp(std::uint64_t value, int lane) {
  return machine().exchange(value, lane);
}
std::function<void(const char*, std::int64_t)>& launch_observer() {
  thread_local std::function<void(const char*, std::int64_t)> observer;
  return observer;
}
std::map<const void*, LaunchScope>& launch_scopes() {
  thread_local std::map<const void*, LaunchScope> scopes;
  return scopes;
}

void run_grid(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread) {
  for (const auto& [device, scope] : launch_scopes()) scope.begin();
  const auto begun = std::chrono::steady_clock::now();
  machine().run(name, grid, block, shared_bytes, thread);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begun;
  for (const auto& [device, scope] : launch_scopes()) scope.end();
  if (launch_observer()) launch_observer()(name, took.count());
}

}  // namespace longhaul::cuda
