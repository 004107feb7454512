// What the plan of a workflow knows of ranks that draw answers together.
#include <doctest/doctest.h>

#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

namespace drawing_plan_test {

WorkflowOutcome planned(const std::string& more) {
  WorkflowRequest request;
  request.text =
      "[workflow]\nname = \"w\"\n[stage.a]\nkind = \"align\"\nmethod = \"grpo\"\n"
      "inputs = { model = \"m\", data = \"d\" }\nreward = { kind = \"exact\" }\nrollout = { tp = 2 }\n" +
      more;
  request.path = "w.toml";
  request.site.set("name", "local");
  return plan_workflow(request, testing::PlainFiles());
}

TEST_CASE("ranks that draw together are those of a replica, which the plan knows") {
  for (const char* layout : {"parallel = { tp = 2 }\n", "parallel = { pp = 2 }\n", "parallel = { cp = 2 }\n"}) {
    const WorkflowOutcome outcome = planned(layout);
    CHECK_MESSAGE(outcome.diagnostics.render("").find("draw together") == std::string::npos,
                  outcome.diagnostics.render(""));
  }
  const std::string said = planned("ranks = 2\n").diagnostics.render("");
  CHECK_MESSAGE(said.find("w.toml:8:18: error: stage.a: rollout.tp(2) * rollout.pp(1) = 2 ranks draw together, and a "
                          "replica has tp(1) * cp(1) * pp(1) = 1") != std::string::npos,
                said);
}

}  // namespace drawing_plan_test

}  // namespace
}  // namespace longhaul
