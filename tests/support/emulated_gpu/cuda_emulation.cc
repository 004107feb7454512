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

constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

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
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[(mix(state) >> 32) * i >> 32]);
}

// Where what has a stack of its own goes on.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
struct Place {
  void* top = nullptr;  // of the stack; what lies there is the address to go on at
};
void begin_at(Place& place, std::byte* stack, void (*run)()) {
  auto* const top = reinterpret_cast<void**>(stack + stack_bytes) - 2;  // run() finds the stack as a call leaves it
  top[0] = reinterpret_cast<void*>(run), top[1] = nullptr;
  place.top = top;
}
// Returns when somebody changes to `from`. Most of what the emulation does is this, so no call and no signal mask is
// part of it (AddressSanitizer looks through the whole stack at each longjmp()): the compiler keeps what it needs of
// the registers that are named, and of the 128 bytes below the stack nothing is touched (System V ABI for AMD64, 3.2.1
// and 3.2.2).
[[gnu::always_inline]] inline void change(Place& from, const Place& to) {
  void** kept = &from.top;
  void* const* next = &to.top;
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%%rdi)\n\t"
      "movq (%%rsi), %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n"
      "1:\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp"
      : "+D"(kept), "+S"(next)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory",
        "cc");
}
#else  // other processors have these, and ThreadSanitizer knows them
struct Place {
  ucontext_t first;
  jmp_buf here;
  bool begun = false;
};
void begin_at(Place& place, std::byte* stack, void (*run)()) {
  ::getcontext(&place.first);
  place.first.uc_stack.ss_sp = stack, place.first.uc_stack.ss_size = stack_bytes;
  place.first.uc_link = nullptr;
  ::makecontext(&place.first, run, 0);
}
void change(Place& from, Place& to) {
  from.begun = true;
  if (_setjmp(from.here) != 0) return;
  if (to.begun) _longjmp(to.here, 1);
  ::setcontext(&to.first);
  std::abort();
}
#endif

enum class Waits { block, warp };

// A stack on which threads of a block run. A thread that ends leaves its stack to the next one that begins, so kernels
// without barriers run on one; a thread that waits keeps its stack.
struct Stack {
  Place here;
  bool made = false;
};

struct Thread {
  dim3 index;
  Stack* stack = nullptr;                               // none: it has not begun, or has ended
  std::uint32_t block_barriers = 0, warp_barriers = 0;  // that it has come to
  int turn = 0;                                         // of its warp's two places for what is given
  struct Copy {
    void* to;
    const void* from;
    std::size_t group;
  };
  std::vector<Copy> copies;  // not waited for yet
  std::size_t group = 0;     // of the next copy
};

struct Warp {
  Thread* first = nullptr;
  unsigned threads = 0;
  std::uint64_t given[2][warp_threads][3] = {};  // by turns: nobody is more than one exchange ahead
};

