// What a lead makes of the end of a launch: cause, culprit and the fault as the policy sees it.
#include "worker/lead/recovery/fault_diagnosis.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"
#include "tests/unit/worker/agent_rig.h"
#include "worker/launch/rank_files.h"

using namespace longhaul;

namespace {
namespace fault_diagnosis {

// Two ranks on two nodes, started by a launcher.
struct Rig {
  testing::Scratch folder;
  Attempt attempt;
  Task task;
  Launch launch;
  SystemClock clock;
  RankWatch ranks = RankWatch(clock);
  EventFacts events;
  JobRecord record;
  std::vector<Observation> of_hosts;
  std::vector<std::string> hosts_left;

  Rig() {
    attempt.launcher = {"srun"};
    task.kind = "pretrain";
    task.resources.ranks = task.resources.nodes = 2;
    launch.ranks = 2, launch.hosts = {"n1", "n2"}, launch.rank_host = {0, 1};
    launch.launch_dir = folder.path();
    ranks.new_launch(launch, {});
  }
  FaultEvidence evidence() const { return {attempt, task, launch, ranks, events, record, of_hosts, hosts_left, 5'000}; }
  void log_of(int rank, const std::string& text) {
    REQUIRE(write_file_renamed(rank_log_path(launch.launch_dir, rank), text).ok());
  }
};

LaunchOutcome killed(int rank) {
  return {{rank, ExitStatus{-1, SIGKILL}, {}}, std::nullopt};
}

}  // namespace fault_diagnosis
}  // namespace

TEST_CASE("fault diagnosis: the rank whose log says why is the culprit, not the one that ended first") {
  fault_diagnosis::Rig rig;
  rig.log_of(0, "longhaul-engine: rank 1: no space left on device\n");
  rig.log_of(1, "longhaul-engine: cannot write a checkpoint: No space left on device\n");
  const Diagnosis found = diagnose(fault_diagnosis::killed(0), rig.evidence());
  CHECK(found.culprit == 1);
  CHECK(found.view.host == "n2");
  CHECK(found.view.fault == "disk_full");
  CHECK(found.cause.find("the ranks ended: killed by signal 9") == 0);
  CHECK(found.status.signal == SIGKILL);
  CHECK(found.view.at_ms == 5'000);
}

TEST_CASE("fault diagnosis: of ranks whose logs say alike why, and not when, the one that ended first is the culprit") {
  fault_diagnosis::Rig rig;
  REQUIRE(make_directories(beat_folder(rig.launch)).ok());
  PretendedRank zero(beat_folder(rig.launch), 0), one(beat_folder(rig.launch), 1);
  one.page->step(3);
  ::usleep(30'000);  // rank 0 moved later
  zero.page->step(3);
  rig.ranks.new_launch(rig.launch, page_folders(rig.launch, {}));
  for (const int rank : {0, 1}) rig.log_of(rank, "Segmentation fault (core dumped)\n");
  const auto culprit = [&] {
    rig.ranks.look(nullptr);
    return diagnose(fault_diagnosis::killed(0), rig.evidence()).culprit;
  };
  CHECK(culprit() == 0);  // both run yet: nothing says which was first
  zero.end(), one.end();
  CHECK(culprit() == 1);
}

TEST_CASE("fault diagnosis: a node that was lost is at fault itself, whatever its ranks say") {
  fault_diagnosis::Rig rig;
  rig.log_of(0, "longhaul-engine: connection closed by peer\n");
  GuardFinding finding;
  finding.kind = GuardFinding::Kind::host_lost;
  finding.host = "n2", finding.cause = "node n2 was not heard of for 10 s";
  const Diagnosis found = diagnose({LaunchEnd{}, finding}, rig.evidence());
  CHECK(is_of_host(finding));
  CHECK(found.culprit == -1);
  CHECK(found.cause == finding.cause);
  CHECK(found.view.fault == "host_unreachable");
  CHECK(found.view.cause == "host_unreachable n2");
  CHECK(found.view.hosts_lost == std::vector<std::string>{"n2"});
}

TEST_CASE("fault diagnosis: nodes of the launch that were left count as lost, others do not") {
  fault_diagnosis::Rig rig;
  rig.hosts_left = {"n9", "n1"};
  CHECK(diagnose(fault_diagnosis::killed(0), rig.evidence()).view.hosts_lost == std::vector<std::string>{"n1"});
}

TEST_CASE("fault diagnosis: ranks that wait for a file system accuse no node") {
  fault_diagnosis::Rig rig;
  GuardFinding finding;
  finding.kind = GuardFinding::Kind::hang, finding.of_storage = true;
  finding.rank = 1, finding.host = "n2", finding.cause = "rank 1 waits for a file system";
  const Diagnosis found = diagnose({LaunchEnd{}, finding}, rig.evidence());
  CHECK(found.view.fault == "file_system");
  CHECK(found.view.host.empty());
  CHECK(found.view.accuses == Accusation::never);
}

TEST_CASE(
    "fault diagnosis: a file system that several nodes find silent accuses none of them, one that a node does alone") {
  fault_diagnosis::Rig rig;
  const auto silent_on = [](const char* host) {
    return Observation{ObservationSource::health, FaultClass::file_system, -1, host, "/scratch does not answer"};
  };
  const LaunchOutcome failed{{1, ExitStatus{1, 0}, {}}, std::nullopt};
  rig.of_hosts = {silent_on("n2")};
  const Diagnosis alone = diagnose(failed, rig.evidence());
  CHECK(alone.view.fault == "file_system");
  CHECK(alone.view.host == "n2");
  CHECK(alone.view.accuses != Accusation::never);
  rig.of_hosts = {silent_on("n2"), silent_on("n1")};
  const Diagnosis everywhere = diagnose(failed, rig.evidence());
  CHECK(everywhere.view.fault == "file_system");
  CHECK(everywhere.view.host.empty());
  CHECK(everywhere.view.accuses == Accusation::never);
}

TEST_CASE("fault diagnosis: memory that ran out accuses no node, for its own budget says where it is tried next") {
  fault_diagnosis::Rig rig;
  rig.log_of(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n");
  const Diagnosis found = diagnose({{1, ExitStatus{1, 0}, {}}, std::nullopt}, rig.evidence());
  CHECK(found.culprit == 1);
  CHECK(found.view.fault == "out_of_memory");
  CHECK(found.view.group == FaultGroup::memory);
  CHECK(found.view.host == "n2");
  CHECK(found.view.accuses == Accusation::never);
}

TEST_CASE("fault diagnosis: a rank that was killed while the file system stood still is the one that was killed") {
  fault_diagnosis::Rig rig;
  GuardFinding finding;
  finding.kind = GuardFinding::Kind::rank_ended;
  finding.rank = 1, finding.host = "n2", finding.step = 77, finding.section = "micro_batch";
  finding.cause = "the process of rank 1 on n2 has ended";
  for (const char* host : {"n1", "n2"})
    rig.of_hosts.push_back({ObservationSource::health, FaultClass::file_system, -1, host, "/scratch does not answer"});
  const Diagnosis found = diagnose({{0, ExitStatus{-1, SIGKILL}, {}}, finding}, rig.evidence());
  CHECK(found.view.fault == "killed");
  CHECK(found.culprit == 1);
  CHECK(found.view.rank == 1);
  CHECK(found.view.host == "n2");
}

TEST_CASE("fault diagnosis: of a rank that srun has ended and one that it had lost before, the latter is the culprit") {
  fault_diagnosis::Rig rig;  // the agent of n2 was silent when its rank ended, and that of n1 reported the other one
  const auto mpirun_log = [&](const std::string& text) {
    REQUIRE(write_file_renamed(join_path(rig.launch.launch_dir, "mpirun.log"), text).ok());
  };
  const std::string ended_others = "srun: launch/slurm: _step_signal: Terminating StepId=6.1\n";
  const std::string of_0 = "srun: error: n1: task 0: Killed\n";
  GuardFinding finding;
  finding.kind = GuardFinding::Kind::rank_ended;
  finding.rank = 0, finding.host = "n1", finding.step = 12, finding.section = "micro_batch";
  finding.cause = "the process of rank 0 on n1 has ended";
  const LaunchOutcome end{{0, ExitStatus{137, 0}, {}}, finding};

  mpirun_log("srun: error: n2: task 1: Killed\n" + ended_others + of_0);
  const Diagnosis found = diagnose(end, rig.evidence());
  CHECK(found.culprit == 1);
  CHECK(found.view.host == "n2");
  CHECK(found.cause.find("the process of rank 1 on n2 has ended") == 0);
  CHECK(found.cause.find("srun: error: n2: task 1: Killed") != std::string::npos);

  for (const std::string& other : {of_0 + ended_others, ended_others + of_0, of_0, std::string()}) {
    CAPTURE(other);
    mpirun_log(other);
    CHECK(diagnose(end, rig.evidence()).culprit == 0);
  }
  // What a rank's own handler wrote of it says more: how it ended.
  mpirun_log("srun: error: n2: task 1: Aborted\n" + ended_others + of_0);
  rig.log_of(1, "[n2:00164] *** Process received signal ***\n[n2:00164] Signal: Aborted (6)\n");
  const Diagnosis aborted = diagnose(end, rig.evidence());
  CHECK(aborted.culprit == 1);
  CHECK(aborted.view.fault == "crash");
}

TEST_CASE("fault diagnosis: a fault that all processes survived is the rank's that the others blame") {
  fault_diagnosis::Rig rig;
  GuardFinding finding;
  finding.kind = GuardFinding::Kind::faulted, finding.rank = 0, finding.step = 7, finding.cause = "rank 0 has a fault";
  CHECK(diagnose_survived(finding, rig.evidence()).culprit == 0);
  CHECK(diagnose_survived(finding, rig.evidence()).cause == "rank 0 has a fault");
  Event event;
  event.kind = "faulted", event.rank = 0;
  event.fields = Value::make_table();
  event.fields.set("what", "another rank: rank 1: No space left on device");
  rig.events.take({event});
  const Diagnosis found = diagnose_survived(finding, rig.evidence());
  CHECK(found.culprit == 1);
  CHECK(found.cause.find("rank 1 has a fault at step 7 that all processes survived: ") == 0);
  GuardFinding ordered =
      with_what_was_said(finding, rig.events);  // a restart is decided, and the order comes to nothing
  rig.events.faults_decided();
  ordered.no_order = "node n2 was not heard of", ordered.cause += "; node n2 was not heard of";
  const Diagnosis again = diagnose_survived(ordered, rig.evidence());
  CHECK(again.culprit == 1);
  CHECK(again.view.fault == found.view.fault);
  CHECK(again.cause == found.cause + "; node n2 was not heard of");
  // The first rank may be blamed as any other; one that is none of the launch's is not.
  GuardFinding of_another = finding;
  of_another.rank = 1, of_another.said = "another rank: rank 0: No space left on device";
  CHECK(diagnose_survived(of_another, rig.evidence()).culprit == 0);
  of_another.said = "another rank: rank 99: No space left on device";
  CHECK(diagnose_survived(of_another, rig.evidence()).culprit == 1);
}

TEST_CASE("fault diagnosis: a disk without room is named beside the end that it may have caused") {
  fault_diagnosis::Rig rig;
  rig.launch.launch_dir = rig.folder.file("gone");  // nothing can be written below it
  const Diagnosis found = diagnose(fault_diagnosis::killed(0), rig.evidence());
  CHECK(found.cause.size() > std::string("the ranks ended: killed by signal 9").size());
}
