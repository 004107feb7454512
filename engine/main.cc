// longhaul-engine: the program that computes. One process per rank; docs/contracts.md says what it reads and writes.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#ifdef LONGHAUL_HAVE_CUDA
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/core/gpu_environment.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "engine/ops/cuda/open_gpu.h"
#endif
#include "engine/tasks/commands/command_line.h"

namespace {

std::int64_t number_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::atoll(value) : 0;
}

// mpirun inside of a job of srun decides.
std::optional<longhaul::LaunchedRank> launched_rank() {
  constexpr const char* variables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                          {"PMIX_RANK", "PMIX_SIZE"},
                                          {"PMI_RANK", "PMI_SIZE"},
                                          {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank, size] : variables)
    if (std::getenv(rank))
      return longhaul::LaunchedRank{static_cast<int>(number_of(rank)), static_cast<int>(number_of(size))};
  return std::nullopt;
}

#ifdef LONGHAUL_HAVE_CUDA
longhaul::Result<std::unique_ptr<longhaul::DeviceRanks>> start_nccl(longhaul::Device& device,
                                                                    longhaul::Rendezvous& rendezvous, int rank,
                                                                    int size, longhaul::MemoryAccount* memory) {
  LH_CHECK(longhaul::check_nccl_environment([](const char* name) { return std::getenv(name); }));
  longhaul::NcclOptions options;
  options.memory = memory;
  LH_TRY(options.multiprocessors, longhaul::cuda::multiprocessors());
  LH_TRY(std::unique_ptr<longhaul::DeviceRanks> ranks,
         longhaul::NcclRuntime::start(device,
                                      {longhaul::cuda::tree_rows, longhaul::cuda::write_word,
                                       longhaul::cuda::digest_parts, longhaul::cuda::digest_partials},
                                      rendezvous, rank, size, options));
  return ranks;
}

// Before the first thread and the first call of CUDA, which read it.
void prepare_for_gpu(int argc, char** argv, bool launched_as_one_of_several) {
  const bool has_rank = std::any_of(
      argv, argv + argc, [](std::string_view word) { return word == "--rank" || word.starts_with("--rank="); });
  for (const longhaul::EnvironmentSetting& one : longhaul::cuda_environment(has_rank || launched_as_one_of_several))
    setenv(one.name, one.value, 1);
}
#endif

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
  longhaul::EngineEnvironment around;
  around.scheduler = {number_of("SLURM_MEM_PER_NODE"), number_of("SLURM_MEM_PER_CPU"), number_of("SLURM_CPUS_ON_NODE")};
  around.launched = launched_rank();
  if (const char* level = std::getenv("LONGHAUL_CPU_MAX")) around.cpu_max = level;
#ifdef LONGHAUL_HAVE_CUDA
  prepare_for_gpu(argc, argv, around.launched && around.launched->size > 1);
  around.open_gpu = longhaul::cuda::open_gpu;
  around.start_nccl = start_nccl;
#endif
  return longhaul::engine_main(argc, argv, around);
}
