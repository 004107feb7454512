#include "tests/support/emulated_gpu/cuda_emulation.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/tensor/dtype.h"
#include "tests/support/emulated_gpu/access_races.h"
#include "tests/support/emulated_gpu/emulated_stream.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace longhaul::cuda {
namespace {

using testing::Access;

constexpr std::size_t stack_bytes = 64 * 1024;
constexpr unsigned warp_threads = 32, block_threads_max = 1024;
constexpr std::size_t launch_accesses_max = 30'000, kernel_accesses_max = 300'000;  // that are watched for races

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

bool races_are_wanted() {
  const char* given = std::getenv("CUDA_EMULATION_RACES");
  return given != nullptr && std::strcmp(given, "0") != 0;
}

template <class T>
void shuffle_order(std::vector<T>& order, std::uint64_t& state) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[mix(state) % i]);
}

enum class Waits { nothing, block, warp, ended };

// A stack on which threads of a block run. A thread that ends leaves its stack to the next one that begins, so kernels
// without barriers run on one; a thread that waits keeps its stack.
struct Stack {
  ucontext_t first;
  jmp_buf here;
  bool made = false;
};

struct Thread {
  dim3 index;
  Waits waits = Waits::nothing;
  int turn = 0;
  std::uint32_t block_barriers = 0, warp_barriers = 0;  // that it has come to
  Stack* stack = nullptr;                               // none: it has not begun, or has ended
  std::uint64_t given[2][3] = {};                       // to its warp, by turns: nobody is more than one exchange ahead
  struct Copy {
    void* to;
    const void* from;
    std::size_t group;
  };
  std::vector<Copy> copies;  // not waited for yet
  std::size_t group = 0;     // of the next copy
};

// One per thread of the operating system that launches.
class Machine final : public testing::AccessWatcher {
 public:
  Machine() : random_(seed_given()), watches_(races_are_wanted()), stacks_(block_threads_max) {
    memory_ = static_cast<std::byte*>(::mmap(nullptr, block_threads_max * stack_stride, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory_ == MAP_FAILED) std::abort();
    for (Stack& stack : stacks_) free_.push_back(&stack);
    std::reverse(free_.begin(), free_.end());
  }
  ~Machine() override { ::munmap(memory_, block_threads_max * stack_stride); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void watch(bool on) { watches_ = on; }

  void run(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread) {
    name_ = name, thread_ = &thread;
    blockDim = block, gridDim = grid;
    const std::size_t threads = std::size_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > block_threads_max) die(name, std::to_string(threads) + " threads in a block");
    if (grid.x > 2147483647U || grid.y > 65535 || grid.z > 65535)
      die(name, "a grid beyond what CUDA takes in one direction");
    if (shared_bytes > 227 * 1024) die(name, std::to_string(shared_bytes) + " bytes of shared memory");
    shared_.resize((shared_bytes + 15) / 16 * 16 + guard_bytes);
    threads_.resize(threads);
    blocks_.resize(std::size_t{grid.x} * grid.y * grid.z);
    for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = i;
    shuffle_order(blocks_, random_);
    // Each costs a hundred times what it is: the first launches of a kernel, and the first blocks of each, are enough.
    const std::size_t wanted = watches_ ? std::min(launch_accesses_max, kernel_accesses_max - watched_[name]) : 0;
    left_ = wanted;
    if (wanted > 0) races_.begin_launch(), testing::watch_accesses(this);
    for (const std::uint64_t index : blocks_) {
      blockIdx = dim3(static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                      static_cast<unsigned>(index / grid.x / grid.y));
      block_ = index;
      run_block(shared_bytes);
    }
    if (wanted == 0) return;
    testing::watch_accesses(nullptr);
    watched_[name] += wanted - left_;
  }

  // By the kernel, or by what the emulation does for it.
  void accessed(const void* at, std::size_t bytes, Access kind) override {
    if (!in_kernel_ || left_ == 0) return;
    const auto* const byte = static_cast<const unsigned char*>(at);
    const auto lies_in = [byte](const void* memory, std::size_t size) {
      return reinterpret_cast<std::uintptr_t>(byte) - reinterpret_cast<std::uintptr_t>(memory) < size;
    };
    if (lies_in(memory_, block_threads_max * stack_stride)) return;  // variables of a thread
    --left_;
    const auto thread = static_cast<std::uint32_t>(running_ - threads_.data());
    const testing::KernelMoment now{block_, thread, running_->block_barriers, running_->warp_barriers};
    const std::string found = races_.note(at, bytes, kind, now, lies_in(shared_.data(), shared_.size()));
    if (!found.empty()) die(name_, "a race: " + found);
  }
  void access(const void* at, std::size_t bytes, Access kind) {
    if (watches_) accessed(at, bytes, kind);
  }

  unsigned char* shared() { return shared_.data(); }
  void wait(Waits what) {
    Thread& self = *running_;
    in_kernel_ = false;
    self.waits = what;
    ++(what == Waits::block ? self.block_barriers : self.warp_barriers);
    if (_setjmp(self.stack->here) == 0) leave();
    threadIdx = running_->index;
  }
  void give(const std::uint64_t (&mine)[3]) {
    Thread& self = *running_;
    std::copy(mine, mine + 3, self.given[self.turn]);
    self.turn = 1 - self.turn;
    wait(Waits::warp);
  }
  const std::uint64_t* given_by(int lane) const { return warp_[lane].given[1 - running_->turn]; }
  std::uint64_t exchange(std::uint64_t value, int lane) {
    give({value, 0, 0});
    return *given_by(lane);
  }
  void copy_later(void* to, const void* from) {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
      die(name_, "a copy of 16 bytes that does not begin at a multiple of 16");
    access(from, 16, Access::read), access(to, 16, Access::write);  // at any time until it is waited for
    running_->copies.push_back({to, from, running_->group});
  }
  void end_copy_group() { ++running_->group; }
  // Of the groups that were ended, all but the last `left`.
  void wait_for_copy_groups(std::size_t left) {
    std::vector<Thread::Copy>& copies = running_->copies;
    std::size_t made = 0;
    for (; made < copies.size() && copies[made].group + left < running_->group; ++made) {
      access(copies[made].to, 16, Access::write);
      std::memcpy(copies[made].to, copies[made].from, 16);
    }
    copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(made));
  }
  void wait_for_copies() {
    end_copy_group();
    wait_for_copy_groups(0);
  }

