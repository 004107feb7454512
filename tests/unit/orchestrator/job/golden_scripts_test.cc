// The scripts of every shipped site, as they lie in tests/golden/job-scripts. After a wanted change:
//   LONGHAUL_UPDATE_GOLDEN=1 build/release/bin/unit_orchestrator --test-case='*golden*'
// and read the difference before it is committed.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/launcher_arguments.h"
#include "orchestrator/preflight/stage_device.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

const std::string golden_root = LONGHAUL_SOURCE_DIR "/tests/golden/job-scripts";

RunPlan golden_workflow(const std::string& name, const Site& site) {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR "/workflows/") + name + ".toml";
  WorkflowRequest request;
  request.text = read_file(path).value();
  request.path = name + ".toml";
  request.folder = "/somewhere";
  request.site = site.values;
  request.recipe_folders = {LONGHAUL_SOURCE_DIR "/workflows/recipes"};
  if (site.config.node.gpus > 0 && name != "quickstart")
    request.sets = {format("params.ranks={}", 64 * site.config.node.gpus)};
  WorkflowOutcome outcome = plan_workflow(request, testing::DiskFiles());
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  EngineDevices engine;
  engine.build = [] { return EngineDevices::Build{EngineCuda::built_in, ""}; };
  engine.host_has_driver = [] { return false; };
  engine.no_gpu_here = [](int, bool) { return std::string("this host has none"); };
  std::vector<std::string> warnings;
  decide_devices(site, engine, true, outcome.plan, outcome.diagnostics, warnings);
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return outcome.plan;
}

Site golden_site(const std::string& name) {
  const std::vector<std::string> folders = {LONGHAUL_SOURCE_DIR "/site-configs"};
  auto site = load_site(name, folders);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  if (site->config.account_required) site = load_site(name, folders, {"account=\"project1\""});
  return *site;
}

// Every script of the workflow, by stage.
std::map<std::string, std::string> golden_scripts(const std::string& workflow, const Site& site) {
  const RunPlan plan = golden_workflow(workflow, site);
  Diagnostics diagnostics;
  const std::vector<JobPlan> jobs = plan_jobs(site, plan, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  std::map<std::string, std::string> scripts;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    JobScriptContext context;
    context.run = plan.workflow + "-20260302-041109-8f3a";
    context.stage = plan.stages[i].id();
    context.run_dir = "/scratch/project1/runs/" + context.run;
    context.worker = "/projects/project1/longhaul/bin/longhaul-worker";
    context.attempt_dir = context.run_dir + "/stages/" + context.stage + "/attempts/1";
    auto script = job_script(jobs[i], context);
    REQUIRE_MESSAGE(script.ok(), script.error().message());
    scripts[context.stage] = *script;
  }
  return scripts;
}

void compare_golden(const std::string& path, const std::string& text) {
  if (std::getenv("LONGHAUL_UPDATE_GOLDEN")) {
    make_directories(parent_path(path)).value();
    write_file_atomic(path, text).value();
    return;
  }
  const auto golden = read_file(path);
  REQUIRE_MESSAGE(golden.ok(), golden.error().message());
  CHECK_MESSAGE(*golden == text, (path + " differs; LONGHAUL_UPDATE_GOLDEN=1 writes it anew\n" + text));
}

