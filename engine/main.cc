// longhaul-engine: the program that computes. One process per rank; docs/contracts.md tells what it reads and writes.
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef LONGHAUL_HAVE_CUDA
#include "engine/ops/cuda/open_gpu.h"
#endif
#include "engine/tasks/command_line.h"

namespace {

std::int64_t number_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::atoll(value) : 0;
}

// Copies of messages come and go by the megabyte. By itself glibc soon keeps freed pieces of up to 64 MB, and what a
// rank holds beside its plan is chance.
void give_back_what_is_freed() {
#ifdef __GLIBC__
  constexpr int of_its_own = 1 << 20, kept_at_the_end = 4 << 20;  // bytes
  mallopt(M_MMAP_THRESHOLD, of_its_own);
  mallopt(M_TRIM_THRESHOLD, kept_at_the_end);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  give_back_what_is_freed();
  longhaul::EngineSurroundings around;
  around.scheduler = {number_of("SLURM_MEM_PER_NODE"), number_of("SLURM_MEM_PER_CPU"), number_of("SLURM_CPUS_ON_NODE")};
#ifdef LONGHAUL_HAVE_CUDA
  around.open_gpu = longhaul::cuda::open_gpu;
#endif
  return longhaul::engine_main(argc, argv, around);
}
