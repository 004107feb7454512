// What one rank of a training will hold, by category, from shapes and settings alone: said and compared with the memory
// that there is before the first step, and beside what was measured at the end. Each formula stands in the source under
// the name of what the engine keeps; tests/parallel/memory_layouts_test.cc compares them with the engine, byte by byte,
// for every rank of many layouts.
//
// Three categories are estimates:
//   experts  where several ranks hold the experts, or a capacity drops tokens, the rows that a rank's experts receive
//            depend on the data. Planned is the even spread and a quarter more; no more than experts_max can come.
//   messages how much is on its way at once depends on who waits for whom: planned are the gradients of as many units
//            as contracts/plan/units_at_once.h lets travel at once, or all weights that are gathered, each copied on
//            its way out and in (engine/comm/mpi_communicator.cc). Planned is what they take beyond that part of
//            `checkpoint` which is only there when they are not, so that the categories add up to what is held at one
//            time.
//   scratch  belongs to the kernels of one device: planned are the keys and values that attention packs, and where the
//            engine computes products itself (TrainingOutline::packed_products) what those pack.
// And one is an allowance that no account is compared with:
//   process  what libraries, compiled products and the heap take beside, as the kernel sees it.
// Messages between pipeline stages are planned as one on its way in each direction and chunk; a library that hands them
// over late may keep more.
#pragma once

#include <span>
#include <string>

#include "contracts/plan/memory_category.h"
#include "contracts/plan/training_outline.h"

namespace longhaul {

struct MemoryPlan {
  MemoryTable bytes;
  std::int64_t experts_max = 0;  // of bytes[experts], for any data
};
// Errors as rank_outline has them.
Result<MemoryPlan> plan_training_memory(const TrainingOutline& outline, const RankCoordinates& at);

// At most what the engine's own matrix product packs at a time (engine/ops/cpu/gemm/packed_gemm.h) in a training of so
// many tokens at once: panels of two operands in f32, and the f32 sums of results in bf16, whose rows are tokens.
// `widest`: of all layers' inputs and outputs; vocabulary: 0 where the rank has no output layer.
std::int64_t packed_product_bytes(std::int64_t tokens, std::int64_t widest, std::int64_t vocabulary, bool bf16);

// Elements of the gradients of which each rank of a tp group has an addend, as far as this rank owns them: norms under
// sequence parallelism, routers and shared experts, what an adapter has whole of split matrices; and, of an adapter,
// those of experts of which each rank of an etp group has one. One is summed after the other.
struct PartialGradients {
  std::int64_t tensor = 0, experts = 0;
  std::int64_t largest() const { return tensor > experts ? tensor : experts; }
};
PartialGradients partial_gradient_elements(const TrainingOutline& outline, const RankOutline& rank);

// The rank that is planned to hold most: of those that are alike but for their place, the first.
struct WorstRank {
  int rank = 0;  // of the world
  MemoryPlan plan;
};
Result<WorstRank> plan_worst_rank(const TrainingOutline& outline);

// What ranks of one node will hold together, of the memory of the host.
struct NodeMemory {
  std::int64_t bytes = 0;
  WorstRank worst;  // of them
};
Result<NodeMemory> plan_node_memory(const TrainingOutline& outline, std::span<const int> ranks_of_node);

// What a rank that computes on a GPU will hold there, with `gpu_allowance` for what the driver, libraries and single
// operations take beside.
constexpr std::int64_t gpu_allowance = std::int64_t{1} << 30;
std::int64_t planned_on_device(const MemoryTable& planned);
// Refused (unavailable) where less is free; `gpu` names it. The error says the largest category and what would make it
// smaller.
Status check_gpu_memory(const TrainingOutline& outline, int rank, std::int64_t free_bytes, const std::string& gpu);

// The ranks of one node and what they may hold together. Refused (unavailable) where they need more: the error names
// the sum, the rank with the largest part of it, its largest category, and what would make that one smaller.
Status check_memory(const TrainingOutline& outline, std::span<const int> ranks_of_node, std::int64_t available_bytes,
                    const std::string& available_from);

}  // namespace longhaul