 private:
  static constexpr std::size_t guard_bytes = 256;
  // Not a power of two: the tops of the stacks would share few lines of the processor's caches.
  static constexpr std::size_t stack_stride = stack_bytes + 1088;

  static void enter() { current->body(); }
  // The life of a stack: the thread that it was given, then others that have not begun, then it waits for another one.
  [[noreturn]] void body() {
    while (true) {
      (*thread_)();
      in_kernel_ = false;
      Stack* const stack = running_->stack;
      running_->waits = Waits::ended, running_->stack = nullptr;
      if (next_ < ready_.size() && threads_[ready_[next_]].stack == nullptr) {
        take_next(stack);
        continue;
      }
      free_.push_back(stack);
      if (_setjmp(stack->here) == 0) leave();
    }
  }

  // To the next thread that is ready; to the scheduler where there is none, or a stack has to be made for it.
  [[noreturn]] void leave() {
    if (next_ < ready_.size()) {
      Stack* stack = threads_[ready_[next_]].stack;
      if (stack == nullptr && free_.back()->made) stack = free_.back(), free_.pop_back();
      if (stack != nullptr) {
        take_next(stack);
        _longjmp(stack->here, 1);
      }
    }
    _longjmp(scheduler_, 1);
  }

  void take_next(Stack* stack) {
    const std::size_t index = ready_[next_++];
    running_ = &threads_[index];
    warp_ = &threads_[index / warp_threads * warp_threads];
    running_->stack = stack, running_->waits = Waits::nothing;
    threadIdx = running_->index;
    in_kernel_ = true;
  }

  // Returns when nobody is ready any more, or a stack has to be made.
  void go_on() {
    Stack* stack = threads_[ready_[next_]].stack;
    if (stack == nullptr) stack = free_.back(), free_.pop_back();
    take_next(stack);
    if (_setjmp(scheduler_) != 0) return;
    if (running_->stack->made) _longjmp(running_->stack->here, 1);
    begin(*running_->stack);
  }

  [[noreturn]] void begin(Stack& stack) {
    stack.made = true;
    current = this;
    ::getcontext(&stack.first);
    stack.first.uc_stack.ss_sp = memory_ + static_cast<std::size_t>(&stack - stacks_.data()) * stack_stride;
    stack.first.uc_stack.ss_size = stack_bytes;
    stack.first.uc_link = nullptr;
    ::makecontext(&stack.first, &Machine::enter, 0);
    ::setcontext(&stack.first);
    std::abort();
  }

