// How Lustre lays out folders of checkpoints, where a site says so.
#include "orchestrator/runs/striping.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/saved_state.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct StripingRig {
  testing::Scratch scratch;
  SystemClock clock;
  RunPlan plan;

  StripingRig() {
    for (const char* name : {"pretrain", "evaluate"}) {
      PlannedStage stage;
      stage.stage = name;
      stage.kind = name == std::string("pretrain") ? "pretrain" : "evaluate";
      plan.stages.push_back(std::move(stage));
    }
    plan.workflow = "w";
    REQUIRE(make_directories(scratch.file("bin")).ok());
    for (const char* program : {"longhaul-worker", "longhaul-engine"})
      REQUIRE(write_file_atomic(scratch.file(std::string("bin/") + program), "", 0755).ok());
  }
  void lfs(const std::string& script) {
    REQUIRE(write_file_atomic(scratch.file("lfs"), "#!/bin/sh\n" + script + "\n", 0755).ok());
  }
  Result<std::string> create(const std::string& paths) {
    RunOrigin origin;
    origin.programs_dir = scratch.file("bin");
    origin.site_text = "name = \"made-up\"\n[paths]\n" + paths + "[programs]\nlfs = \"" + scratch.file("lfs") + "\"\n";
    return create_run(scratch.file("runs"), plan, origin, clock);
  }
  std::string asked() const {
    const auto text = read_file(scratch.file("asked"));
    return text.ok() ? *text : std::string();
  }
};

}  // namespace

TEST_CASE("striping: folders of checkpoints have it before the first file, where the site says so, and no others") {
  StripingRig rig;
  const std::string note = "[ -d \"$6\" ] || [ -d \"$4\" ] || exit 9; echo \"$@\" >> " + rig.scratch.file("asked");
  rig.lfs(note);
  REQUIRE(rig.create("").ok());
  CHECK(rig.asked().empty());
  const auto run = rig.create("stripe_count = 8\nstripe_size = \"16MiB\"\n");
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().message()));
  // Asked where the run is made, which is renamed to its place with all that it holds.
  CHECK(
      starts_with(rig.asked(), "setstripe --stripe-count 8 --stripe-size 16777216 " + rig.scratch.file("runs/.new-")));
  CHECK(ends_with(rig.asked(), "/stages/pretrain/state/checkpoints\n"));
  CHECK(split(trim(rig.asked()), '\n').size() == 1);
  CHECK(is_directory(checkpoints_folder(*run, "pretrain")));
  CHECK_FALSE(file_exists(*run + "/stages/evaluate/state"));
  CHECK(checkpoint_steps(checkpoints_folder(*run, "pretrain"))->empty());
  CHECK(observe_saved(*run, "pretrain", std::nullopt, true)->step == -1);
  REQUIRE(rig.create("stripe_count = -1\n").ok());
  CHECK(rig.asked().find("setstripe --stripe-count -1 " + rig.scratch.file("runs/")) != std::string::npos);
  REQUIRE(rig.create("stripe_size = \"1MiB\"\n").ok());
  CHECK(rig.asked().find("setstripe --stripe-size 1048576 " + rig.scratch.file("runs/")) != std::string::npos);
}

TEST_CASE(
    "striping: what cannot be had refuses the run by the key's name, with the message of lfs, and leaves nothing") {
  StripingRig rig;
  rig.lfs(
      "echo 'error: setstripe: /x is not on a Lustre filesystem: Inappropriate ioctl for device (25)' >&2; exit 25");
  const auto refused = rig.create("stripe_count = 8\n");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().message().find("paths.stripe_count = 8 cannot be had for ") != std::string::npos);
  CHECK(refused.error().message().find("Inappropriate ioctl for device") != std::string::npos);
  CHECK(list_directory(rig.scratch.file("runs"))->empty());
  REQUIRE(remove_tree(rig.scratch.file("lfs")).ok());
  CHECK(rig.create("stripe_count = 8\n").error().code == ErrorCode::unsupported);  // no such program
  REQUIRE(rig.create("stripe_count = 0\n").ok());
}

}  // namespace longhaul
