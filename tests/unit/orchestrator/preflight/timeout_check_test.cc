// Each rule of the hierarchy of timeouts, fired by a small workflow and a site file through what `longhaul validate`
// runs.
#include "orchestrator/preflight/timeout_check.h"

#include <doctest/doctest.h>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/cli/session/load_workflow.h"

namespace longhaul {
namespace {

struct TimeoutFolder {
  std::string path = "/tmp/longhaul-timeout-test-" + random_hex(6).value();
  TimeoutFolder() {
    make_directories(join_path(path, "tokens")).value();
    for (const char* file : {"tokenizer.json", "train.bin", "train.idx"})
      write_file_atomic(join_path(path, "tokens/" + std::string(file)), "{}").value();
  }
  ~TimeoutFolder() { (void)remove_tree(path); }
};

struct TimeoutCase {
  std::string kind = "pretrain";
  std::string stage = {};       // keys of the stage, from line 6 on
  std::string resiliency = {};  // keys of [stage.s.resiliency]
  std::string site = {};        // keys of a Slurm site; "local": none
  std::string network = {};     // keys of its [network]
};

LoadedWorkflow load_case(const TimeoutCase& one) {
  const TimeoutFolder folder;
  const std::string in =
      one.kind == "command" ? "argv = [\"true\"]" : "inputs = { tokens = \"" + folder.path + "/tokens\" }";
  std::string text = "[workflow]\nname = \"w\"\n[stage.s]\nkind = \"" + one.kind + "\"\n" + in + "\n" + one.stage;
  if (!one.resiliency.empty()) text += "[stage.s.resiliency]\n" + one.resiliency;
  CommandLine line;
  line.workflow = join_path(folder.path, "w.toml");
  write_file_atomic(line.workflow, text).value();
  if (one.site != "local") {
    line.site = join_path(folder.path, "own.toml");
    const std::string site = "name = \"own\"\nscheduler = \"slurm\"\n" + one.site +
                             "[node]\ncores = 8\ngpus = 4\n[classes.prod]\npartition = \"p\"\nmax_wall = \"3d\"\n" +
                             "[network]\n" + one.network;
    write_file_atomic(line.site, site).value();
  }
  auto loaded = load_workflow(line, Installation{});
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message());
  return *loaded;
}

// "FILE:line:column: what", without the folder, one line for each.
std::string said_of(const TimeoutCase& one) {
  const LoadedWorkflow loaded = load_case(one);
  std::string text;
  for (const Error& error : loaded.diagnostics.errors()) text += file_name(error.message()) + "\n";
  return text;
}

void check_says(const TimeoutCase& one, const std::vector<std::string>& parts) {
  const std::string said = said_of(one);
  CAPTURE(one.stage);
  CAPTURE(one.resiliency);
  CAPTURE(said);
  for (const std::string& part : parts) CHECK_MESSAGE(said.find(part) != std::string::npos, part);
  CHECK(split(trim(said), '\n').size() == parts.size());
}

}  // namespace

TEST_CASE("timeouts: what nobody has set contradicts nothing, on any kind of site") {
  CHECK(said_of({}) == "");
  CHECK(said_of({.stage = "time_limit = \"1min\"\n"}) == "");
  CHECK(said_of({.stage = "time_limit = \"1min\"\n", .site = "local"}) == "");
  CHECK(said_of({.stage = "ranks = 8\nnodes = 2\n", .resiliency = "spares = 1\n", .network = "silence = \"30s\"\n"}) ==
        "");
  CHECK(said_of({.kind = "command", .resiliency = "hang_floor = \"5s\"\nstartup = \"20s\"\n", .site = "local"}) == "");
}

TEST_CASE("timeouts: each rule fires for what a stage says, at the place where it says so") {
  check_says(
      {.resiliency = "hang_suspect = \"0.95s\"\n"},
      {"w.toml:7:16: stage.s: suspect (0.95 s) is shorter than 2 times the interval of reports (0.5 s): one late "
       "report would be taken for a hang; raise stage.s.resiliency.hang_suspect to 1 s or more"});
  check_says({.resiliency = "hang_suspect = \"0.5s\"\n", .site = "local"},
             {"w.toml:7:16: stage.s: suspect (0.5 s) is shorter than 3 times the interval of beats (0.3 s)",
              "suspect (0.5 s) is shorter than 2 times the interval of reports"});
  check_says({.resiliency = "host_silent = \"1s\"\n"},
             {"w.toml:7:15: stage.s: the silence of a host (1 s) is shorter than 3 times the interval of reports"});
  check_says({.resiliency = "hang_suspect = \"60s\"\n"},
             {"w.toml:7:16: stage.s: act (45 s) is shorter than suspect (60 s): a launch would be ended before the "
              "culprit is named; raise stage.s.resiliency.hang_floor to 60 s or more, or lower "
              "stage.s.resiliency.hang_suspect to 45 s"});
  check_says({.resiliency = "hang_act = \"3s\"\n"},
             {"w.toml:7:12: stage.s: act (3 s) is shorter than the silence of a host (4.5 s)"});
  check_says({.resiliency = "hang_act = \"11min\"\n"},
             {"w.toml:7:12: stage.s: the deadline of a collective (600 s) is shorter than act (660 s): ranks would end "
              "by themselves before the culprit is named; lower stage.s.resiliency.hang_act to 600 s"});
  check_says({.resiliency = "startup = \"5min\"\n", .site = "local"},
             {"w.toml:7:11: stage.s: launch start-up (300 s) is shorter than the deadline of a collective (600 s)"});
  check_says({.kind = "command", .resiliency = "hang_act = \"40min\"\n"},
             {"w.toml:7:12: stage.s: launch start-up (1800 s) is shorter than act (2400 s)"});
}

