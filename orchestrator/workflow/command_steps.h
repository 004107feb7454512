// A `command` stage runs one program, or several at the same time (its steps). What has to hold between the stage and
// its steps, and the size of the job that follows from them.
#pragma once

#include <string>

#include "base/error/diagnostics.h"
#include "base/value/value.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

// `where` is "stage.NAME", `table` the stage as written, `settings` resolved from it. Where the stage has steps,
// common.nodes and common.ranks become those of all steps together.
void check_command(const std::string& where, const Value& table, const Value& settings, StageCommon& common,
                   Diagnostics& diagnostics);

}  // namespace longhaul
