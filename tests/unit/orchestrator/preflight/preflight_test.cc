#include "orchestrator/preflight/preflight.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

using namespace longhaul;

namespace {

struct AskedCluster {
  RunPlan plan;
  std::vector<JobPlan> jobs;
  std::vector<SlurmPartition> partitions;
  std::vector<SlurmReservation> reservations;
  std::vector<QueueAnswer> answers;
  std::string private_data;
  mutable std::vector<std::string> not_looked_at;

  AskedCluster() {
    SlurmPartition main, debug;
    main.name = "main";
    main.is_default = true;
    main.nodes_total = 4;
    main.max_time_s = 86'400;
    debug.name = "debug";
    debug.nodes_total = 4;
    debug.nodes_max = 1;
    debug.max_time_s = 600;
    partitions = {main, debug};
  }
  JobPlan& job(const std::string& partition, int nodes, double wall_s) {
    PlannedStage stage;
    stage.stage = "s" + std::to_string(plan.stages.size());
    stage.where = {"w.toml", static_cast<int>(plan.stages.size()) + 1, 1};
    plan.stages.push_back(stage);
    JobPlan job;
    job.partition = partition;
    if (!partition.empty()) job.directives.push_back({"partition", partition, "site x: classes.a.partition"});
    job.nodes = nodes;
    job.wall_s = wall_s;
    jobs.push_back(job);
    return jobs.back();
  }
  std::vector<std::string> problems() const {
    Diagnostics diagnostics;
    ClusterAnswers word{partitions, reservations, answers, {}};
    word.slurm.private_data = private_data;
    not_looked_at = check_against_cluster(plan, jobs, word, diagnostics);
    std::vector<std::string> messages;
    for (const Error& error : diagnostics.errors()) messages.push_back(error.message());
    return messages;
  }
};

// A `module` before all others in PATH, which loads what is given here, and only in this order.
struct MadeUpModules {
  testing::Scratch scratch;
  std::string path_before = std::getenv("PATH");
  explicit MadeUpModules(const std::string& loadable) {
    REQUIRE(write_file_atomic(scratch.file("module"),
                              "#!/bin/sh\necho \"$2\" >> " + scratch.file("asked") + "\ncase $2 in " + loadable +
                                  ") exit 0 ;; esac\nexit 1\n",
                              0755)
                .ok());
    ::setenv("PATH", (scratch.path() + ":" + path_before).c_str(), 1);
  }
  ~MadeUpModules() { ::setenv("PATH", path_before.c_str(), 1); }
  std::string asked() const { return read_file(scratch.file("asked")).value(); }
};

PlannedStage stage_with_modules(const std::string& name, const std::vector<std::string>& modules) {
  PlannedStage stage;
  stage.stage = name;
  stage.where = {"w.toml", 7, 1};
  stage.common.job.modules = modules;
  return stage;
}

}  // namespace

