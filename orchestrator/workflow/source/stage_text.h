// Small things about how stages are written: names, tables below tables, references, needs.
#pragma once

#include <string>

#include "base/value/value.h"
#include "orchestrator/workflow/source/interpolate.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Of a workflow, a stage, a recipe: it becomes the name of a folder.
bool is_name(const std::string& name);

// `below` fills in what `table` does not say; tables are merged member by member.
void merge_below(Value& table, const Value& below);
// `over` replaces what `table` says, in the same way.
void merge_over(Value& table, const Value& over);

// All references of a stage or recipe. In what a shell reads (`script` of a command, of its steps and in a matrix, and
// what stands behind `bash -c` in `argv`) values are handed over as variables, which are added to `environment`.
void resolve_references(Value& table, Interpolator& interpolator);

// An entry of `needs`: "@stage", "stage", "afterany:stage" or "afternotok:stage".
struct NeedText {
  std::string stage;
  NeedEdge edge = NeedEdge::afterok;
};
NeedText read_need(const std::string& text);

}  // namespace longhaul
