// What the plan of a workflow knows of ranks that draw answers together.
#include <doctest/doctest.h>

#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

namespace drawing_plan_test {

WorkflowOutcome planned(const std::string& more, const std::string& rollout = "{ tp = 2 }") {
  WorkflowRequest request;
  request.text =
      "[workflow]\nname = \"w\"\n[stage.a]\nkind = \"align\"\nmethod = \"grpo\"\n"
      "inputs = { model = \"m\", data = \"d\" }\nreward = { kind = \"exact\" }\nrollout = " +
      rollout + "\n" + more;
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

TEST_CASE("ranks that only draw are as many as can draw together, which the plan knows") {
  const auto said = [](int ranks) {
    return planned("parallel = { dp_shard = 2, zero = 3 }\n", format("{{ tp = 2, ahead = true, ranks = {} }}", ranks))
        .diagnostics.render("");
  };
  CHECK_MESSAGE(said(4).find("draw together") == std::string::npos, said(4));
  CHECK_MESSAGE(said(3).find("w.toml:8:18: error: stage.a: rollout.tp(2) * rollout.pp(1) = 2 ranks draw together, and "
                             "rollout.ranks = 3") != std::string::npos,
                said(3));
}

}  // namespace drawing_plan_test

}  // namespace
}  // namespace longhaul