// Parents and what has no scheduler of its own have no golden scripts.
std::vector<std::string> golden_sites() {
  std::vector<std::string> names;
  for (const std::string& name : site_names({LONGHAUL_SOURCE_DIR "/site-configs"}))
    if (name != "local" && !starts_with(name, "gh200-") && !starts_with(name, "hgx-")) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("golden scripts: every site renders quickstart") {
  for (const std::string& name : golden_sites()) {
    CAPTURE(name);
    const auto scripts = golden_scripts("quickstart", golden_site(name));
    CHECK(scripts.size() == 11);
    for (const char* stage : {"corpus", "pretrain"})
      compare_golden(join_path(golden_root, name + "/quickstart-" + stage + ".sbatch"), scripts.at(stage));
  }
}

TEST_CASE("golden scripts: every site with 64 nodes renders an 8B pretraining on them") {
  int count = 0;
  for (const std::string& name : golden_sites()) {
    if (name == "test-cluster") continue;
    CAPTURE(name);
    const auto scripts = golden_scripts("examples/8b-64-nodes", golden_site(name));
    compare_golden(join_path(golden_root, name + "/8b-pretrain.sbatch"), scripts.at("pretrain"));
    CHECK(scripts.at("pretrain").find("#SBATCH --nodes=64 ") != std::string::npos);
    ++count;
  }
  CHECK(count >= 16);
}

TEST_CASE("golden scripts: an array, a container, modules, and values that look like shell") {
  Site site = golden_site("marenostrum5-acc");
  PlannedStage stage;
  stage.stage = "odd";
  stage.variant = "lr=1e-05";
  stage.kind = "command";
  stage.common.ranks = 8;
  stage.common.nodes = 2;
  JobOptions& job = stage.common.job;
  job.qos = "a b \"q\" 'x' \\ $(touch pwned) # \xc3\xb1";
  job.container = "docker://a b$(id)";
  job.modules = {"$(id)"};
  job.environment = {{"ODD", "two\nlines, 'quotes', $HOME, `id` and \xc3\xb1"}};
  job.resumable = "yes";
  job.options = {"--mail-user=me@example.org # nobody"};
  Diagnostics diagnostics;
  const JobPlan plan = plan_job(site, stage, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  JobScriptContext context;
  context.run = "odd-20260302-041109-8f3a";
  context.stage = stage.id();
  context.run_dir = "/scratch/a 'b' $(c) 50%";
  context.worker = "/opt/long haul/bin/longhaul-worker";
  context.attempt_dir = context.run_dir + "/stages/odd/arrays/1";
  context.array = true;
  context.of_attempt = {{"exclude", "n[3-4]", "suspect nodes"}};
  compare_golden(join_path(golden_root, "odd-values.sbatch"), job_script(plan, context).value());
}

TEST_CASE("golden scripts: several programs in one job, on nodes of their own and side by side") {
  WorkflowRequest request;
  request.path = "steps.toml";
  request.folder = "/somewhere";
  const auto script_of = [&](const std::string& site_name, const std::string& nodes, const std::string& more) {
    request.text =
        "[workflow]\nname = \"steps\"\n[stage.rl]\nkind = \"command\"\ntime_limit = \"2h\"\n[stage.rl.step.actor]\n"
        "script = 'serve'\nranks = 1\nservice = true\n" +
        more + (nodes.empty() ? "" : "nodes = 1\n") + "[stage.rl.step.learner]\nscript = 'train'\n" +
        (nodes.empty() ? "ranks = 3\n" : "ranks = 8\nnodes = " + nodes + "\n");
    const WorkflowOutcome outcome = plan_workflow(request, testing::DiskFiles());
    REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
    Diagnostics diagnostics;
    const JobPlan plan = plan_job(golden_site(site_name), outcome.plan.stages[0], diagnostics);
    REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
    JobScriptContext context;
    context.run = "steps-20260302-041109-8f3a";
    context.stage = "rl";
    context.run_dir = "/scratch/project1/runs/" + context.run;
    context.worker = "/projects/project1/longhaul/bin/longhaul-worker";
    context.attempt_dir = context.run_dir + "/stages/rl/attempts/1";
    return job_script(plan, context).value();
  };
  compare_golden(join_path(golden_root, "steps-own-nodes.sbatch"), script_of("marenostrum5-acc", "2", ""));
  compare_golden(join_path(golden_root, "steps-side-by-side.sbatch"), script_of("leonardo-booster", "", ""));
  compare_golden(join_path(golden_root, "steps-test-cluster.sbatch"), script_of("test-cluster", "2", "threads = 2\n"));
}

TEST_CASE("golden scripts: a container of every runtime, with what the run itself mounts") {
  for (const char* runtime : {"pyxis", "cscs-edf", "apptainer", "singularity", "podman-hpc", "shifter"}) {
    Site site = golden_site("test-cluster");
    site.config.container.runtime = runtime;
    site.config.container.mounts = {"/site-data:/site-data"};
    PlannedStage stage;
    stage.stage = "contained";
    stage.kind = "command";
    stage.common.nodes = 2, stage.common.ranks = 8;
    stage.common.job.container = "registry.example.org/image:1";
    if (runtime != std::string("cscs-edf")) stage.common.job.mounts = {"/mine:/mine:ro"};
    Diagnostics diagnostics;
    JobPlan plan = plan_job(site, stage, diagnostics);
    REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
    // Folders that every machine has, none of which is a link.
    REQUIRE(mount_own_folders(plan, site.config, {"/usr/share", "/usr/include", "", {"/etc/passwd"}}).ok());
    JobScriptContext context;
    context.run = "contained-20260302-041109-8f3a";
    context.stage = "contained";
    context.run_dir = "/scratch/runs/" + context.run;
    context.worker = context.run_dir + "/bin/longhaul-worker";
    context.attempt_dir = context.run_dir + "/stages/contained/attempts/1";
    compare_golden(join_path(golden_root, format("containers/{}.sbatch", runtime)), job_script(plan, context).value());
  }
}

}  // namespace longhaul
