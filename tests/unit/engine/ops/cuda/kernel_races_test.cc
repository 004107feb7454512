// Kernels with races, which the emulation has to find, and the same ones without. This file is compiled as the kernels
// are: each access is a call (tests/CMakeLists.txt).
#include <doctest/doctest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(LONGHAUL_REAL_GPU)
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/emulated_gpu/cuda_emulation.h"

using namespace longhaul;

namespace {

// What a process printed that ended by SIGABRT; "" when it ended by itself.
std::string found_in(const std::function<void()>& kernel, bool races) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGABRT, SIG_DFL);
    (void)::dup2(ends[1], STDERR_FILENO);
    cuda::watch_for_races(races);
    kernel();
    ::_exit(0);
  }
  (void)::close(ends[1]);
  std::string printed;
  std::array<char, 512> part{};
  for (ssize_t n; (n = ::read(ends[0], part.data(), part.size())) > 0;)
    printed.append(part.data(), static_cast<std::size_t>(n));
  (void)::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  CHECK_MESSAGE((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT), printed);
  return printed;
}
std::string race_found_in(const std::function<void()>& kernel) {
  return found_in(kernel, true);
}

void count_with_atomics(int* count) {
  atomicAdd(count, 1);
}
void count_without(int* count) {
  *count += 1;
}
// One thread of each block adds: only blocks race.
void sum_of_blocks(bool atomic, int* sum) {
  if (threadIdx.x != 0) return;
  if (atomic)
    atomicAdd(sum, static_cast<int>(blockIdx.x));
  else
    *sum += static_cast<int>(blockIdx.x);
}
// Each block its own sum in shared memory.
void sum_of_threads(bool atomic, int* sums) {
  int* const sum = reinterpret_cast<int*>(cuda::shared_memory());
  if (threadIdx.x == 0) *sum = 0;
  cuda::sync_block();
  if (atomic)
    atomicAdd(sum, 1);
  else
    *sum += 1;
  cuda::sync_block();
  if (threadIdx.x == 0) sums[blockIdx.x] = *sum;
}
// What the neighbour wrote: of the next warp, behind a barrier or none; of the same warp, behind the warp's.
void neighbours(int barriers, int* out) {
  int* const given = reinterpret_cast<int*>(cuda::shared_memory());
  given[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (barriers == 1) cuda::sync_warp();
  if (barriers == 2) cuda::sync_block();
  const unsigned other = barriers == 1 ? threadIdx.x ^ 1U : blockDim.x - 1 - threadIdx.x;
  out[blockIdx.x * blockDim.x + threadIdx.x] = given[other];
}
// The first half of a number by one block, the other half by the next: no race, though both are in eight bytes.
void halves(std::int32_t* out) {
  out[blockIdx.x] = static_cast<int>(blockIdx.x);
}
void copied(bool waits, const int* from, int* out) {
  auto* const here = reinterpret_cast<int*>(cuda::shared_memory());
  if (threadIdx.x == 0) cuda::copy_later(here, from), cuda::wait_for_copies();
  if (waits) cuda::sync_block();
  out[threadIdx.x] = here[threadIdx.x % 4];
}
// All threads come to two barriers and give what they have to their warp, or threads of one warp leave out some of it.
enum class Fault { nothing, barrier, warp, shared };
void faulty(Fault fault, int* out) {
  const bool leaves_out = threadIdx.x >= 40 && threadIdx.x < 50;
  cuda::sync_block();
  int sum = 1;
  if (fault != Fault::warp || !leaves_out) sum += cuda::shuffle_xor(sum, 1);
  if (fault != Fault::barrier || !leaves_out) cuda::sync_block();
  if (fault == Fault::shared && leaves_out) cuda::shared_memory()[16] = 0;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // namespace

TEST_CASE("faults of kernels: a barrier or a warp function that some leave out, shared memory that nobody asked for") {
  std::vector<int> out(16 * 96);
  const auto found = [&](Fault fault) {
    return found_in([&, fault] { cuda::launch("faulty", nullptr, faulty, 16, 96, 16, fault, out.data()); }, false);
  };
  CHECK(found(Fault::nothing) == "");
  CHECK(found(Fault::barrier).find("a barrier that 86 of 96 threads come to") != std::string::npos);
  CHECK(found(Fault::warp).find("a warp function that 22 of 32 threads come to") != std::string::npos);
  CHECK(found(Fault::shared).find("wrote beyond its shared memory") != std::string::npos);
  cuda::launch("faulty", nullptr, faulty, 16, 96, 16, Fault::nothing, out.data());
  CHECK(out == std::vector<int>(16 * 96, 2));
  // The warp that comes first reads what the other one has yet to write: with no barrier the result shows it. That is a
  // race, which would end the program where the others of this program are looked for.
  const char* const races = std::getenv("CUDA_EMULATION_RACES");
  cuda::watch_for_races(false);
  for (int barriers : {0, 2}) {
    cuda::launch("given", nullptr, neighbours, 16, 64, 256, barriers, out.data());
    for (int block = 0; block < 16; ++block)
      CHECK((std::count(out.begin() + 64 * block, out.begin() + 64 * (block + 1), -1) == 0) == (barriers == 2));
  }
  cuda::watch_for_races(races != nullptr && std::string(races) != "0");
}

TEST_CASE("races of kernels: blocks that add to one number without an atomic are found, in whatever order they run") {
  int sum = 0;
  const auto run = [&](bool atomic) {
    return race_found_in(
        [&, atomic] { cuda::launch("sum_of_blocks", nullptr, sum_of_blocks, 8, 32, 0, atomic, &sum); });
  };
  CHECK(run(true) == "");
  const std::string found = run(false);
  CAPTURE(found);
  CHECK(found.find("kernel sum_of_blocks, block (") != std::string::npos);
  CHECK(found.find("a race: thread 0 of block ") != std::string::npos);
  CHECK(found.find(" reads what thread 0 of block ") != std::string::npos);
  CHECK(found.find(" writes, with no barrier between them, and not both by atomics") != std::string::npos);

  CHECK(race_found_in([&] { cuda::launch("count", nullptr, count_with_atomics, 4, 64, 0, &sum); }) == "");
  CHECK(race_found_in([&] { cuda::launch("count", nullptr, count_without, 4, 64, 0, &sum); }) != "");
  // One thread alone may do as it likes, and the next launch begins when this one has ended.
  const auto thrice = [&] {
    for (int i = 0; i < 3; ++i) cuda::launch("count", nullptr, count_without, 1, 1, 0, &sum);
  };
  CHECK(race_found_in(thrice) == "");
  std::array<std::int32_t, 8> out{};
  CHECK(race_found_in([&] { cuda::launch("halves", nullptr, halves, 8, 1, 0, out.data()); }) == "");
  CHECK(race_found_in([&] { cuda::launch("halves", nullptr, halves, 8, 2, 0, out.data()); }) != "");
}

TEST_CASE("races of kernels: threads of a block need an atomic or a barrier, those of a warp the warp's own") {
  std::vector<int> out(256);
  const auto sums = [&](bool atomic) {
    return race_found_in([&, atomic] { cuda::launch("sums", nullptr, sum_of_threads, 4, 64, 16, atomic, out.data()); });
  };
  CHECK(sums(true) == "");  // shared memory of one block is not that of the next one
  CHECK(sums(false).find("kernel sums") != std::string::npos);
  const auto given = [&](int barriers) {
    return race_found_in(
        [&, barriers] { cuda::launch("given", nullptr, neighbours, 2, 64, 256, barriers, out.data()); });
  };
  CHECK(given(0) != "");
  CHECK(given(1) == "");
  CHECK(given(2) == "");
  alignas(16) const std::array<int, 4> from{1, 2, 3, 4};
  const auto copy = [&](bool waits) {
    return race_found_in(
        [&, waits] { cuda::launch("copied", nullptr, copied, 1, 32, 16, waits, from.data(), out.data()); });
  };
  CHECK(copy(true) == "");
  CHECK(copy(false) != "");
}
#endif
