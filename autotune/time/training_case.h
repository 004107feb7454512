// A training as the time model is asked about it: what is trained, laid out how, with which program and where.
#pragma once

#include <cstdint>

#include "autotune/hardware/cluster.h"
#include "autotune/time/context_kind.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/pipeline/pipeline_schedule.h"
#include "contracts/settings/training/recompute.h"

namespace longhaul {

// What is trained, the same for all layouts that are compared.
struct TrainingTask {
  ModelShape shape;                    // resolved; vocabulary known
  std::int64_t sequence_length = 0;    // tokens
  std::int64_t global_batch_size = 1;  // sequences
  double output_forwards_more = 0;     // DPO: it needs the losses of a micro-batch before it can weigh their gradients
};

// One way to lay it out. A plain value of a hundred bytes: searches hold millions.
struct TrainingLayout {
  ParallelDims dims;
  int micro_batch_size = 1;  // sequences
  Precision precision = Precision::bf16;
  Recompute recompute;
  PipelineKind schedule = PipelineKind::one_f_one_b;
  int group = 0;                            // of interleaved schedules; 0: the smallest
  bool offload_moments = false;             // to the host's memory between two updates
  ContextKind context = ContextKind::ring;  // where cp > 1

  std::int64_t micro_batches(const TrainingTask& task) const {
    return task.global_batch_size / micro_batch_size / dims.dp();
  }
};

// With what and where.
struct TrainingPlace {
  Cluster cluster;
  FrameworkProfile framework;
  CommonConstants common;
  double moment_seconds = 0;  // per owned parameter and step, of moments that lie on a disk: there and back
};

}  // namespace longhaul
