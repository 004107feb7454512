// What can be known about a stage's layout before anything is submitted: does the model divide, do the batches divide,
// and does this version's engine have that kind of parallelism at all.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

// `where` is the place of `parallel` (or of the stage); `written` the stage's table, for the places of its settings.
// `settings` are complete.
void check_layout(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                  const ParallelDims& dims, const SourcePos& where, Diagnostics& diagnostics);

// Where the user wrote the first of these settings ("model.hidden_size") that is there; `otherwise` if none is.
SourcePos place_of_setting(const Value& written, const std::vector<std::string>& keys, const SourcePos& otherwise);

}  // namespace longhaul
