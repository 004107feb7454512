// Every shipped workflow at every shipped site: the device that the plan names for each stage and the directives of
// its script agree. What a site has is read from its file here, not asked of the code that plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/files/files.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/preflight/stage_device.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

const std::string shipped_root = LONGHAUL_SOURCE_DIR;

std::vector<std::string> workflows_shipped() {
  std::vector<std::string> paths;
  for (const char* folder :
       {"workflows", "workflows/examples", "workflows/examples/pytorch", "workflows/examples/existing-scripts"}) {
    const auto names = list_directory(join_path(shipped_root, folder));
    REQUIRE(names.ok());
    for (const std::string& name : *names)
      if (ends_with(name, ".toml")) paths.push_back(join_path(join_path(shipped_root, folder), name));
  }
  return paths;
}

Site site_shipped(const std::string& name) {
  const std::vector<std::string> folders = {shipped_root + "/site-configs"};
  auto site = load_site(name, folders);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  if (site->config.account_required) site = load_site(name, folders, {"account=\"project1\""});
  return *site;
}

RunPlan plan_shipped(const std::string& path, const Site& site) {
  WorkflowRequest request;
  request.text = read_file(path).value();
  request.path = path;
  request.folder = parent_path(path);
  request.site = site.values;
  request.recipe_folders = {shipped_root + "/workflows/recipes"};
  if (ends_with(path, "8b-64-nodes.toml"))
    request.sets = {format("params.ranks={}", 64 * std::max(1, site.config.node.gpus))};
  WorkflowOutcome outcome = plan_workflow(request, testing::DiskFiles());
  REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
  return std::move(outcome.plan);
}

EngineDevices engine_of_site() {
  EngineDevices engine;
  engine.build = [] { return EngineDevices::Build{EngineCuda::built_in, ""}; };
  engine.host_has_driver = [] { return false; };
  engine.no_gpu_here = [](int, bool) { return std::string("this host has none"); };
  return engine;
}

// The value of `#SBATCH --option=value`, without the remark behind it.
std::optional<std::string> directive_in(const std::string& script, const std::string& option) {
  for (const std::string& line : split(script, '\n')) {
    const std::string begin = "#SBATCH --" + option + "=";
    if (starts_with(line, begin)) return trim(line.substr(begin.size(), line.find(" #", begin.size()) - begin.size()));
  }
  return std::nullopt;
}

// GPUs of one node that the script asks for.
int gpus_in(const std::string& script, int nodes, int ranks_per_node) {
  const auto count = [](const std::string& value) {
    return std::atoi(value.substr(value.rfind(':') == std::string::npos ? 0 : value.rfind(':') + 1).c_str());
  };
  if (const auto gres = directive_in(script, "gres"))
    for (const std::string& one : split(*gres, ','))
      if (starts_with(one, "gpu:")) return count(one);
  if (const auto one = directive_in(script, "gpus-per-node")) return count(*one);
  if (const auto one = directive_in(script, "gpus")) return count(*one) / nodes;
  if (const auto one = directive_in(script, "gpus-per-task")) return count(*one) * ranks_per_node;
  return 0;
}

// Classes of the file that have no GPUs, are for stages, and take so many nodes.
std::vector<const Value*> processor_classes(const Site& site, int nodes) {
  std::vector<const Value*> found;
  const Value* classes = site.values.find("classes");
  if (!classes) return found;
  for (const ValueMember& member : classes->as_table()) {
    if (member.value.get_integer("gpus_per_node", -1) != 0) continue;
    if (const auto most = member.value.get_integer("max_nodes"); most > 0 && nodes > most) continue;
    const Value* kinds = member.value.find("kinds");
    bool for_stages = !kinds || kinds->size() == 0;
    if (kinds)
      for (const Value& kind : kinds->as_array())
        for_stages |= kind.as_string() != "driver" && kind.as_string() != "transfer";
    if (for_stages) found.push_back(&member.value);
  }
  return found;
}

// The script goes by the route of one of them.
bool is_routed_to(const std::vector<const Value*>& classes, const std::string& script) {
  return std::any_of(classes.begin(), classes.end(), [&](const Value* one) {
    for (const char* key : {"partition", "qos", "constraint"})
      if (directive_in(script, key).value_or("") != one->get_string(key)) return false;
    return true;
  });
}

