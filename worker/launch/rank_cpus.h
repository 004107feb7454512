// On which CPUs a rank with a GPU computes: those beside its GPU. Launchers give CPUs in blocks and GPUs by number, and
// on many nodes the first GPU is not beside the first block. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace longhaul {

using CpuNumbers = std::vector<int>;  // ascending, each once

// As the kernel writes them: "0-3,8"; what is no such list has no numbers.
CpuNumbers read_cpu_numbers(const std::string& list);
std::string cpu_numbers_text(const CpuNumbers& cpus);

// One rank of a node, and what it shares the node with.
struct RankSeat {
  int local_rank = 0, local_ranks = 1;  // of its node
  int threads = 1;                      // that it will compute with
  std::vector<CpuNumbers> beside_gpus;  // of each GPU that its process sees, in the order in which CUDA counts them
  CpuNumbers now, all;                  // where it may run now; what all ranks of its step may use on this node
  std::vector<CpuNumbers> cores;        // of the node: hardware threads of each
};
// Its share, in whole cores, of the CPUs beside its GPU; all of them where a share has fewer than its threads. nullopt:
// it stays where it is, for it is there already, is the only rank of the node, has no GPU of its own, or nothing is
// known that would be better. A rank that sees one GPU alone does not know those of its neighbours: it takes no share,
// and stays where it is if that is beside it.
std::optional<CpuNumbers> cpus_beside_gpu(const RankSeat& seat);

}  // namespace longhaul
