// SIGUSR1: the job's wall time is nearly over. What the record says then, and what the work keeps.
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>

#include "resiliency/taxonomy/fault_class.h"
#include "tests/unit/worker/lead_rig.h"

namespace longhaul {
namespace {

// A rank that says when it listens, and does `on_term` when it is asked to stop.
std::string listening_rank(const std::string& on_term) {
  return "trap '" + on_term + "' TERM; echo ready > \"$LONGHAUL_STATE/ready\"; sleep 60 & wait; sleep 60";
}

pid_t start_and_listen(LeadRig& rig) {
  const pid_t lead = rig.start();
  rig.until([&] { return rig.text("work/state/ready") == "ready\n"; });
  return lead;
}

}  // namespace

TEST_CASE("SIGUSR1: ranks save and stop, the record says wall time, and the job is no failure to the scheduler") {
  LeadRig rig(listening_rank("echo step-7 > \"$LONGHAUL_STATE/checkpoint\"; exit 1"));
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).success());
  const JobRecord record = rig.record();
  CHECK(record.ended_by == "wall_time");
  CHECK(record.outcome == "failed");
  CHECK(record.cause.find("wall time is nearly over") != std::string::npos);
  CHECK(classify_end(record, true) == FaultClass::wall_time);
  CHECK(record.launches == 1);
  CHECK(rig.text("work/state/checkpoint") == "step-7\n");
  CHECK(!file_exists(rig.attempt.out_dir()));
}

TEST_CASE("SIGUSR1: a program that completes its work when asked to stop has succeeded") {
  LeadRig rig(listening_rank("echo done > \"$LONGHAUL_OUT/text\"; exit 0"));
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().ended_by.empty());
  CHECK(file_exists(rig.attempt.out_dir() + "/text"));
}

TEST_CASE("SIGUSR1: ranks that do not listen are ended after the grace, and it is the wall time all the same") {
  LeadRig rig(listening_rank(""));
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().ended_by == "wall_time");
}

TEST_CASE("SIGUSR1, and SIGTERM before the ranks are gone: the wall time was the reason") {
  LeadRig rig(listening_rank(""));
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  rig.until(
      [&] { return rig.text("work/attempts/1/lead.log").find("event=wall_time_nearly_over") != std::string::npos; });
  ::kill(lead, SIGTERM);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().ended_by == "wall_time");
  CHECK(classify_end(rig.record(), true) == FaultClass::wall_time);
}

TEST_CASE("SIGTERM, and SIGUSR1 after it: cancelled, and nothing goes on") {
  LeadRig rig(listening_rank(""));
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGTERM);
  rig.until([&] { return rig.text("work/attempts/1/lead.log").find("event=stop_requested") != std::string::npos; });
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).code == 1);
  CHECK(rig.record().outcome == "cancelled");
  CHECK(rig.record().ended_by.empty());
}

TEST_CASE("a lead writes down the job that it runs in, and a job that was queued again claims and records anew") {
  LeadRig rig("exit 1");
  rig.environment = {{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().scheduler_job == "77");
  CHECK(rig.record().nodes == "n[1-2]");
  CHECK(rig.record().restarts == 0);

  rig.environment = {
      {"SLURM_ARRAY_JOB_ID", "70"}, {"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_JOB_ID", "77"}, {"SLURM_RESTART_COUNT", "2"}};
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record(2).scheduler_job == "70_3");
  CHECK(rig.record(2).restarts == 2);
  CHECK(read_claim(rig.attempt.claim_path(2))->scheduler_job == "70_3");
  CHECK(rig.record(0).scheduler_job == "77");
  CHECK(!file_exists(rig.attempt.record_path(1)));
}

namespace {

// A scheduler that says when the job ends.
void end_in(LeadRig& rig, std::int64_t seconds) {
  const std::string folder = rig.root() + "/bin";
  REQUIRE(make_directories(folder).ok());
  const std::int64_t now_s = rig.clock.wall_ms() / 1000;
  const std::string end = format("#!/bin/sh\n[ \"$SLURM_TIME_FORMAT\" = %s ] && echo {} {}\n", now_s, now_s + seconds);
  REQUIRE(write_file_atomic(folder + "/squeue", end, 0755).ok());
  rig.environment.emplace_back("PATH", folder + ":/usr/bin:/bin");
  rig.environment.emplace_back("SLURM_JOB_ID", "7");
}

}  // namespace

namespace {

// A scheduler that takes the job's nodes back: from now on it ends in so many seconds.
void preempt(LeadRig& rig, std::int64_t seconds) {
  const std::int64_t now_s = rig.clock.wall_ms() / 1000;
  const std::string end = format("#!/bin/sh\necho {} {}\n", now_s, now_s + seconds);
  REQUIRE(write_file_renamed(rig.root() + "/bin/squeue.new", end).ok());
  REQUIRE(::chmod((rig.root() + "/bin/squeue.new").c_str(), 0755) == 0);
  REQUIRE(::rename((rig.root() + "/bin/squeue.new").c_str(), (rig.root() + "/bin/squeue").c_str()) == 0);
}

pid_t rank_of(LeadRig& rig) {
  rig.until([&] { return !rig.text("work/state/pid").empty(); });
  return std::atoi(rig.text("work/state/pid").c_str());
}

}  // namespace