struct DeviceCounts {
  int gpu = 0, cpu = 0, without_class = 0;
};

void compare_stage(const Site& site, const PlannedStage& stage, const JobPlan& job,
                   const std::vector<std::string>& warnings, DeviceCounts& counts) {
  CAPTURE(stage.id());
  const std::string planned =
      run_plan_to_value({"w", 0, {stage}}).find("stage")->find(stage.id())->get_string("device");
  CHECK((planned == "gpu" || planned == "cpu"));
  const Value& of_task = make_task(stage, "run", {}, 8).settings;
  if (of_task.find("device")) CHECK(of_task.get_string("device") == planned);
  if (!site.config.is_slurm()) {
    CHECK(planned == "cpu");
    ++counts.cpu;
    return;
  }
  JobScriptContext context{"run", stage.id(), "/runs/run", "/bin/longhaul-worker", "/runs/run/attempts/1", false, {}};
  const auto script = job_script(job, context);
  REQUIRE_MESSAGE(script.ok(), script.error().message());
  const bool come_with_nodes = site.config.ask.gpu_request == "none";
  const int gpus = gpus_in(*script, job.nodes, job.ranks_per_node);
  const auto classes = processor_classes(site, job.nodes);
  if (planned == "gpu") {
    ++counts.gpu;
    const bool enough = stage.kind == "command" ? gpus > 0 : gpus >= job.ranks_per_node;
    CHECK_MESSAGE((come_with_nodes ? !is_routed_to(classes, *script) : enough), *script);
    return;
  }
  ++counts.cpu;
  if (!classes.empty()) {
    CHECK_MESSAGE(gpus == 0, *script);
    CHECK_MESSAGE(is_routed_to(classes, *script), *script);
  } else if (site.config.node.gpus > 0 && stage.common.job.gpus_per_node != 0) {  // else the stage says so itself
    ++counts.without_class;
    CHECK(std::any_of(warnings.begin(), warnings.end(), [&](const std::string& one) {
      return starts_with(one, stage.stage + " computes on processors in a job that has GPUs");
    }));
  } else {
    CHECK(gpus == 0);
  }
}

}  // namespace

TEST_CASE("every shipped workflow at every shipped site: the plan's devices and the scripts' directives agree") {
  const std::vector<std::string> workflows = workflows_shipped();
  const std::vector<std::string> sites = site_names({shipped_root + "/site-configs"});
  DeviceCounts counts;
  for (const std::string& name : sites) {
    const Site site = site_shipped(name);
    const bool runs_cuda = site.config.is_slurm() && site.config.node.gpus > 0 && site.config.can.cuda != "no";
    for (const std::string& path : workflows) {
      CAPTURE(name);
      CAPTURE(path);
      RunPlan plan = plan_shipped(path, site);
      Diagnostics diagnostics;
      std::vector<std::string> warnings;
      decide_devices(site, engine_of_site(), false, plan, diagnostics, warnings);
      REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
      const std::vector<JobPlan> jobs = plan_jobs(site, plan, diagnostics);
      if (name == "test-cluster" && ends_with(path, "8b-64-nodes.toml")) {  // which has four
        CHECK(diagnostics.render("").find("at most 4 nodes") != std::string::npos);
        continue;
      }
      REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
      for (std::size_t i = 0; i < jobs.size(); ++i) compare_stage(site, plan.stages[i], jobs[i], warnings, counts);
      for (const PlannedStage& stage : plan.stages)
        if (stage.kind == "pretrain") CHECK(stage.device == (runs_cuda ? "gpu" : "cpu"));
    }
  }
  print(stdout, "{} workflows x {} sites: {} stages on GPUs, {} on processors, {} of them where no class is without\n",
        workflows.size(), sites.size(), counts.gpu, counts.cpu, counts.without_class);
  CHECK(workflows.size() >= 7);
  CHECK(sites.size() >= 20);
  CHECK(counts.gpu >= 80);
  CHECK(counts.cpu >= 100);
  CHECK(counts.without_class < counts.cpu);
}

}  // namespace longhaul
