// A run below a stage, of which several controllers of the run above may believe for a moment that it is theirs.
#include "orchestrator/trials/nested_run.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/process/process.h"
#include "orchestrator/controller/controller.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace nested_run_test {

struct NestedRig {
  testing::Scratch scratch;
  SystemClock clock;
  Logger log{"test", "", LogLevel::error};
  NestedRunSetup setup;

  NestedRig() {
    WorkflowRequest request;
    request.text = "[workflow]\nname = \"w\"\n[stage.a]\nkind = \"command\"\nscript = \"true\"\n";
    request.path = "w.toml", request.folder = scratch.path();
    request.site.set("name", "local");
    auto outcome = plan_workflow(request, testing::PlainFiles());
    REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
    setup.run_dir = scratch.file("run"), setup.stage = "search", setup.run.name = "w";
    REQUIRE(make_directories(setup.run_dir).ok());
    REQUIRE(write_file_atomic(setup.run_dir + "/workflow.toml", request.text).ok());
    REQUIRE(write_file_atomic(setup.run_dir + "/site.toml", "name = \"local\"\n").ok());
    setup.options.programs_dir = parent_path(own_program_path());
    setup.options.cpu_slots = 1;
    NestedRunPlan planned;
    planned.plan = std::move(outcome.plan);
    const Status made = create_nested_run(setup, 1, std::move(planned), clock);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
  }
  std::string folder() const { return nested_run_folder(setup, 1); }
  // As one does that has been overtaken in the run above, and then leaves.
  void claim_by_another() {
    std::vector<Fact> facts;
    REQUIRE(EpochLog::claim(folder(), clock, facts).ok());
  }
  void finish(NestedRun& run) {
    const Deadline deadline(clock, 30'000);
    while (!run.ledger().ended) {
      REQUIRE_FALSE(deadline.passed());
      clock.sleep_ms(10);
      REQUIRE(run.move_on().ok());
    }
    CHECK(run.ledger().state == RunState::succeeded);
  }
};

TEST_CASE("the newest controller takes a nested run back from one that was overtaken above, in the same round") {
  NestedRig rig;
  rig.setup.may_act = [] { return Status(); };
  NestedRun run(rig.setup, 1, rig.clock, rig.log);
  REQUIRE(run.move_on().ok());
  rig.claim_by_another();
  rig.claim_by_another();
  REQUIRE(run.move_on().ok());
  CHECK(run.is_ours());
  CHECK(*newest_epoch(rig.folder()) == 4);
  rig.finish(run);
}

TEST_CASE("a controller that was overtaken leaves a nested run to the one that has overtaken it") {
  NestedRig rig;
  bool overtaken = false;
  rig.setup.may_act = [&] { return overtaken ? make_error(ErrorCode::conflict, "another one") : Status(); };
  NestedRun run(rig.setup, 1, rig.clock, rig.log);
  REQUIRE(run.move_on().ok());
  rig.claim_by_another();
  overtaken = true;
  const Status left = run.move_on();
  REQUIRE_FALSE(left.ok());
  CHECK(left.error().code == ErrorCode::conflict);
  CHECK_FALSE(run.is_ours());
  CHECK(*newest_epoch(rig.folder()) == 2);
  overtaken = false;
  NestedRun newer(rig.setup, 1, rig.clock, rig.log);
  REQUIRE(newer.move_on().ok());
  rig.finish(newer);
}

}  // namespace nested_run_test

}  // namespace
}  // namespace longhaul