TEST_CASE("SIGUSR1 at a preemption: the grace time is what ranks have, not the hours that the job was to have") {
  LeadRig rig(listening_rank(""));
  end_in(rig, 36'000);
  const pid_t lead = start_and_listen(rig);
  preempt(rig, 12);  // less the ten seconds for the record: the grace of a second counts
  ::kill(lead, SIGUSR1);
  const std::int64_t begun_ns = rig.clock.monotonic_ns();
  CHECK(rig.wait(lead).success());
  CHECK(rig.clock.monotonic_ns() - begun_ns < 8'000'000'000);
  CHECK(rig.record().ended_by == "preempted");
  CHECK(rig.record().cause.find("takes the job's nodes before its wall time is over") != std::string::npos);
  CHECK(classify_end(rig.record(), true) == FaultClass::preempted);
}

TEST_CASE("ranks that were stopped from outside are not started in a job that is being preempted") {
  for (const bool preempted : {true, false}) {
    CAPTURE(preempted);
    LeadRig rig(
        "echo $$ > \"$LONGHAUL_STATE/pid.$LONGHAUL_RANK\"; mv \"$LONGHAUL_STATE/pid.$LONGHAUL_RANK\" "
        "\"$LONGHAUL_STATE/pid\"; [ -e \"$LONGHAUL_STATE/again\" ] && exit 0; "
        "touch \"$LONGHAUL_STATE/again\"; exec sleep 60");
    rig.attempt.resiliency.restarts = 2;
    end_in(rig, 36'000);
    const pid_t lead = rig.start();
    const pid_t rank = rank_of(rig);
    if (preempted) preempt(rig, 20);
    rig.until([&] { return file_exists(rig.attempt.state_dir() + "/again"); });
    ::kill(rank, SIGTERM);  // as Slurm does at a preemption without send_user_signal: the ranks alone
    (void)rig.wait(lead);
    CHECK(rig.record().launches == (preempted ? 1 : 2));
    CHECK(rig.record().ended_by == (preempted ? "preempted" : ""));
    CHECK(rig.record().outcome == (preempted ? "failed" : "succeeded"));
  }
}

TEST_CASE("SIGUSR1: ranks have the time that is left to the job, and not only the grace, for what they save") {
  LeadRig rig(listening_rank("sleep 2; echo step-7 > \"$LONGHAUL_STATE/checkpoint\"; exit 1"));
  end_in(rig, 60);
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().ended_by == "wall_time");
  CHECK(rig.text("work/state/checkpoint") == "step-7\n");
}

TEST_CASE("SIGUSR1: with less than the grace left, the record is still written in time") {
  LeadRig rig(listening_rank(""));
  end_in(rig, 11);
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  const std::int64_t begun_ns = rig.clock.monotonic_ns();
  CHECK(rig.wait(lead).success());
  CHECK(rig.clock.monotonic_ns() - begun_ns < 8'000'000'000);
  CHECK(rig.record().ended_by == "wall_time");
}

TEST_CASE("SIGUSR1 with much time left, and SIGTERM after it: ranks have the grace, and not that time any more") {
  LeadRig rig(listening_rank(""));
  end_in(rig, 600);
  const pid_t lead = start_and_listen(rig);
  ::kill(lead, SIGUSR1);
  rig.until(
      [&] { return rig.text("work/attempts/1/lead.log").find("event=wall_time_nearly_over") != std::string::npos; });
  ::kill(lead, SIGTERM);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().ended_by == "wall_time");
}

TEST_CASE("a training that stops in time by itself has met its wall time, and is not started again") {
  const std::string stops =
      R"(sleep 0.5; echo '{"t":"x","ms":1,"kind":"stopped","rank":0,"step":9,"why":"time","saved":true}')"
      " >> \"$LONGHAUL_EVENTS\"; exit 7";
  for (const bool end_is_known : {true, false}) {
    CAPTURE(end_is_known);
    LeadRig rig(stops);
    rig.attempt.resiliency.restarts = 0;
    if (end_is_known) end_in(rig, 60);
    CHECK(rig.wait(rig.start()).code == (end_is_known ? 0 : 1));
    CHECK(rig.record().ended_by == std::string(end_is_known ? "wall_time" : ""));
    CHECK(rig.record().launches == 1);
  }
}

TEST_CASE("a training that somebody else has asked to stop has not met its wall time, and is started again") {
  LeadRig rig(
      R"(echo '{"t":"x","ms":1,"kind":"stopped","rank":0,"step":9,"why":"asked","saved":true}' >> "$LONGHAUL_EVENTS"; exit 7)");
  rig.attempt.resiliency.restarts = 1;
  end_in(rig, 600);
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().ended_by.empty());
  CHECK(rig.record().launches == 2);
}

}  // namespace longhaul
