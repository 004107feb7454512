#include "orchestrator/preflight/promised_gpus.h"

#include <doctest/doctest.h>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

Site promising_site(const std::string& more) {
  const std::string folder = "/tmp/longhaul-promise-test-" + random_hex(6).value();
  make_directories(folder).value();
  write_file_atomic(folder + "/acc.toml",
                    "name = \"acc\"\nscheduler = \"slurm\"\ndefault_class = \"prod\"\n[node]\ncores = 8\ngpus = 8\n"
                    "[ask]\ngpu_request = \"gres\"\n[classes.prod]\npartition = \"main\"\n" +
                        more)
      .value();
  auto site = load_site(folder + "/acc.toml", {});
  (void)remove_tree(folder);
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

std::string promise_problems(const Site& site, int ranks, const std::string& gres, int asked = -1) {
  RunPlan plan;
  plan.stages.resize(2);
  for (PlannedStage& stage : plan.stages) {
    stage.stage = "train", stage.kind = "command", stage.common.ranks = ranks;
    stage.common.job.gpus_per_node = asked;
    stage.where = {"w.toml", 3, 1};
  }
  Diagnostics diagnostics;
  const std::vector<JobPlan> jobs = plan_jobs(site, plan, diagnostics);
  REQUIRE_MESSAGE(diagnostics.empty(), diagnostics.render(""));
  SlurmPartition main;
  main.name = "main", main.is_default = true;
  SlurmNode node, other;
  node.name = "n1", node.partitions = "main,short", node.gres = gres;
  other.name = "n2", other.partitions = "big", other.gres = "gpu:h100:16";
  check_promised_gpus(site, plan, jobs, {main}, {node, other}, diagnostics);
  return diagnostics.empty() ? "" : diagnostics.render("");
}

bool promise_text_has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a site file that promises more GPUs than the nodes have is named with place and remedy, once") {
  const Site site = promising_site("");
  const std::string reported = promise_problems(site, 8, "gpu:a100:4(S:0-1)");
  CAPTURE(reported);
  CHECK(
      promise_text_has(reported,
                       "acc.toml:6:8: error: site 'acc': node.gpus = 8, and the nodes of partition main have at most 4 "
                       "GPUs, as slurmctld says; write 4; `longhaul doctor --site acc`"));
  CHECK(promise_text_has(reported, "1 error"));
  CHECK(promise_problems(site, 4, "gpu:a100:4") == "");  // a job that asks for no more than there are
  CHECK(promise_problems(site, 8, "gpu:8") == "");
  CHECK(promise_text_has(promise_problems(site, 1, ""), "the nodes of partition main have no GPUs"));
  const std::string of_class = promise_problems(promising_site("gpus_per_node = 6\n"), 8, "gpu:4");
  CHECK(promise_text_has(of_class, "acc.toml:11:17: error: site 'acc': classes.prod.gpus_per_node = 6"));
  const std::string of_stage = promise_problems(site, 2, "gpu:1", 2);
  CHECK(promise_text_has(of_stage, "w.toml:3:1: error: stage.train.job.gpus_per_node = 2"));
}

TEST_CASE("of jobs that a filter routes, and of nodes that come with their GPUs, nothing is said") {
  const Site routed = promising_site("[classes.by_qos]\nqos = \"gpu\"\n");
  Site by_qos = routed;
  by_qos.config.default_class = "by_qos";
  CHECK(promise_problems(by_qos, 8, "gpu:1") == "");
  Site whole = promising_site("");
  whole.config.ask.gpu_request = "none";
  CHECK(promise_problems(whole, 8, "gpu:1") == "");
}

}  // namespace longhaul
