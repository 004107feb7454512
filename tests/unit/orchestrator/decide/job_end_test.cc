// What the end of a job means, as a table of what its record and the scheduler say.
#include "orchestrator/decide/job_end.h"

#include <doctest/doctest.h>

#include <csignal>

namespace longhaul {
namespace {

JobInfo ended_job(const char* outcome, int signal = 0, SchedulerEnd end = SchedulerEnd::none) {
  JobInfo info;
  info.state = JobState::ended;
  info.end = end;
  info.record = JobRecord{};
  info.record->outcome = outcome;
  info.record->signal = signal;
  info.record->exit_code = signal == 0 ? 1 : 0;
  info.record->cause = "rank 0 ended";
  info.record->scheduler_job = "77";
  return info;
}

JobInfo lost_job(SchedulerEnd end, std::int64_t started_ms = 5) {
  JobInfo info;
  info.state = JobState::lost;
  info.started_ms = started_ms;
  info.end = end;
  info.cause = "its lead left no record";
  return info;
}

const char* fault_of(const JobInfo& info, bool we_cancelled = false) {
  const auto end = judge_end(info, true, we_cancelled);
  return end ? to_string(end->fault) : "not known yet";
}

}  // namespace

TEST_CASE("without a record the scheduler's answer decides, and where it has none the job is lost") {
  const std::pair<SchedulerEnd, const char*> cases[] = {
      {SchedulerEnd::none, "lost"},
      {SchedulerEnd::completed, "lost"},
      {SchedulerEnd::failed, "lost"},
      {SchedulerEnd::forgotten, "lost"},
      {SchedulerEnd::time_limit, "wall_time"},
      {SchedulerEnd::node_fail, "node_fail"},
      {SchedulerEnd::boot_fail, "boot_fail"},
      {SchedulerEnd::preempted, "preempted"},
      {SchedulerEnd::out_of_memory, "out_of_memory"},
      {SchedulerEnd::launch_failed, "launch_failed"},
      {SchedulerEnd::deadline, "time_limit"},
      {SchedulerEnd::cancelled, "cancelled_there"},
  };
  for (const auto& [end, fault] : cases) {
    CAPTURE(to_string(end));
    CHECK(std::string(fault_of(lost_job(end))) == fault);
  }
  CHECK(std::string(fault_of(lost_job(SchedulerEnd::cancelled), true)) == "cancelled");
  CHECK(std::string(fault_of(lost_job(SchedulerEnd::node_fail), true)) == "cancelled");
  CHECK(std::string(fault_of(lost_job(SchedulerEnd::none), true)) == "cancelled");
  // Acknowledged and never started: a slurmctld that crashed, not a program that was lost.
  CHECK(std::string(fault_of(lost_job(SchedulerEnd::forgotten, 0))) == "launch_failed");
  CHECK(judge_end(lost_job(SchedulerEnd::node_fail), true, false)->cause == "its lead left no record");
}

TEST_CASE("a record is trusted first, but what it cannot know the scheduler reports") {
  struct Case {
    const char* what;
    JobInfo info;
    bool we_cancelled;
    const char* fault;
  };
  const Case cases[] = {
      {"its own failure", ended_job("failed"), false, "program"},
      {"also where Slurm calls it failed", ended_job("failed", 0, SchedulerEnd::failed), false, "program"},
      {"also beyond the wall time", ended_job("failed", 0, SchedulerEnd::time_limit), false, "program"},
      {"a kill of unknown origin", ended_job("failed", SIGKILL), false, "killed"},
      {"a kill for its memory", ended_job("failed", SIGKILL, SchedulerEnd::out_of_memory), false, "out_of_memory"},
      {"ranks that died with a node", ended_job("failed", 0, SchedulerEnd::node_fail), false, "node_fail"},
      {"asked to stop, and nobody says why yet", ended_job("cancelled"), false, "not known yet"},
      {"a rank that saw SIGTERM first", ended_job("failed", SIGTERM), false, "not known yet"},
      {"preempted", ended_job("cancelled", 0, SchedulerEnd::preempted), false, "preempted"},
      {"a rank that saw the preemption first", ended_job("failed", SIGTERM, SchedulerEnd::preempted), false,
       "preempted"},
      {"its wall time", ended_job("cancelled", 0, SchedulerEnd::time_limit), false, "wall_time"},
      {"a person in the scheduler", ended_job("cancelled", 0, SchedulerEnd::cancelled), false, "cancelled_there"},
      {"us", ended_job("cancelled", 0, SchedulerEnd::cancelled), true, "interrupted"},
      {"us, before the scheduler says it", ended_job("cancelled"), true, "interrupted"},
      {"us, and a node was lost in the same moment", ended_job("cancelled", 0, SchedulerEnd::node_fail), true,
       "interrupted"},
      {"not us, and a node was lost", ended_job("cancelled", 0, SchedulerEnd::node_fail), false, "node_fail"},
      {"us, and the kernel was faster", ended_job("cancelled", 0, SchedulerEnd::out_of_memory), true, "interrupted"},
      {"for no reason of the scheduler's", ended_job("cancelled", 0, SchedulerEnd::completed), false, "interrupted"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    CHECK(std::string(fault_of(c.info, c.we_cancelled)) == c.fault);
  }
  const auto preempted = judge_end(ended_job("cancelled", 0, SchedulerEnd::preempted), true, false);
  CHECK(preempted->cause == "rank 0 ended (preempted)");
}

TEST_CASE("where there is no scheduler, a job that was asked to stop was interrupted: nobody will say more") {
  JobInfo info = ended_job("cancelled");
  info.record->scheduler_job.clear();
  CHECK(std::string(fault_of(info)) == "interrupted");
}

TEST_CASE("exit codes mean something only of the engine") {
  JobInfo info = ended_job("failed");
  info.record->exit_code = engine_exit_invalid_input;
  CHECK(judge_end(info, true, false)->fault == FaultClass::bad_input);
  CHECK(judge_end(info, false, false)->fault == FaultClass::program);
}

TEST_CASE("the end of a job reports its times, how far it came, and its node if it was the only one") {
  JobInfo info = ended_job("failed");
  info.started_ms = 1;
  info.record->started_ms = 1000;
  info.record->ended_ms = 2000;
  info.record->step = 77;
  info.nodes = "n[1-2]";
  auto end = judge_end(info, true, false);
  CHECK(end->started_ms == 1000);
  CHECK(end->ended_ms == 2000);
  CHECK(end->step == 77);
  CHECK(end->node.empty());
  info.nodes = "n1,n7";
  CHECK(judge_end(info, true, false)->node.empty());
  info.nodes = "n7";
  CHECK(judge_end(info, true, false)->node == "n7");
  info.nodes.clear();
  info.record->nodes = "n9";  // the lead's own record
  CHECK(judge_end(info, true, false)->node == "n9");
  const auto lost = judge_end(lost_job(SchedulerEnd::node_fail), true, false);
  CHECK(lost->started_ms == 5);
  CHECK(lost->step == -1);
  CHECK(lost->ended_ms == 0);
}

TEST_CASE("the node that a fault points at: the only one, or the one that was lost") {
  JobInfo info = lost_job(SchedulerEnd::node_fail);
  info.nodes = "n[1-2]";
  CHECK(judge_end(info, true, false)->node.empty());
  info.lost_node = "n2";
  CHECK(judge_end(info, true, false)->node == "n2");
  info.nodes = "n1";  // what Slurm has left of them
  CHECK(judge_end(info, true, false)->node == "n2");
  info.lost_node.clear();
  CHECK(judge_end(info, true, false)->node.empty());
  info.end = SchedulerEnd::out_of_memory;
  CHECK(judge_end(info, true, false)->node == "n1");
  JobInfo recorded = ended_job("failed", 0, SchedulerEnd::node_fail);
  recorded.nodes = recorded.record->nodes = "n[1-2]";
  recorded.lost_node = "n1";
  CHECK(judge_end(recorded, true, false)->node == "n1");
}

TEST_CASE(
    "a host that the lead has lost ends the job before Slurm knows of it: the program does not pay, and the host is "
    "left out") {
  JobInfo info = ended_job("failed", SIGKILL);
  info.nodes = info.record->nodes = "n[1-3]";
  info.record->nodes_left = {"n3"};
  CHECK(judge_end(info, true, false)->fault == FaultClass::killed);  // left earlier, for something else
  info.record->ended_by = "host_lost";
  const auto end = judge_end(info, true, false);
  CHECK(end->fault == FaultClass::host_unreachable);
  CHECK(group_of(end->fault) == FaultGroup::infrastructure);
  CHECK(end->nodes_left == std::vector<std::string>{"n3"});
  info.end = SchedulerEnd::node_fail;
  CHECK(judge_end(info, true, false)->fault == FaultClass::node_fail);
}

}  // namespace longhaul
