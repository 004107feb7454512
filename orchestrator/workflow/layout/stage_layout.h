// Room orchestrator/workflow/layout
// The layout, the device and the model of a planned stage, checked before anything is submitted.
// stage_layout.h reads the layout; layout_check.h and feature_check.h refuse; imported_model.h reads shapes.
// stage_computing.h says in one phrase on what a stage computes; written_stages.h finds the line of a key.
// It does not know the planner, which calls it, nor tune and search stages.
//
// The layout that a stage asks for, and its ranks.
#pragma once

#include <string>

#include "base/error/diagnostics.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/tasks/stage_kinds.h"

namespace longhaul {

// The tune stage that a stage's table names as its layout: "layout" of parallel = "@layout"; "" for any other.
std::string layout_stage_of(const Value& written);

// `written` is the stage's table, `common` and `settings` what was read of it. Ranks that are not written become those
// that the layout needs, and rollout.ranks more; replicas that are not written, those that the ranks leave. What cannot
// be goes to diagnostics. With "@layout" the ranks stand for a layout that is not known yet.
ParallelDims read_layout(const std::string& stage, const StageKind& kind, const Value& settings, const Value& written,
                         StageCommon& common, Diagnostics& diagnostics);

}  // namespace longhaul