  void run_block(std::size_t shared_bytes) {
    std::fill(shared_.begin(), shared_.end(), 0xFF);
    const dim3 block = blockDim;
    ready_.resize(threads_.size());
    dim3 index(0, 0, 0);
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      if (!thread.copies.empty()) die(name_, "a copy that nobody waited for");
      thread.index = index, thread.turn = 0, thread.group = 0;
      thread.block_barriers = thread.warp_barriers = 0;
      std::memset(thread.given, 0, sizeof(thread.given));
      if (++index.x == block.x) index.x = 0, ++index.y;
      if (index.y == block.y) index.y = 0, ++index.z;
      ready_[i] = i;
    }
    while (!ready_.empty()) {
      shuffle_order(ready_, random_);
      for (next_ = 0; next_ < ready_.size();) go_on();
      release();
    }
    for (std::size_t i = (shared_bytes + 15) / 16 * 16; i < shared_.size(); ++i)
      if (shared_[i] != 0xFF) die(name_, "wrote beyond its shared memory");
  }

  // Makes ready the warps all of whose threads wait for each other; else the block, where all do. None: all have ended.
  void release() {
    ready_.clear();
    std::size_t ended = 0, at_barrier = 0;
    for (std::size_t warp = 0; warp < threads_.size(); warp += warp_threads) {
      const std::size_t end = std::min(threads_.size(), warp + warp_threads);
      std::size_t in_warp = 0;
      for (std::size_t i = warp; i < end; ++i) {
        ended += threads_[i].waits == Waits::ended, at_barrier += threads_[i].waits == Waits::block;
        in_warp += threads_[i].waits == Waits::warp;
      }
      if (in_warp == warp_threads)
        for (std::size_t i = warp; i < end; ++i) ready_.push_back(i);
      else if (in_warp != 0)
        die(name_, "a warp function that " + std::to_string(in_warp) + " of 32 threads come to");
    }
    if (!ready_.empty() || ended == threads_.size()) return;
    if (at_barrier != threads_.size())
      die(name_, "a barrier that " + std::to_string(at_barrier) + " of " + std::to_string(threads_.size()) +
                     " threads come to");
    for (std::size_t i = 0; i < threads_.size(); ++i) ready_.push_back(i);
  }

  static thread_local Machine* current;
  std::uint64_t random_;
  bool watches_;
  bool in_kernel_ = false;  // not in what the emulation does between two threads
  testing::AccessRaces races_;
  std::map<std::string, std::size_t> watched_;  // accesses of each kernel so far
  std::size_t left_ = 0;                        // that are yet watched of this launch
  std::uint64_t block_ = 0;
  std::byte* memory_;
  const char* name_ = "";
  const std::function<void()>* thread_ = nullptr;
  std::vector<unsigned char> shared_;
  std::vector<std::uint64_t> blocks_;
  std::vector<Thread> threads_;
  std::vector<Stack> stacks_;
  std::vector<Stack*> free_;
  std::vector<std::size_t> ready_;  // of threads_, in the order in which they go on
  std::size_t next_ = 0;            // in ready_
  Thread* running_ = nullptr;
  const Thread* warp_ = nullptr;  // the first thread of its warp
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
// Declared by engine/ops/cuda/common/packs.h.
void end_copy_group() {
  machine().end_copy_group();
}
void wait_for_copy_groups(int left) {
  machine().wait_for_copy_groups(static_cast<std::size_t>(left));
}
std::uint32_t pack_bf16(float low, float high) {
  return bf16(low).bits | static_cast<std::uint32_t>(bf16(high).bits) << 16;
}
std::uint32_t add_pairs(std::uint32_t a, std::uint32_t b) {
  const auto half = [](std::uint32_t pair, int which) {
    return static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(pair >> (16 * which))));
  };
  return pack_bf16(half(a, 0) + half(b, 0), half(a, 1) + half(b, 1));
}

void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const auto two = [](std::uint32_t low, std::uint32_t high) { return low | static_cast<std::uint64_t>(high) << 32; };
  give_to_warp({two(a[0], a[1]), two(a[2], a[3]), two(b[0], b[1])});
  const auto half = [](std::uint64_t registers, int which, int element) {
    return static_cast<float>(bf16::from_bits(static_cast<std::uint16_t>(registers >> (32 * which + 16 * element))));
  };
  // Lane 4 g + t holds columns of the rows g and g + 8 of a, and rows of column g of b.
  const int group = lane_of_this_thread() / 4, column = lane_of_this_thread() % 4 * 2;
  const std::uint64_t *of_a[4], *of_b[2][4];
  for (int t = 0; t < 4; ++t)
    of_a[t] = given_by(4 * group + t), of_b[0][t] = given_by(4 * column + t), of_b[1][t] = given_by(4 * column + 4 + t);
  for (int i = 0; i < 4; ++i)             // of d: row group + 8 (i / 2), column + i % 2
    for (int part = 0; part < 2; ++part)  // of the 16 products: the first eight, the others
      for (int t = 0; t < 4; ++t)
        for (int element = 0; element < 2; ++element)
          d[i] += half(of_a[t][part], i / 2, element) * half(of_b[i % 2][t][2], part, element);
}

namespace {
void load_rows(std::uint32_t (&to)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) die("", "a matrix row that does not begin at a multiple of 16");
  std::uint64_t mine[3] = {};
  machine().access(row, 16, Access::read);
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
void watch_for_races(bool on) {
  machine().watch(on);
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

testing::EmulatedStream* stream_of(cudaStream_t stream) {
  return reinterpret_cast<testing::EmulatedStream*>(stream);
}
void run_or_keep(cudaStream_t stream, const std::function<void()>& work) {
  if (stream == nullptr || !stream_of(stream)->keep(work)) work();
}
void run_grid(const char* name, cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread) {
  if (stream != nullptr) stream_of(stream)->kernel_begins();
  const auto begun = std::chrono::steady_clock::now();
  machine().run(name, grid, block, shared_bytes, thread);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begun;
  if (stream != nullptr) stream_of(stream)->kernel_ends();
  if (launch_observer()) launch_observer()(name, took.count());
}

}  // namespace longhaul::cuda
