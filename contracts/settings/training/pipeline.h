// Settings of a pipeline: which schedule, and which layers stand on which stage.
#pragma once

#include "contracts/layout/parallel_dims.h"
#include "contracts/pipeline/pipeline_schedule.h"
#include "contracts/pipeline/pipeline_stages.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

struct PipelineSettings {
  std::string schedule = "auto";  // "auto": 1f1b, with vp > 1 interleaved
  std::int64_t group = 0;
  std::vector<std::int64_t> stage_layers;
  double embedding_as_layers = 0;
  double loss_as_layers = 0;

  StageLayoutSettings stages() const { return {stage_layers, embedding_as_layers, loss_as_layers}; }
};
const FieldTable<PipelineSettings>& pipeline_fields();

// `micro_batches` per step of one data-parallel rank. Checked as pipeline_group does, and against dims.zero.
Result<PipelineScheduleSettings> schedule_settings(const PipelineSettings& settings, const ParallelDims& dims,
                                                   std::int64_t micro_batches);

}  // namespace longhaul
