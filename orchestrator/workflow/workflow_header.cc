// The table [workflow] of a workflow file.
#include "orchestrator/workflow/planner.h"

namespace longhaul {

const FieldTable<WorkflowHeader>& workflow_header_fields() {
  using W = WorkflowHeader;
  static const auto table =
      FieldTable<W>()
          .field("name", &W::name,
                 {.help = "runs are folders of this name; letters, digits, '-' and '_'", .required = true})
          .field("description", &W::description, {.help = "one line for people"})
          .field(
              "budget", &W::budget,
              {.unit = "node-hours",
               .help =
                   "once a run's jobs have used so much, what runs goes on and nothing more is submitted; 0: no limit",
               .min = 0})
          .field("allow_fault_injection", &W::allow_fault_injection,
                 {.help = "marks the runs as tests: `longhaul tell RUN fault` may hurt any stage; a stage with a table "
                          "`faults` is marked by that"});
  return table;
}

}  // namespace longhaul
