// What can be known about a stage's layout before anything is submitted: does the model divide, do the batches divide,
// and does this version's engine have that kind of parallelism at all.
#pragma once

#include <string>

#include "base/diagnostics.h"
#include "contracts/parallel_dims.h"
#include "contracts/stage_kinds.h"

namespace longhaul {

// `where` is the place of `parallel` (or of the stage). `settings` are complete.
void check_layout(const std::string& stage, const StageKind& kind, const Value& settings, const ParallelDims& dims,
                  const SourcePos& where, Diagnostics& diagnostics);

}  // namespace longhaul