TEST_CASE("timeouts: the wall time and the notice before it") {
  check_says({.stage = "time_limit = \"1h\"\njob = { stop_before = \"3s\" }\n"},
             {"w.toml:7:23: stage.s: the job's grace (3 s) is shorter than stopping a launch (10 s): the job would end "
              "before its ranks have; raise stage.s.job.stop_before to 10 s or more"});
  check_says({.stage = "ranks = 2\nnodes = 2\ntime_limit = \"1h\"\njob = { stop_before = \"12s\" }\n"},
             {"w.toml:9:23: stage.s: the job's grace (12 s) is shorter than stopping a launch (15 s)"});  // by srun
  check_says(
      {.site = "stop_before = \"4s\"\n"},
      {"own.toml:3:15: stage.s: the job's grace (4 s) is shorter than stopping a launch (10 s): the job would end "
       "before its ranks have; raise site.stop_before to 10 s or more"});
  check_says(
      {.stage = "time_limit = \"10min\"\n", .resiliency = "startup = \"20min\"\n", .site = "local"},
      {"w.toml:6:14: stage.s: the wall time (600 s) is shorter than launch start-up and the job's grace (1200 s): "
       "a job could end without a step; raise stage.s.time_limit to 1200 s or more, or lower "
       "stage.s.resiliency.startup to 600 s"});
  check_says(
      {.stage = "time_limit = \"20min\"\njob = { stop_before = \"6min\" }\n", .resiliency = "startup = \"15min\"\n"},
      {"w.toml:6:14: stage.s: the wall time (1200 s) is shorter than launch start-up and the job's grace "
       "(1260 s)"});
}

TEST_CASE("timeouts: the fabric, its transport, and Slurm's own") {
  check_says({.resiliency = "hang_floor = \"10s\"\n", .network = "silence = \"30s\"\n"},
             {"w.toml:7:14: stage.s: act (10 s) is shorter than the silence of the fabric (30 s): a fabric that comes "
              "back would find its launch ended"});
  check_says({.resiliency = "hang_act = \"10min\"\n", .network = "silence = \"11min\"\n"},
             {"act (600 s) is shorter than the silence of the fabric (660 s)",
              "the deadline of a collective (600 s) is shorter than the silence of the fabric (660 s)"});
  check_says(
      {.stage = "job = { environment = { NCCL_IB_TIMEOUT = \"18\" } }\n", .network = "silence = \"30s\"\n"},
      {"w.toml:6:43: stage.s: the transport's timeout (7.51619 s) is shorter than the silence of the fabric (30 s)",
       "w.toml:6:43: stage.s: the transport's timeout (7.51619 s) is shorter than act (45 s): the transport would "
       "break the ranks' connections before the culprit is named; raise what "
       "stage.s.job.environment.NCCL_IB_TIMEOUT gives (4.096 us * 2^18 for each of the tries) to 45 s or more"});
  CHECK(said_of({.stage = "job = { environment = { NCCL_IB_TIMEOUT = \"22\" } }\n",
                 .network = "silence = \"30s\"\n"}) == "");
  CHECK(said_of({.stage = "job = { gpus_per_node = 0, environment = { NCCL_IB_TIMEOUT = \"18\" } }\n"}) == "");
  check_says({.resiliency = "host_silent = \"6s\"\n", .site = "slurmd_timeout = \"5s\"\n"},
             {"own.toml:3:18: stage.s: SlurmdTimeout of Slurm (5 s) is shorter than the silence of a host (6 s)"});
}

TEST_CASE("timeouts: all contradictions of a workflow come out together") {
  check_says({.stage = "time_limit = \"1h\"\njob = { stop_before = \"3s\" }\n",
              .resiliency = "hang_suspect = \"60s\"\nhost_silent = \"1s\"\nstartup = \"2h\"\n"},
             {"act (45 s) is shorter than suspect (60 s)", "the silence of a host (1 s)", "the job's grace (3 s)",
              "the wall time (3600 s) is shorter than launch start-up and the job's grace (7203 s)"});
}

TEST_CASE("timeouts: what Slurm says of itself counts when a run starts; what nobody can mend is left to the lead") {
  SlurmConfiguration slurm;
  slurm.kill_wait_s = 3, slurm.slurmd_timeout_s = 4;
  const LoadedWorkflow loaded = load_case({.stage = "ranks = 2\nnodes = 2\n"});  // by srun
  REQUIRE(loaded.diagnostics.empty());
  Diagnostics none;
  const std::vector<JobPlan> jobs = plan_jobs(loaded.site, loaded.plan, none);
  REQUIRE(none.empty());
  Diagnostics said;
  check_timeouts(loaded.site, loaded.plan, jobs, slurm, said);
  REQUIRE(said.size() == 1);
  CHECK(said.errors()[0].what ==
        "stage.s: SlurmdTimeout of Slurm (4 s) is shorter than the silence of a host (4.5 s): Slurm would end the job "
        "before the lost host is named");
  CHECK(said.errors()[0].hint == "lower stage.s.resiliency.host_silent to 4 s");
  const auto all = judge_timeouts(job_timeouts(loaded.site, loaded.plan.stages[0], jobs[0], &slurm));
  REQUIRE(all.size() == 2);
  CHECK(!all[1].mendable);
  CHECK(all[1].error.what.find("KillWait of Slurm (3 s) is shorter than stopping a launch (15 s)") == 0);
}

}  // namespace longhaul
