// The two ports of a real Slurm pass the contract suite that the fake passes, and some that only a real one can play.
// Needs the test cluster: $LONGHAUL_CLUSTER_STATE names it.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/record.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/port/helper_port.h"
#include "orchestrator/scheduler/port/open_slurm_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/cluster/cluster_rig.h"

using namespace longhaul;
using testing::cluster_state;
using testing::ClusterRig;
using testing::helper_path;
using testing::play;

namespace {

// For each port, as sub-cases of doctest would, but by name.
void with_each_port(const std::function<void(ClusterRig&)>& run) {
  REQUIRE_FALSE(cluster_state().empty());
  for (const bool helper : {true, false}) {
    CAPTURE(helper);
    std::unique_ptr<SlurmPort> port;
    if (helper) {
      port = std::make_unique<HelperPort>(helper_path());
    } else {
      port = std::make_unique<CliPort>();
    }
    ClusterRig rig(std::move(port));
    run(rig);
  }
}

std::string wait_text(Clock& clock, const std::string& path, const std::string& wanted) {
  std::string text;
  for (int tries = 0; tries < 200 && text.find(wanted) == std::string::npos; ++tries) {
    const auto read = read_file(path);
    if (read.ok()) text = *read;
    clock.sleep_ms(50);
  }
  return text;
}

}  // namespace

TEST_CASE("slurm port contract: the real ones read the cluster") {
  with_each_port([](ClusterRig& rig) { testing::slurm_port_reads_the_cluster(rig); });
}
TEST_CASE("slurm port contract: the real ones submit and report ends") {
  with_each_port([](ClusterRig& rig) { testing::slurm_port_submits_and_reports_ends(rig); });
}
TEST_CASE("slurm port contract: the real ones hold, requeue and cancel") {
  with_each_port([](ClusterRig& rig) { testing::slurm_port_holds_requeues_and_cancels(rig); });
}
TEST_CASE("slurm port contract: the real ones know arrays") {
  with_each_port([](ClusterRig& rig) { testing::slurm_port_knows_arrays(rig); });
}
TEST_CASE("slurm port contract: the real ones report dependencies") {
  with_each_port([](ClusterRig& rig) { testing::slurm_port_reports_dependencies(rig); });
}

TEST_CASE("a signal reaches the batch script alone") {
  with_each_port([](ClusterRig& rig) {
    auto submission = rig.script(
        "s",
        format("trap 'echo got >> {0}; exit 0' USR1; echo ready > {0}; while :; do sleep 0.1; done", rig.file("sig")));
    const std::string id = rig.submit(submission);
    CHECK(wait_text(rig.clock(), rig.file("sig"), "ready") == "ready\n");
    CHECK(rig.port().signal(id, SIGUSR1, true).ok());
    CHECK(wait_text(rig.clock(), rig.file("sig"), "got") == "ready\ngot\n");
    rig.wait_state(id, "COMPLETED");
  });
}

TEST_CASE("a job's environment, arguments and limits are those that sbatch itself would give it") {
  // Both ports start from a process that looks like a job of Slurm's.
  ::setenv("SLURM_NTASKS", "77", 1);
  ::setenv("SLURM_JOB_ID", "77", 1);
  ::setenv("SBATCH_PARTITION", "no-such-partition", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  ::setenv("LONGHAUL_TEST_VALUE", "a 'b' \"c\" $(d)\nsecond line", 1);
  std::vector<std::string> seen;
  with_each_port([&](ClusterRig& rig) {
    auto submission = rig.script(
        "e",
        format(
            "#SBATCH --nodes=2 --ntasks-per-node 2 -c2 --gpus-per-node=a100:1 # a comment\n"
            "#SBATCH --mem=500M --open-mode=append --hint=nomultithread --time='10' --exclusive\n"
            "(env -0 | sort -z | grep -zvE '^(SLURM_JOB_?ID|SLURM_JOB_SLUID|SLURM_TASK_PID|SHLVL|_|PWD|SLURM_JOB_START|"
            "SLURM_JOB_END)[A-Z_]*=' | tr '\\0' '\\n'; ulimit -a; pwd; umask; printf '<%s>' \"$@\"; echo; echo "
            "done) > {}",
            rig.file("env")));
    submission.arguments = {"x y", "", "$(z)", "'\"\\", "\xc3\xbc"};
    const std::string id = rig.submit(submission);
    rig.wait_state(id, "COMPLETED");
    seen.push_back(wait_text(rig.clock(), rig.file("env"), "done\n"));
  });
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_JOB_ID", "SBATCH_PARTITION", "CUDA_VISIBLE_DEVICES", "LONGHAUL_TEST_VALUE"})
    ::unsetenv(name);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0] == seen[1]);
  for (const char* line : {"SLURM_NTASKS=4\n", "SLURM_GPUS_PER_NODE=a100:1\n", "SLURM_OPEN_MODE=a\n",
                           "LONGHAUL_TEST_VALUE=a 'b' \"c\" $(d)\nsecond line\n", "<x y><><$(z)><'\"\\><\xc3\xbc>"})
    CHECK(seen[0].find(line) != std::string::npos);
  for (const char* word : {"SBATCH_PARTITION", "CUDA_VISIBLE_DEVICES=7", "=77\n"})
    CHECK(seen[0].find(word) == std::string::npos);
}

