// What of a planned stage the engine of this version would refuse (contracts/settings/training/feature_table.h), said
// where the user wrote it and before anything is submitted.
#pragma once

#include <optional>
#include <string>

#include "base/error/diagnostics.h"
#include "contracts/settings/training/engine_case.h"

namespace longhaul {

// A stage with complete settings as the engine will be asked to run it; without a model that is known (`shape`) as the
// plainest one. Nothing for kinds of which the table says nothing.
std::optional<EngineCase> engine_case_of_stage(const std::string& kind, const Value& settings,
                                               const std::optional<ModelShape>& shape, const ParallelDims& dims);

// Of a stage's settings: what its adapter leaves beside the weights of its model, as ModelShape has it: before every
// text (adapter.kind = "prompt", "prefix"), or behind the halves of layers ("bottleneck").
struct AdapterLeft {
  std::int64_t virtual_tokens = 0;
  bool virtual_keys = false;
  BottleneckShape bottleneck = {};
  bool any() const { return virtual_tokens > 0 || bottleneck.size > 0; }
  void put_into(ModelShape& shape) const {
    shape.virtual_tokens = virtual_tokens, shape.virtual_keys = virtual_keys, shape.bottleneck = bottleneck;
  }
};
AdapterLeft left_by_adapter(const Value& settings);

// `written` is the stage's table, for the places of its settings; `where` the place of those that are not written.
void check_features(const std::string& stage, const EngineCase& asked, const Value& written, const SourcePos& where,
                    Diagnostics& diagnostics);

}  // namespace longhaul