// One per thread of the operating system that launches.
class Machine final : public testing::AccessWatcher {
 public:
  static constinit thread_local Machine* current;  // whose kernel runs

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
    form_warps(threads);
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
      // As a rule each warp goes as far as the block's next barrier before another one goes on, which takes the least
      // of the processor's caches; what is watched, and one block in eight, has warps that keep pace with each other.
      run_block(wanted > 0 || mix(random_) % 8 == 0);
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
    in_kernel_ = false;
    ++(what == Waits::block ? running_->block_barriers : running_->warp_barriers);
    ++(what == Waits::block ? at_block_ : at_warp_);
    go_on_from(running_->stack->here);
  }
  void give(const std::uint64_t (&mine)[3]) {
    std::copy(mine, mine + 3, warp_->given[running_->turn][lane_]);
    running_->turn = 1 - running_->turn;
    wait(Waits::warp);
  }
  const std::uint64_t* given_by(int lane) const { return warp_->given[1 - running_->turn][lane]; }
  std::uint64_t exchange(std::uint64_t value, int lane) {
    warp_->given[running_->turn][lane_][0] = value;
    running_->turn = 1 - running_->turn;
    wait(Waits::warp);
    return *given_by(lane);
  }
  int lane() const { return static_cast<int>(lane_); }
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

  // The life of a stack: the thread that it was given, then others that have not begun, then it waits for another one.
  void body() {
    while (true) {
      (*thread_)();
      in_kernel_ = false;
      Stack* const stack = running_->stack;
      running_->stack = nullptr;
      ++ended_;
      Thread* const next = next_thread();
      if (next != nullptr && next->stack == nullptr) {
        next->stack = stack;
        take(*next);
        continue;
      }
      free_.push_back(stack);
      if (next != nullptr) take(*next);
      change(stack->here, next == nullptr ? scheduler_ : next->stack->here);
    }
  }

  // Of the warp that runs, in the order drawn for this round; null when all have run.
  Thread* next_thread() {
    while (taken_ < warp_threads) {
      lane_ = ((taken_++ * order_step_ + order_) % warp_threads) ^ (order_ / warp_threads % warp_threads);
      if (lane_ < warp_->threads) return warp_->first + lane_;
    }
    return nullptr;
  }

  void take(Thread& thread) {
    running_ = &thread;
    threadIdx = thread.index;
    in_kernel_ = true;
  }

  // Until it is the turn of `here` again.
  [[gnu::always_inline]] void go_on_from(Place& here) {
    Thread* const next = next_thread();
    if (next == nullptr) return change(here, scheduler_);
    if (next->stack == nullptr) give_stack(*next);
    take(*next);
    change(here, next->stack->here);
  }

  void give_stack(Thread& thread) {
    thread.stack = free_.back(), free_.pop_back();
    if (thread.stack->made) return;
    thread.stack->made = true;
    const auto place = static_cast<std::size_t>(thread.stack - stacks_.data());
    begin_at(thread.stack->here, memory_ + place * stack_stride, [] { current->body(); });
  }

  void form_warps(std::size_t threads) {
    threads_.resize(threads);
    dim3 index(0, 0, 0);
    for (Thread& thread : threads_) {
      thread.index = index;
      if (++index.x == blockDim.x) index.x = 0, ++index.y;
      if (index.y == blockDim.y) index.y = 0, ++index.z;
    }
    warps_.resize((threads + warp_threads - 1) / warp_threads);
    for (std::size_t i = 0; i < warps_.size(); ++i) {
      warps_[i].first = &threads_[i * warp_threads];
      warps_[i].threads = static_cast<unsigned>(std::min<std::size_t>(warp_threads, threads - i * warp_threads));
    }
  }

  void run_block(bool in_step) {
    std::memset(shared_.data(), 0xFF, shared_.size());
    for (Thread& thread : threads_) {
      if (!thread.copies.empty()) die(name_, "a copy that nobody waited for");
      thread.turn = 0, thread.group = 0;
      thread.block_barriers = thread.warp_barriers = 0;
    }
    ended_ = 0;
    while (ended_ == 0) run_to_barrier(in_step);
    const unsigned char* const guard = shared_.data() + shared_.size() - guard_bytes;
    if (*guard != 0xFF || std::memcmp(guard, guard + 1, guard_bytes - 1) != 0)
      die(name_, "wrote beyond its shared memory");
  }

  // All threads, to where the whole block waits for each other or has ended.
  void run_to_barrier(bool in_step) {
    at_block_ = 0;
    active_.resize(warps_.size());
    for (std::size_t i = 0; i < active_.size(); ++i) active_[i] = &warps_[i];
    shuffle_order(active_, random_);
    while (!active_.empty())
      std::erase_if(active_, [&](Warp* warp) {
        bool again = run_warp(*warp);
        while (again && !in_step) again = run_warp(*warp);
        return !again;
      });
    if (at_block_ != 0 && at_block_ != threads_.size())
      die(name_, "a barrier that " + std::to_string(at_block_) + " of " + std::to_string(threads_.size()) +
                     " threads come to");
  }

  // Each thread of the warp, until it waits or has ended. Whether they wait for each other, and are to go on.
  bool run_warp(Warp& warp) {
    const std::uint64_t drawn = mix(random_);
    order_ = static_cast<unsigned>(drawn), order_step_ = static_cast<unsigned>(drawn >> 32) | 1U;
    taken_ = 0, at_warp_ = 0, warp_ = &warp;
    current = this;
    go_on_from(scheduler_);
    if (at_warp_ != 0 && at_warp_ != warp_threads)
      die(name_, "a warp function that " + std::to_string(at_warp_) + " of 32 threads come to");
    return at_warp_ != 0;
  }

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
  std::vector<Warp> warps_;
  std::vector<Warp*> active_;  // that have not come to the block's next barrier
  std::vector<Stack> stacks_;
  std::vector<Stack*> free_;
  Place scheduler_;
  Thread* running_ = nullptr;
  Warp* warp_ = nullptr;                                // that runs
  unsigned lane_ = 0;                                   // of running_
  unsigned taken_ = 0;                                  // threads of warp_ that have run in this round
  unsigned order_ = 0, order_step_ = 1;                 // of this round
  std::size_t at_block_ = 0, at_warp_ = 0, ended_ = 0;  // threads, of the block; those of warp_; of the block
};
constinit thread_local Machine* Machine::current = nullptr;

Machine& machine() {
  thread_local Machine one;
  return one;
}
Machine& running() {
  return *Machine::current;
}

}  // namespace

void give_to_warp(const std::uint64_t (&mine)[3]) {
  running().give(mine);
}
const std::uint64_t* given_by(int lane) {
  return running().given_by(lane);
}
void copy_later(void* shared, const void* global) {
  running().copy_later(shared, global);
}
void wait_for_copies() {
  running().wait_for_copies();
}
// Declared by engine/ops/cuda/common/packs.h.
void end_copy_group() {
  running().end_copy_group();
}
void wait_for_copy_groups(int left) {
  running().wait_for_copy_groups(static_cast<std::size_t>(left));
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
  running().access(row, 16, Access::read);
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
  return running().shared();
}
void watch_for_races(bool on) {
  machine().watch(on);
}
void sync_block() {
  running().wait(Waits::block);
}
void sync_warp() {
  running().exchange(0, 0);
}
int lane_of_this_thread() {
  return running().lane();
}
std::uint64_t exchange_in_warp(std::uint64_t value, int lane) {
  return running().exchange(value, lane);
}
std::uint64_t exchange_with_neighbour(std::uint64_t value, int mask) {
  return running().exchange(value, running().lane() ^ mask);
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
