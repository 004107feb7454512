// The tiny training of training_on_ranks.h by ranks that have an emulated GPU each.
#pragma once

#include <algorithm>

#include "engine/ops/gpu.h"
#include "tests/parallel/training_on_ranks.h"

namespace longhaul::test {

// Runs every rank of a layout with its mesh and its GPU.
using OnGpus = std::function<void(const ParallelDims&, const std::function<void(int rank, Mesh&, Gpu&)>&)>;

inline std::vector<RankRun> train_on_gpus(const OnGpus& on_gpus, const ParallelDims& dims, int steps, DType dtype,
                                          const SetupOptions& options = {}) {
  std::vector<RankRun> runs(static_cast<std::size_t>(dims.world_size()));
  for (RankRun& run : runs) run.status = make_error(ErrorCode::internal, "this rank has no mesh");
  on_gpus(dims, [&](int rank, Mesh& mesh, Gpu& gpu) {
    SetupOptions on_gpu = options;
    on_gpu.gpu = &gpu;
    runs[static_cast<std::size_t>(rank)] = train_rank(mesh, steps, dtype, {}, on_gpu);
  });
  return runs;
}

struct GpuLayout {
  const char* name;
  ParallelDims dims;
  SetupOptions options = {};
};
template <class Change>
GpuLayout gpu_layout(const char* name, const Change& change) {
  GpuLayout layout{name, {}};
  layout.options.global_batch = 8;  // an emulated GPU takes its time
  change(layout.dims, layout.options);
  return layout;
}
// Where a layout is compared with itself: two micro-batches for each replica are enough to add up over.
inline std::int64_t small_batch(const ParallelDims& dims) {
  return std::min(8, 4 * dims.dp());
}

}  // namespace longhaul::test
