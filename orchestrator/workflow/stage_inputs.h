// The inputs of one stage as written: "@stage", "@stage/file", a milestone ("@stage@500", "@stage@every"), a path, a
// glob, or a list of paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

struct StageInputText {
  static constexpr std::int64_t every_milestone = -1;

  std::string name;
  std::string stage;               // "@stage": its name, not yet known to exist; "" for raw input
  std::int64_t milestone = 0;      // "@stage@500": 500; "@stage@every"; 0: the stage's own artifact
  std::string within;              // "@stage/file": "file"
  std::vector<std::string> paths;  // raw, as written
  std::vector<std::string> kinds;  // artifact kinds that the input takes; any if `any_kind`
  bool any_kind = false;
  SourcePos where;
};

// Checks names, types, what is missing and what the kind takes; existence of stages and files is checked by the
// planner.
std::vector<StageInputText> read_stage_inputs(const std::string& stage, const StageKind& kind, const Value& table,
                                              Diagnostics& diagnostics);

}  // namespace longhaul
