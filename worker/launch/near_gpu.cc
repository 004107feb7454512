#include "worker/launch/near_gpu.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/launch/gpu_places.h"

namespace longhaul {
namespace {

int number_of(const std::string& text) {
  int number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool run_on(const CpuNumbers& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

// Asked for all, the kernel gives what the control group of the step has.
bool look_at_cpus(RankSeat& seat) {
  seat.now = cpus_of_this_process();
  if (seat.now.empty()) return false;
  CpuNumbers every(CPU_SETSIZE);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) every[static_cast<std::size_t>(cpu)] = cpu;
  if (!run_on(every)) return false;
  seat.all = cpus_of_this_process();
  return run_on(seat.now) && !seat.all.empty();
}

std::vector<CpuNumbers> cores_of(const CpuNumbers& cpus, const std::string& root) {
  std::set<CpuNumbers> cores;
  for (const int cpu : cpus) {
    const auto siblings = read_file(format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu));
    CpuNumbers core = siblings.ok() ? read_cpu_numbers(*siblings) : CpuNumbers();
    if (core.empty()) core = {cpu};
    cores.insert(std::move(core));
  }
  return {cores.begin(), cores.end()};
}

// "4(x2),3" of the node with this number.
int tasks_of_node(const std::string& list, int node) {
  int before = 0;
  for (const std::string& part : split(list, ',')) {
    const std::size_t times = part.find("(x");
    before += times == std::string::npos ? 1 : number_of(part.substr(times + 2));
    if (node < before) return number_of(part);
  }
  return 0;
}

}  // namespace

CpuNumbers cpus_of_this_process() {
  CpuNumbers cpus;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  return cpus;
}

// Below mpirun Slurm numbers its daemons, and not the ranks.
LocalRank local_rank(const Variable& variable) {
  for (const auto& [rank, ranks] : {std::pair("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                                    std::pair("MPI_LOCALRANKID", "MPI_LOCALNRANKS")})
    if (const std::string count = variable(ranks); !count.empty()) return {number_of(variable(rank)), number_of(count)};
  const std::string tasks = variable("SLURM_STEP_TASKS_PER_NODE");
  if (tasks.empty() || variable("SLURM_LOCALID").empty()) return {};
  return {number_of(variable("SLURM_LOCALID")), tasks_of_node(tasks, number_of(variable("SLURM_NODEID")))};
}

std::string stay_near_gpu(const Variable& variable, const std::string& root) {
  const LocalRank local = local_rank(variable);
  const std::vector<GpuPlace> gpus = visible_gpus(openable_gpus(root), variable("CUDA_VISIBLE_DEVICES"));
  if (local.ranks < 2 || gpus.empty()) return {};
  RankSeat seat;
  seat.local_rank = local.rank, seat.local_ranks = local.ranks;
  seat.threads = std::max(1, number_of(variable("OMP_NUM_THREADS")));
  for (const GpuPlace& gpu : gpus) seat.beside_gpus.push_back(gpu.cpus);
  if (!look_at_cpus(seat)) return format("longhaul: the CPUs of this rank cannot be set: {}", std::strerror(errno));
  seat.cores = cores_of(seat.all, root);
  const auto cpus = cpus_beside_gpu(seat);
  if (!cpus) return {};
  const GpuPlace& gpu = gpus[gpus.size() == 1 ? 0 : static_cast<std::size_t>(local.rank)];
  const std::string where =
      format("CPUs {}, beside GPU {} of NUMA node {}", cpu_numbers_text(*cpus), gpu.address, gpu.numa_node);
  if (!run_on(*cpus)) return format("longhaul: this rank cannot be put on {}: {}", where, std::strerror(errno));
  return format("longhaul: this rank runs on {} (before: {})", where, cpu_numbers_text(seat.now));
}

}  // namespace longhaul
