// From a person's question, or a planned `deploy` stage, and a site to what the serving plan is asked
// (autotune/inference/serving_plan.h). Pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/inference/serving_forecast.h"
#include "autotune/inference/serving_plan.h"
#include "contracts/schema/field_table.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// What `longhaul serving` is asked; every key may stand in a file or on the command line.
struct ServingRequest {
  std::string recipe;  // of the model's shape; `model` goes over it
  std::string folder;  // of a model that is there already, instead
  ModelShape model;
  std::string gpu;
  std::int64_t prompt_tokens = 1024, answer_tokens = 256, context_length = 0;
  std::string goal = "throughput";
  double request_rate = 0;
  int concurrency = 1;
  Seconds ttft_max{0}, itl_max{0};
  double percentile = 0.95;
  int gpus = 1, tp = 0;
  std::vector<std::string> weights = {"bf16"}, caches = {"bf16"};
  std::vector<std::int64_t> chunks;
  int slots_max = 1024;
  double memory_reserve = 0.10;
  bool own_server = false;
};
const FieldTable<ServingRequest>& serving_request_fields();

// invalid_input: formats that there are not, all of them together.
Result<ServingTask> serving_task_of(const ServingRequest& question);

// The shape of the model that a stage takes as its input, as far as the plan knows it: through every stage between, to
// the pretraining that makes it. `int8`: a quantize stage is on the way. A folder of a
// model is read. unsupported: a shape that depends on what is not there yet; the error says what. Errors of a folder:
// as imported_shape has them (orchestrator/workflow/layout/imported_model.h).
struct ModelBehind {
  ModelShape shape;  // resolved, with its vocabulary
  bool int8 = false;
};
Result<ModelBehind> model_behind(const RunPlan& plan, const PlannedStage& stage);

// One for each `deploy` stage, in plan order; what cannot be predicted says why.
std::vector<ServingForecast> plan_serving_forecasts(const RunPlan& plan, const SiteConfig& site,
                                                    const TimeConstants& constants);

}  // namespace longhaul
