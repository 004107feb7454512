// Models that a workflow finds as folders: their shapes are known, strangers are refused before anything runs.
#include "orchestrator/workflow/layout/imported_model.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/serving_request.h"
#include "orchestrator/forecast/size_request.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace imported_model_test {

using testing::Scratch;

constexpr const char* mixtral = R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 1024,
  "intermediate_size": 3584, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8,
  "num_local_experts": 8, "num_experts_per_tok": 2})";

std::string folder_with(const Scratch& scratch, const std::string& name, const std::string& config) {
  const std::string folder = join_path(scratch.path(), name);
  REQUIRE(make_directories(folder).ok());
  REQUIRE(write_file_atomic(join_path(folder, "config.json"), config).ok());
  return folder;
}

RunPlan plan_with(const std::string& kind, const std::string& folder) {
  RunPlan plan;
  PlannedStage stage;
  stage.stage = "one", stage.kind = kind, stage.where = {"my.toml", 7, 1};
  stage.settings = Value::make_table();
  PlannedInput input;
  input.name = "model", input.paths = {folder};
  stage.inputs.push_back(input);
  plan.stages.push_back(std::move(stage));
  return plan;
}

TEST_CASE("a model that is there as a folder is known to forecasts of trainings, servers and sizes") {
  const Scratch scratch;
  const std::string folder = folder_with(scratch, "mixtral", mixtral);
  const RunPlan tuned = plan_with("sft", folder), served = plan_with("deploy", folder);
  const StageOrigins origins = origins_of(tuned, tuned.stages.front());
  REQUIRE(origins.model.has_value());
  CHECK(origins.model->num_local_experts == 8);
  CHECK(origins.model->vocab_size == 32000);
  const auto behind = model_behind(served, served.stages.front());
  REQUIRE_MESSAGE(behind.ok(), behind.error().message());
  CHECK(behind->shape == *origins.model);
  Diagnostics problems;
  check_imported_models(tuned, {}, problems);
  CHECK(problems.empty());

  BudgetRequest budget;
  budget.folder = folder, budget.tokens = 1e9, budget.days = 1, budget.gpus = 8;
  std::string device;
  std::vector<std::string> notes;
  const auto size = size_request(budget, {}, {}, device, notes);
  REQUIRE_MESSAGE(size.ok(), size.error().message());
  const auto answer = size_training(*size);
  REQUIRE_MESSAGE(answer.ok(), answer.error().message());
  CHECK(answer->task.shape == *origins.model);
  CHECK(answer->budget.parameters == static_cast<double>(origins.model->active_parameter_count()));
  budget.parameters = 1e9;
  CHECK(!size_request(budget, {}, {}, device, notes).ok());
}

TEST_CASE("a folder of an unknown family, or that is no model, is refused with its place and what there is") {
  const Scratch scratch;
  const std::string stranger = folder_with(scratch, "stranger", R"({"model_type": "qwen2", "hidden_size": 64})");
  Diagnostics problems;
  check_imported_models(plan_with("deploy", stranger), {}, problems);
  REQUIRE(problems.size() == 1);
  const std::string text = problems.render("nothing was submitted");
  CHECK(text.find("my.toml:7") != std::string::npos);
  CHECK(text.find(join_path(stranger, "config.json")) != std::string::npos);
  CHECK(text.find("config.json: model_type 'qwen2' is not supported; llama, mistral, mixtral and gpt2 are; vocab_size "
                  "is missing; ") != std::string::npos);
  CHECK(text.find("\n1 error;") != std::string::npos);

  Diagnostics empty;
  check_imported_models(plan_with("sft", scratch.path()), {}, empty);
  REQUIRE(empty.size() == 1);
  CHECK(empty.errors().front().message().find("config.json; a model is a folder with") != std::string::npos);

  Diagnostics none;  // a command may call an input as it likes
  check_imported_models(plan_with("command", stranger), {}, none);
  CHECK(none.empty());
}

}  // namespace imported_model_test

}  // namespace
}  // namespace longhaul
