// The workflow of a calibration is one that the planner takes, at every size; what a finished run left is read with
// everything that is missing or damaged named.
#include "orchestrator/trials/calibration_run.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/benchmark_result.h"
#include "orchestrator/workflow/planner.h"
#include "orchestrator/workflow/source/file_view.h"

namespace longhaul {
namespace {

namespace calibration_run_test {

class CalibrationFolder {
 public:
  CalibrationFolder() {
    char name[] = "/tmp/longhaul-calibration-XXXXXX";
    path = ::mkdtemp(name);
    REQUIRE(make_directories(path + "/corpus").ok());
    REQUIRE(write_file_atomic(path + "/corpus/documents.jsonl", calibration_documents()).ok());
  }
  ~CalibrationFolder() { [[maybe_unused]] const Status removed = remove_tree(path); }

  RunPlan plan(const CalibrationSite& site) const {
    WorkflowRequest request;
    request.text = calibration_workflow(plan_calibration(site).value(), site, "calibrate-x", path + "/corpus");
    request.path = "workflow.toml", request.folder = path, request.can_search_layouts = true;
    WorkflowOutcome outcome = plan_workflow(request, SystemFileView());
    REQUIRE_MESSAGE(outcome.diagnostics.empty(), outcome.diagnostics.render(""));
    std::erase_if(outcome.plan.stages, [](const PlannedStage& stage) { return stage.kind == "pretrain"; });
    return outcome.plan;
  }

  std::string path;
};

TEST_CASE("the planner takes the workflow, whose stages come one after the other") {
  const CalibrationFolder folder;
  for (const CalibrationSite& site :
       {CalibrationSite{1, 1, 1}, CalibrationSite{2, 1, 1}, CalibrationSite{2, 2, 2}, CalibrationSite{4, 1, 2}}) {
    CAPTURE(site.ranks);
    const RunPlan plan = folder.plan(site);
    CHECK(plan.stages.size() == (site.nodes > 1 ? 6 : 5));
    for (std::size_t i = 1; i < plan.stages.size(); ++i)
      CHECK(std::count(plan.stages[i].needs.begin(), plan.stages[i].needs.end(), plan.stages[i - 1].id()) == 1);
    CHECK(plan.stages.back().common.nodes == site.nodes);
    CHECK(plan.stages.back().common.threads == site.threads);
  }
}

TEST_CASE("what was measured is read, and what is missing or damaged is named") {
  const CalibrationFolder folder;
  const CalibrationSite asked{2, 1, 1};
  FrozenRun run;
  run.plan = folder.plan(asked);
  const TimeConstants constants =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  std::size_t trainings = 0;
  for (const PlannedStage& stage : run.plan.stages) {
    const std::string at = stage_folder(folder.path, stage.id());
    REQUIRE(make_directories(at + "/out").ok());
    if (stage.kind == "benchmark") {
      BenchmarkResults results;
      results.ranks = 2;
      results.results = {{"product", "bf16", 128, 256, 64, 0, 1e-4, 9},
                         {"stream", "", 0, 0, 0, 24'000'000, 1e-3, 9},
                         {"send", "", 0, 0, 0, 1'000'000, 1e-3, 9},
                         {"dream", "", 0, 0, 0, 8, 1e-3, 9}};
      REQUIRE(write_file_atomic(at + "/out/benchmark.json", to_json_pretty(benchmark_to_value(results))).ok());
    }
    if (stage.kind != "tune" || stage.id() == "head-steps") continue;  // that one left nothing
    Value list = Value::make_array();
    const Value* candidates = stage.settings.find("candidates");
    for (std::size_t i = 0; i < candidates->size(); ++i) {
      if (i == 3) continue;  // never run
      Value entry = Value::make_table();
      entry.set("name", candidates->as_array()[i].get_string("name"));
      entry.set("outcome", i == 0 ? "crash" : "measured"), entry.set("why", "it broke"),
          entry.set("step_seconds", 0.25);
      trainings += i == 0 ? 0 : 1;
      list.push_back(std::move(entry));
    }
    Value document = Value::make_table();
    document.set("trials", std::move(list));
    REQUIRE(write_file_atomic(at + "/trials.json", to_json_pretty(document)).ok());
  }
  SiteConfig site;
  site.node.cores = 2;
  const CalibrationEvidence evidence = read_calibration(folder.path, run, site, constants, asked).value();
  CHECK(evidence.measured.trainings.size() == trainings);
  for (const TimedRun& training : evidence.measured.trainings) {
    CHECK(training.seconds == 0.25);
    CHECK(training.predicted(constants) > 0);
  }
  CHECK(evidence.measured.parts.size() == 2);  // a product and a message
  const auto rate = [&](const std::string& path) {
    for (const MeasuredRate& one : evidence.measured.rates)
      if (one.path == path) return one.value;
    return 0.0;
  };
  CHECK(rate("gpu.cpu-core.memory_rate") == doctest::Approx(24));
  CHECK(rate("gpu.cpu-core.link_rate") == doctest::Approx(1));
  CHECK(rate("gpu.cpu-core.peak_bf16") == doctest::Approx(2.0 * 128 * 256 * 64 / 1e-4 / 1e12));
  CHECK(rate("gpu.cpu-core.peak_f32") == 0);
  const std::string aside = join(evidence.set_aside, "\n");
  for (const char* part : {"it broke", "it was not run", "head-steps: ", "dream"})
    CHECK_MESSAGE(aside.find(part) != std::string::npos, part << " in " << aside);
}

}  // namespace calibration_run_test
}  // namespace
}  // namespace longhaul
