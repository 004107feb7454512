// What a rank on a GPU takes there for answers of the model in training, beside the training itself, known before any
// memory is taken.
#pragma once

#include <optional>
#include <string>

#include "contracts/layout/parallel_dims.h"
#include "contracts/settings/training/training.h"
#include "engine/core/device/device.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

// Folders of the models that answers are compared with and judged by, and that a critic begins as; "": there is none.
struct ModelsBeside {
  std::string reference, judge, critic;
};

// What a rank of a layout has of the weights that answers are drawn with. `sends`: to ranks that only draw
// (rollout.ranks); `draws_as`: its number among these where it is one of them, and has nothing else.
struct WeightsHere {
  ParallelDims dims;
  RankCoordinates at;
  bool sends = false;
  std::optional<int> draws_as;
};

// Bytes: while answers are drawn caches of rollout.slots texts of sequence_length, scratch memory and, in layouts whose
// ranks have parts of the weights, all of these (engine/tasks/drawing/drawing_weights.h), or with an adapter those that
// it makes (else the training's own are drawn with: engine/model/inference/stored_weights.h); and all
// the time the reference (or teacher), the judge and the critic, with what they compute in, and what trains the critic.
// As if all were needed at once. `shape`: of the weights that answers are drawn with. Errors: those of reading the
// folders' config.json.
Result<std::int64_t> plan_answer_memory(const AlignSettings& settings, const ModelShape& shape, DType dtype,
                                        const WeightsHere& here, const ModelsBeside& beside);
// Of a rank that only draws: whether so many bytes are free on its device (unavailable, with the numbers).
Status check_drawing_memory(std::int64_t bytes, const Device& device);

}  // namespace longhaul