TEST_CASE("what a script or a cluster refuses is invalid input, in Slurm's words, and unknown options are named") {
  with_each_port([](ClusterRig& rig) {
    const auto refusal = [&](const SlurmSubmission& submission) {
      const auto ids = rig.port().submit({submission});
      REQUIRE_FALSE(ids[0].ok());
      CHECK(ids[0].error().code == ErrorCode::invalid_input);
      CHECK_FALSE(rig.port().will_run(submission).ok());
      return ids[0].error().message();
    };
    CHECK(refusal(rig.with(rig.job("p", 10, 0), "partition", "nowhere")).find("Invalid partition name") !=
          std::string::npos);
    CHECK_FALSE(refusal(rig.with(rig.job("t", 10, 0), "time", "soon")).empty());
    CHECK(refusal(rig.script("o", "#SBATCH --no-such-option=3")).find("no-such-option") != std::string::npos);
    CHECK_FALSE(refusal(rig.with(rig.job("g", 10, 0), "gres", "unicorn:1")).empty());
    CHECK_FALSE(refusal(rig.with(rig.job("l", 10, 0), "licenses", "no-such-licence")).empty());
  });
}

TEST_CASE("the helper is taken where it fits, the commands where they are asked for") {
  const auto automatic = open_slurm_port("auto", parent_path(own_program_path()));
  REQUIRE(automatic.ok());
  CHECK(automatic->backend == "libslurm");
  const auto without = open_slurm_port("auto", "/nowhere");
  REQUIRE(without.ok());
  CHECK(without->backend == "cli");
  CHECK(without->why.find("/nowhere/longhaul-slurm") != std::string::npos);
  CHECK_FALSE(open_slurm_port("libslurm", "/nowhere").ok());
  CHECK(open_slurm_port("cli", "/nowhere")->port->description().find("sbatch") != std::string::npos);
}

TEST_CASE("a scheduler that is stopped is not an end, and neither port submits twice") {
  with_each_port([&](ClusterRig& rig) {
    const std::string id = rig.submit(rig.job("long", 60'000, 0));
    rig.wait_state(id, "RUNNING");
    play({"stop-controller"});
    const auto ids = rig.port().submit({rig.job("a", 10, 0), rig.job("b", 10, 0), rig.job("c", 10, 0)});
    for (const auto& answer : ids) CHECK(answer.error().code == ErrorCode::unavailable);
    CHECK(ids[2].error().what.find("not attempted") != std::string::npos);
    play({"start-controller"});
    CHECK(rig.only(id).state == "RUNNING");
    CHECK(rig.port().cancel(id).ok());
    rig.wait_state(id, "CANCELLED");
  });
}

TEST_CASE("the helper survives its own death, between requests and under way") {
  auto owned = std::make_unique<HelperPort>(helper_path());
  HelperPort& port = *owned;
  ClusterRig rig(std::move(owned));
  REQUIRE(port.start().ok());
  const pid_t first = port.helper_pid();
  ::kill(first, SIGKILL);
  CHECK(port.configuration().ok());
  CHECK(port.helper_pid() != first);
  // A submission to a helper that is dead may or may not have gone through: it is not repeated.
  ::kill(port.helper_pid(), SIGKILL);
  SystemClock().sleep_ms(50);
  const auto ids = port.submit({rig.job("k", 10, 0)});
  CHECK(ids[0].error().code == ErrorCode::unavailable);
  CHECK(port.submit({rig.job("k2", 10, 0)})[0].ok());
}
