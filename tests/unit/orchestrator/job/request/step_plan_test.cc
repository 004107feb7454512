// How several programs share the nodes, CPUs and GPUs of one job.
#include "orchestrator/job/request/step_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

Site step_site(const std::string& more) {
  const std::string path = "/tmp/longhaul-step-site-" + random_hex(6).value() + ".toml";
  write_file_atomic(path, "name = \"here\"\nscheduler = \"slurm\"\n" + more).value();
  auto site = load_site(path, {});
  (void)remove_tree(path).ok();
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

const std::string acc_node = "[node]\ncores = 80\ngpus = 4\n[launcher]\nmpi = \"pmix\"\n";

PlannedStage step_stage(const std::string& text) {
  WorkflowRequest request;
  request.text = "[workflow]\nname = \"w\"\n[stage.s]\nkind = \"command\"\n" + text;
  request.path = "w.toml";
  request.folder = "/flow";
  auto outcome = plan_workflow(request, testing::PlainFiles());
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan.stages[0];
}

std::string step(const std::string& name, const std::string& keys) {
  return "[stage.s.step." + name + "]\nscript = 'x'\n" + keys + "\n";
}

JobPlan step_job(const Site& site, const std::string& text) {
  Diagnostics diagnostics;
  JobPlan plan = plan_job(site, step_stage(text), diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  return plan;
}

std::string step_directive(const JobPlan& plan, const std::string& option) {
  for (const Directive& directive : plan.directives)
    if (directive.option == option) return directive.value + "  # " + directive.origin;
  return "none";
}

// "nodes FIRST+COUNT, RANKS x CPUS, GPUS"
std::string shape(const JobStep& step) {
  return format("nodes {}+{}, {} x {}, {}", step.first_node, step.nodes, step.ranks, step.cpus_per_rank,
                step.gpus_per_node);
}

bool has_word(const JobStep& step, const std::string& word) {
  return std::find(step.launcher.begin(), step.launcher.end(), word) != step.launcher.end();
}

}  // namespace

TEST_CASE("steps with nodes of their own: slices of the allocation, each with all of its nodes") {
  const Site site = step_site(acc_node);
  const JobPlan plan = step_job(site, step("actor", "ranks = 1\nnodes = 1") + step("learner", "ranks = 8\nnodes = 2"));
  REQUIRE(plan.steps.size() == 2);
  CHECK(shape(plan.steps[0]) == "nodes 0+1, 1 x 80, 4");
  CHECK(shape(plan.steps[1]) == "nodes 1+2, 8 x 20, 4");
  CHECK(plan.launcher.empty());
  CHECK(step_directive(plan, "nodes") == "3  # workflow: stage.s.step");
  CHECK(step_directive(plan, "ntasks") == "12  # workflow: stage.s.step");  // every node has room for the largest
  CHECK(step_directive(plan, "ntasks-per-node") == "4  # room for the steps on each node");
  CHECK(step_directive(plan, "cpus-per-task") == "20  # room for the steps on each node");
  CHECK(plan.gpus_per_node == 4);
  CHECK(plan.steps[1].launcher == std::vector<std::string>{"srun", "--job-name=learner", "--mpi=pmix", "--nodes=2",
                                                           "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=20",
                                                           "--immediate=300", "--gpus-per-node=4",
                                                           "--kill-on-bad-exit=1"});
  CHECK(has_word(plan.steps[0], "--mpi=none"));
  CHECK_FALSE(has_word(plan.steps[0], "--no-kill"));
}

TEST_CASE("steps of a job that outlives a node outlive it too") {
  const JobPlan plan =
      step_job(step_site(acc_node), "[stage.s.job]\nno_kill = true\n" + step("a", "ranks = 1\nnodes = 1") +
                                        step("b", "ranks = 8\nnodes = 2"));
  for (const JobStep& one : plan.steps) CHECK(has_word(one, "--no-kill"));
}

TEST_CASE("steps that share nodes: side by side on whole cores, GPUs by ranks or as said") {
  const Site site = step_site(acc_node);
  const JobPlan plan = step_job(site, step("actor", "ranks = 1") + step("learner", "ranks = 3"));
  CHECK(shape(plan.steps[0]) == "nodes 0+1, 1 x 20, 1");
  CHECK(shape(plan.steps[1]) == "nodes 0+1, 3 x 20, 3");
  CHECK(has_word(plan.steps[0], "--exact"));
  CHECK(has_word(plan.steps[0], "--mem=0"));
  CHECK(has_word(plan.steps[1], "--gpus-per-node=3"));
  CHECK(step_directive(plan, "ntasks") == "4  # workflow: stage.s.step");
  CHECK(step_directive(plan, "cpus-per-task") == "20  # room for the steps on each node");

  const JobPlan said = step_job(site, step("monitor", "threads = 2\ngpus_per_node = 0\nservice = true") +
                                          step("learner", "ranks = 2\ngpus_per_node = 4"));
  CHECK(shape(said.steps[0]) == "nodes 0+1, 1 x 2, 0");
  CHECK(shape(said.steps[1]) == "nodes 0+1, 2 x 39, 4");
  CHECK(has_word(said.steps[0], "--gres=none"));
  CHECK(step_directive(said, "ntasks") == "1  # workflow: stage.s.step");  // 80 CPUs are no three equal parts
  CHECK(step_directive(said, "cpus-per-task") == "80  # room for the steps on each node");

  const Site threads = step_site("[node]\ncores = 9\nthreads_per_core = 2\n");
  const JobPlan whole = step_job(threads, step("a", "") + step("b", ""));
  CHECK(shape(whole.steps[0]) == "nodes 0+1, 1 x 8, 0");  // nine CPUs each would share a core
}

TEST_CASE("steps that say all their threads take no more of a node than that") {
  const Site site = step_site("[node]\ncores = 80\n");
  const JobPlan plan = step_job(site, step("a", "ranks = 2\nthreads = 3") + step("b", "ranks = 2\nthreads = 5"));
  CHECK(plan.ranks_per_node * plan.cpus_per_rank == 16);
  const JobPlan own =
      step_job(site, step("a", "ranks = 2\nthreads = 3\nnodes = 1") + step("b", "ranks = 2\nthreads = 5\nnodes = 1"));
  CHECK(own.ranks_per_node == 2);
  CHECK(own.cpus_per_rank == 5);
}

TEST_CASE("steps that do not fit are refused at their place") {
  const auto reported = [](const Site& site, const std::string& text) {
    Diagnostics diagnostics;
    (void)plan_job(site, step_stage(text), diagnostics);
    return diagnostics.empty() ? std::string("accepted") : diagnostics.render("");
  };
  const Site site = step_site(acc_node);
  CHECK(starts_with(reported(site, step("a", "gpus_per_node = 3") + step("b", "gpus_per_node = 2")),
                    "w.toml:10:17: error: the step b asks for 2 GPUs on a node: the steps before it leave 1 of 4"));
  CHECK(starts_with(reported(site, step("a", "nodes = 1\ngpus_per_node = 8") + step("b", "nodes = 1")),
                    "w.toml:8:17: error: the step a asks for 8 GPUs on a node: the job has 4"));
  CHECK(reported(site, step("a", "ranks = 60\nthreads = 1") + step("b", "ranks = 30\nthreads = 1"))
            .find("the steps need 90 CPUs on a node: nodes of site 'here' have 80") != std::string::npos);
  const Site mpirun = step_site("[launcher]\nkind = \"mpirun\"\n");
  CHECK(reported(mpirun, step("a", "nodes = 1") + step("b", "nodes = 1"))
            .find("steps on several nodes are started by srun") != std::string::npos);
  CHECK(reported(mpirun, step("a", "") + step("b", "")) == "accepted");
}

TEST_CASE("without a scheduler all steps run side by side on the one machine") {
  const PlannedStage stage =
      step_stage(step("a", "nodes = 1\nranks = 2\nthreads = 2") + step("b", "nodes = 2\nranks = 2"));
  const auto steps = steps_on_one_machine(stage, 8);
  REQUIRE(steps.size() == 2);
  CHECK(shape(steps[0]) == "nodes 0+1, 2 x 2, 0");
  CHECK(shape(steps[1]) == "nodes 0+1, 2 x 2, 0");
  CHECK(cpus_on_node(steps) == 8);
}

}  // namespace longhaul