TEST_CASE("preflight: what fits the cluster passes, whichever of the named partitions takes it") {
  AskedCluster asked;
  asked.job("", 4, 86'400);
  asked.job("main", 4, 0);
  asked.job("debug", 1, 600);
  asked.job("debug,main", 3, 7200);
  CHECK(asked.problems().empty());
}

TEST_CASE("preflight: each thing that the cluster does not have is reported, with place and remedy") {
  AskedCluster asked;
  asked.job("mian", 1, 60);
  asked.job("", 5, 60);
  asked.job("debug", 2, 60);
  asked.job("debug", 1, 601);
  asked.job("", 1, 60).directives.push_back({"reservation", "school", "workflow: stage.s.job.reservation"});
  const auto problems = asked.problems();
  REQUIRE(problems.size() == 5);
  CHECK(problems[0] ==
        "w.toml:1:1: the cluster has no partition 'mian' (from site x: classes.a.partition); did you mean 'main'?");
  CHECK(problems[1] == "w.toml:2:1: 5 nodes are more than the 4 of partition main; take fewer, or another partition");
  CHECK(problems[2].find("2 nodes are more than the 1 of partition debug") != std::string::npos);
  CHECK(problems[3].find("a wall time of 00:10:01 is longer than the 00:10:00 of partition debug") !=
        std::string::npos);
  CHECK(problems[4].find("no reservation 'school'") != std::string::npos);
  SlurmReservation school;
  school.name = "school";
  asked.reservations = {school};
  CHECK(asked.problems().size() == 4);
}

TEST_CASE("preflight: what Slurm does not show to everybody is not taken for what is not there") {
  AskedCluster asked;
  asked.job("secret", 1, 60);
  asked.job("", 1, 60).directives.push_back({"reservation", "school", "workflow: stage.s.job.reservation"});
  CHECK(asked.problems().size() == 2);
  CHECK(asked.not_looked_at.empty());
  asked.private_data = "jobs,reservations";
  REQUIRE(asked.problems().size() == 1);
  CHECK(asked.problems()[0].find("no partition 'secret'") != std::string::npos);
  REQUIRE(asked.not_looked_at.size() == 1);
  CHECK(asked.not_looked_at[0].find(
            "reservation 'school' is not among those that Slurm shows to you (PrivateData=reservations)") == 0);
  asked.private_data = "partitions,reservations";
  CHECK(asked.problems().empty());
  CHECK(asked.not_looked_at.size() == 2);
  asked.partitions[0].is_default = false;
  CHECK(asked.problems().empty());
  REQUIRE(asked.not_looked_at.size() == 3);
  CHECK(asked.not_looked_at[2].find("the default partition is not among those") == 0);
}

TEST_CASE("preflight: a problem of a thousand stages is reported once; a cluster without partitions says nothing") {
  AskedCluster asked;
  for (int i = 0; i < 1000; ++i) asked.job("gone", 1, 60);
  CHECK(asked.problems().size() == 1);
  asked.partitions.clear();
  CHECK(asked.problems().empty());
}

TEST_CASE("preflight: a cluster without a default partition wants one named") {
  AskedCluster asked;
  asked.partitions[0].is_default = false;
  asked.job("", 1, 60);
  REQUIRE(asked.problems().size() == 1);
  CHECK(asked.problems()[0].find("name one: main, debug") != std::string::npos);
}

TEST_CASE("preflight: a job that a filter routes by QOS or constraint is not judged by the default partition") {
  AskedCluster asked;
  asked.job("", 64, 172'800).directives.push_back({"qos", "regular", "site x: classes.a.qos"});
  asked.job("", 64, 172'800).directives.push_back({"constraint", "gpu", "site x: classes.a.constraint"});
  CHECK(asked.problems().empty());
  asked.partitions[0].is_default = false;
  CHECK(asked.problems().empty());
}

TEST_CASE("preflight: spares are nodes as well") {
  AskedCluster asked;
  asked.job("main", 4, 60).spares = 1;
  REQUIRE(asked.problems().size() == 1);
  CHECK(asked.problems()[0].find("5 nodes, 1 of them spares, are more than the 4 of partition main") !=
        std::string::npos);
}

TEST_CASE("preflight: Slurm's own answer is the witness: where a job would go, and that it is not taken") {
  AskedCluster asked;
  asked.partitions[0].is_default = false;
  for (int i = 0; i < 4; ++i)
    asked.job("", i == 0 ? 4 : 2, 600).directives.push_back({"qos", "regular", "site x: classes.a.qos"});
  QueueAnswer routed, refused, for_now;
  routed.partition = "main";
  refused.refused = "allocation failure: Invalid qos specification";
  refused.for_good = true;
  for_now.refused = "allocation failure: Requested nodes are busy";
  QueueAnswer elsewhere = routed;
  elsewhere.partition = "debug";
  asked.answers = {routed, refused, for_now, elsewhere};
  for (std::size_t i = 0; i < 4; ++i) asked.answers[i].stage = asked.plan.stages[i].id();
  const auto problems = asked.problems();
  REQUIRE(problems.size() == 2);
  CHECK(starts_with(problems[0],
                    "w.toml:2:1: Slurm would not take the job: allocation failure: Invalid qos specification"));
  CHECK(problems[1].find("2 nodes are more than the 1 of partition debug") != std::string::npos);
  // What a partition says already is not said again in other words.
  asked.jobs[1].partition = "mian";
  CHECK(asked.problems().size() == 2);
  CHECK(asked.problems()[0].find("no partition 'mian'") != std::string::npos);
  // Nor what the default partition says, of a job that nothing routes.
  AskedCluster plain;
  plain.job("", 5, 60);
  refused.stage = plain.plan.stages[0].id();
  plain.answers = {refused};
  REQUIRE(plain.problems().size() == 1);
  CHECK(plain.problems()[0].find("5 nodes are more than the 4 of partition main") != std::string::npos);
}

TEST_CASE("preflight: a class without a limit takes that of its partition, and every job then has a wall time") {
  AskedCluster asked;
  const testing::Scratch scratch;
  const std::string path = scratch.file("c.toml");
  REQUIRE(write_file_atomic(path,
                            "name = \"c\"\nscheduler = \"slurm\"\n[classes.usual]\n[classes.both]\npartition = "
                            "\"main,debug\"\n[classes.own]\npartition = \"main\"\nmax_wall = \"1h\"\n[classes.routed]\n"
                            "qos = \"q\"\n")
              .ok());
  Site site = load_site(path, {}).value();
  take_walls_from(asked.partitions, site);
  const auto wall = [&](const char* name) { return site.config.find_class(name)->max_wall.value; };
  CHECK(wall("usual") == 86'400);
  CHECK(wall("both") == 600);
  CHECK(wall("own") == 3600);
  CHECK(wall("routed") == 0);
  CHECK(site.config.default_wall.value == 86'400);
  CHECK(site.origin_of("classes.usual.max_wall") == "slurmctld: classes.usual.max_wall");
  // As a run freezes it.
  REQUIRE(write_file_atomic(path, to_toml(site.values)).ok());
  const Site frozen = load_site(path, {}).value();
  CHECK(frozen.config.find_class("both")->max_wall.value == 600);
  CHECK(frozen.origins.at("classes.both.max_wall").source == "MaxTime of partition main,debug");

  REQUIRE(write_file_atomic(path, "name = \"c\"\nscheduler = \"slurm\"\n").ok());
  Site plain = load_site(path, {}).value();
  asked.partitions[0].max_time_s = 7200;
  take_walls_from(asked.partitions, plain);
  CHECK(plain.config.default_wall.value == 7200);
}

TEST_CASE("preflight: asked of Slurm itself; one that does not answer has said nothing against the plan") {
  ManualClock clock;
  FakeSlurm slurm(clock, {});
  const auto port = slurm.port();
  AskedCluster asked;
  asked.job("mian", 1, 60);
  asked.job("", 1, 60).directives.push_back({"reservation", "school", "workflow: stage.s.job.reservation"});
  Diagnostics reported;
  REQUIRE(check_with_slurm(*port, asked.plan, asked.jobs, "/runs", reported).ok());
  REQUIRE(reported.size() == 2);
  CHECK(reported.errors()[0].what.find("no partition 'mian'") != std::string::npos);
  CHECK(reported.errors()[1].what.find("no reservation 'school'") != std::string::npos);
  slurm.down_until_ms = clock.wall_ms() + 1000;
  Diagnostics silent;
  CHECK(check_with_slurm(*port, asked.plan, asked.jobs, "/runs", silent).error().code == ErrorCode::unavailable);
  CHECK(silent.empty());
}

TEST_CASE("preflight: a module that does not load is reported where it is asked for, after those that come before it") {
  MadeUpModules modules("cuda/12|nccl");
  Site site;
  site.config.modules = {"cuda/12"};
  RunPlan plan;
  plan.stages = {stage_with_modules("a", {"nccl"}), stage_with_modules("b", {"nccl"}),
                 stage_with_modules("c", {"pytorch/2 $(touch pwned)"}),
                 stage_with_modules("d", {"pytorch/2 $(touch pwned)"})};
  Diagnostics diagnostics;
  check_modules(site, plan, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(starts_with(diagnostics.errors()[0].message(), "w.toml:7:1: `module load pytorch/2 $(touch pwned)` fails on "));
  CHECK(diagnostics.errors()[0].hint == "try: module avail pytorch");
  CHECK(modules.asked() == "cuda/12\nnccl\ncuda/12\npytorch/2 $(touch pwned)\n");  // equal lists are tried once
}

TEST_CASE("preflight: a module that older modules do not load is reported with their output, though they answer 0") {
  ::setenv("BASH_ENV", LONGHAUL_SOURCE_DIR "/tests/support/tcl_modules_3.sh", 1);
  Site site;
  RunPlan plan;
  plan.stages = {stage_with_modules("a", {"cuda", "cuda/12.6"}), stage_with_modules("b", {"cuda", "cuda/13"})};
  Diagnostics diagnostics;
  check_modules(site, plan, diagnostics);
  ::unsetenv("BASH_ENV");
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.errors()[0].message().find("`module load cuda/13` fails on ") != std::string::npos);
  CHECK(ends_with(diagnostics.errors()[0].what,
                  ": ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'cuda/13'"));
}

TEST_CASE("preflight: a module that the site asks for is reported at its place in the site file") {
  MadeUpModules modules("nothing");
  Site site;
  site.config.modules = {"cuda/12"};
  site.origins["modules"].where = {"c.toml", 3, 1};
  RunPlan plan;
  plan.stages = {stage_with_modules("a", {}), stage_with_modules("b", {"nccl"})};
  Diagnostics diagnostics;
  check_modules(site, plan, diagnostics);
  REQUIRE(diagnostics.size() == 1);  // of both stages
  CHECK(starts_with(diagnostics.errors()[0].message(), "c.toml:3:1: `module load cuda/12` fails on "));
  site.config.node.arch = "another";  // this host cannot say what its nodes have
  Diagnostics elsewhere;
  check_modules(site, plan, elsewhere);
  CHECK(elsewhere.empty());
}
