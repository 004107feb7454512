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

// Of a stage's settings: what it leaves before every text of its model (adapter.kind = "prompt", "prefix"), as
// ModelShape has it; count 0: nothing.
struct VirtualTokens {
  std::int64_t count = 0;
  bool keys = false;
  void put_into(ModelShape& shape) const { shape.virtual_tokens = count, shape.virtual_keys = keys; }
};
VirtualTokens virtual_tokens_left(const Value& settings);

// `written` is the stage's table, for the places of its settings; `where` the place of those that are not written.
void check_features(const std::string& stage, const EngineCase& asked, const Value& written, const SourcePos& where,
                    Diagnostics& diagnostics);

}  // namespace longhaul
