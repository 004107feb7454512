#include "orchestrator/forecast/serving_request.h"

#include <doctest/doctest.h>

#include "base/toml.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/size_request.h"
#include "orchestrator/render/plan/plan_html.h"
#include "orchestrator/render/plan/serving_text.h"
#include "orchestrator/render/plan/size_text.h"
#include "tests/support/made_up_serving.h"

namespace longhaul {
namespace {

namespace serving_request_test {

const TimeConstants& constants() {
  static const TimeConstants all =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return all;
}

PlannedStage stage_of(const std::string& name, const std::string& kind, const std::string& input,
                      const std::string& from) {
  PlannedStage stage;
  stage.stage = name, stage.kind = kind;
  stage.settings = Value::make_table();
  if (!input.empty()) {
    PlannedInput one;
    one.name = input;
    (from.find('/') == std::string::npos ? one.stages : one.paths) = {from};
    stage.inputs.push_back(one);
  }
  return stage;
}

// tokenize, pretrain, sft, quantize, deploy.
RunPlan plan_of(const std::string& deploy_settings) {
  RunPlan plan;
  plan.workflow = "test";
  plan.stages = {stage_of("tokens", "tokenize", "", ""), stage_of("pretrain", "pretrain", "tokens", "tokens"),
                 stage_of("sft", "sft", "model", "pretrain"), stage_of("quantize", "quantize", "model", "sft"),
                 stage_of("deploy", "deploy", "model", "quantize")};
  plan.stages[0].settings.set("vocabulary", 128256);
  PretrainSettings pretrain;
  ModelShape& m = pretrain.model;
  m.hidden_size = 4096, m.intermediate_size = 14336, m.num_hidden_layers = 32, m.num_attention_heads = 32;
  m.num_key_value_heads = 8, m.max_position_embeddings = 8192, m.tie_word_embeddings = false;
  plan.stages[1].settings = pretrain_fields().to_value(pretrain);
  plan.stages[4].settings = parse_toml(deploy_settings, "").value();
  return plan;
}

SiteConfig gpu_site(const std::string& gpu) {
  SiteConfig site;
  site.name = "somewhere", site.node.gpu = gpu, site.node.gpus = 4, site.network.nics = 4, site.network.nic_gbit = 200;
  return site;
}

TEST_CASE("the model of a server is followed back to the pretraining that makes it") {
  RunPlan plan = plan_of("slots = 8");
  const auto model = model_behind(plan, plan.stages[4]);
  REQUIRE_MESSAGE(model.ok(), model.error().message());
  CHECK(model->shape.hidden_size == 4096);
  CHECK(model->shape.vocab_size == 128256);
  CHECK(model->int8);
  plan.stages[4].inputs[0].stages = {"sft"};
  CHECK(!model_behind(plan, plan.stages[4])->int8);
  plan.stages[2].inputs[0] = {};
  plan.stages[2].inputs[0].name = "model", plan.stages[2].inputs[0].paths = {"/models/x"};
  const auto path = model_behind(plan, plan.stages[4]);
  REQUIRE(!path.ok());
  CHECK(path.error().message().find("there is no /models/x/config.json") != std::string::npos);
  RunPlan blind = plan_of("");
  blind.stages[0].kind = "command";
  CHECK(model_behind(blind, blind.stages[4]).error().message().find("vocabulary") != std::string::npos);
}

TEST_CASE("a plan says what its server holds and brings; int8 holds less than bf16") {
  RunPlan plan = plan_of("slots = 8\nmax_tokens = 512");
  const auto int8 = plan_serving_forecasts(plan, gpu_site("NVIDIA H100 80GB"), constants());
  plan.stages[4].inputs[0].stages = {"sft"};
  const auto bf16 = plan_serving_forecasts(plan, gpu_site("NVIDIA H100 80GB"), constants());
  REQUIRE(int8.size() == 1);
  REQUIRE_MESSAGE(int8[0].problem.empty(), int8[0].problem);
  CHECK(int8[0].stage == "deploy");
  CHECK(int8[0].fits());
  CHECK(int8[0].server.token_rate > 100);
  CHECK(int8[0].task.answer_tokens == 512);
  CHECK(int8[0].task.context() == 8192);
  CHECK(int8[0].memory < bf16[0].memory);
  // 8 slots of 8192 tokens, 128 KiB of keys and values each.
  CHECK(bf16[0].memory - bf16[0].server.memory.held() == doctest::Approx(8.0 * 8192 * 32 * 2 * 8 * 128 * 2));
  const std::string text = serving_forecast_text(bf16);
  CHECK(text.find("8 slots, bf16 weights") != std::string::npos);
  CHECK(text.find("slots of 8192 tokens") != std::string::npos);
  CHECK(serving_forecast_value(bf16).as_array().front().find("server")->get_bool("fits"));
  const std::string page = plan_html(plan, "somewhere", {}, bf16, 0);
  CHECK(page.find("Servers, as predicted") != std::string::npos);
}

TEST_CASE("of slots that do not fit it is said by how much, with the number that does") {
  const RunPlan plan = plan_of("slots = 1000");
  const auto made = plan_serving_forecasts(plan, gpu_site("NVIDIA H100 80GB"), constants());
  CHECK(!made[0].fits());
  CHECK(made[0].memory > made[0].memory_limit);
  const std::string text = serving_forecast_text(made);
  CHECK_MESSAGE(text.find("more memory than there is; slots = ") != std::string::npos, text);
  RunPlan fewer = plan_of("slots = " + std::to_string(made[0].server.slots_fit));
  CHECK(plan_serving_forecasts(fewer, gpu_site("NVIDIA H100 80GB"), constants())[0].fits());
}

TEST_CASE("on processors there is a forecast too; an unknown GPU asks for its four numbers") {
  SiteConfig site;
  site.node.cores = 4;
  const auto cpu = plan_serving_forecasts(plan_of("slots = 2\nprecision = \"f32\""), site, constants());
  REQUIRE_MESSAGE(cpu[0].problem.empty(), cpu[0].problem);
  CHECK(cpu[0].memory_limit == 0);
  CHECK(cpu[0].fits());
  CHECK(cpu[0].device.find("4 cores") != std::string::npos);
  const auto unknown = plan_serving_forecasts(plan_of(""), gpu_site("Gaudi 3"), constants());
  for (const char* key : {"node.gpu_tflops", "node.gpu_memory", "network.gpu_memory_gbyte", "network.gpu_link_gbyte"})
    CHECK(unknown[0].problem.find(key) != std::string::npos);
}

TEST_CASE("a server on a processor that was measured is forecast from that, others by arithmetic") {
  TimeConstants measured = constants();
  MeasuredProcessor rank;
  rank.key = RankUse{1, 4, "bf16"}.text(), rank.serving = testing::made_up_serving();
  rank.rank = measured.gpu_named("one core of a processor").value(), rank.common = measured.processors;
  rank.rank.key = rank.key, rank.rank.measured = true;
  measured.measured_processors = {rank};
  SiteConfig site;
  site.node.cores = 4;
  RunPlan plan = plan_of("slots = 2");
  plan.stages[4].inputs[0].stages = {"sft"};
  const auto forecast = [&](const TimeConstants& all) { return plan_serving_forecasts(plan, site, all).front(); };
  const ServingForecast known = forecast(measured), guessed = forecast(constants());
  REQUIRE_MESSAGE(known.problem.empty(), known.problem);
  CHECK(known.source == ForecastSource::measured_here);
  CHECK(guessed.source == ForecastSource::arithmetic);
  CHECK(known.high_rate() / known.low_rate() < guessed.high_rate() / guessed.low_rate());
  // A step of two answers reads more than 7e9 weights from memory, 0.82 ns each.
  CHECK(known.server.token_rate < 2 / (7e9 * 8.2e-10));
  plan.stages[4].inputs[0].stages = {"quantize"};
  const ServingForecast int8 = forecast(measured);
  CHECK(int8.source == ForecastSource::arithmetic);
  CHECK(serving_forecast_text({int8}).find("int8 weights were not timed") != std::string::npos);
  plan.stages[4].inputs[0].stages = {"sft"}, plan.stages[4].settings.set("precision", "f32");
  CHECK(forecast(measured).source == ForecastSource::arithmetic);
}

TEST_CASE("an answer says from what it is made, and between which tokens/s most such servers lie") {
  const PlannedStage pretrain = plan_of("").stages[1];
  ModelShape shape = pretrain_fields().parse(pretrain.settings, "").value().model;
  shape.vocab_size = 128256;
  ServingTask task;
  task.gpus = 4;
  std::vector<std::string> notes;
  const Cluster cluster = cluster_of(gpu_site("NVIDIA H100 80GB"), constants(), notes).value();
  const Value said = serving_plan_value(plan_serving(shape, task, cluster, constants()).value(), "");
  CHECK(said.get_string("from") == "measured_elsewhere");
  const Value& winner = *said.find("winner");
  CHECK(winner.get_number("tokens_per_second_low") < winner.get_number("tokens_per_second"));
  CHECK(winner.get_number("tokens_per_second_high") > winner.get_number("tokens_per_second"));
}

TEST_CASE("a question becomes a task; another GPU stands for the site's") {
  ServingRequest q;
  q.goal = "latency", q.itl_max = {0.03}, q.weights = {"bf16", "fp8"}, q.chunks = {2048, 512}, q.gpus = 4;
  const ServingTask task = serving_task_of(q).value();
  CHECK(task.goal == ServingGoal::latency);
  CHECK(task.itl_max == 0.03);
  CHECK(task.weights == std::vector<WeightFormat>{WeightFormat::bf16, WeightFormat::fp8});
  CHECK(task.chunks == std::vector<int>{512, 2048});
  q.own_server = true;
  CHECK(serving_task_of(q)->tp == 1);
  SiteConfig site = gpu_site("NVIDIA A100 40GB");
  site.node.gpu_memory.value = 40'000'000'000;
  std::vector<std::string> notes;
  const Cluster cluster = cluster_of(site_with_gpu(site, "H100"), constants(), notes).value();
  CHECK(cluster.gpu.key == "h100");
  CHECK(cluster.gpu.memory > 70e9);
  CHECK(cluster.gpus_per_node == 8);
}

TEST_CASE("what a budget buys can be pasted: the stage that is printed is read again") {
  BudgetRequest q;
  q.days = 10, q.gpus = 32, q.gpu = "H100", q.sequence_length = 4096;
  std::string device;
  std::vector<std::string> notes;
  const auto question = size_request(q, SiteConfig(), constants(), device, notes);
  REQUIRE_MESSAGE(question.ok(), question.error().message());
  CHECK(device == "H100 as h100");
  const auto answer = size_training(*question);
  REQUIRE_MESSAGE(answer.ok(), answer.error().message());
  // A rate says from what it is, and between which bounds.
  CHECK(size_text(*answer, device, notes).find(sentence_of(ForecastSource::measured_elsewhere)) != std::string::npos);
  const Value said = size_value(*answer, device, notes, "");
  const Value& laid_out = *said.find("layout");
  CHECK(laid_out.get_string("from") == "measured_elsewhere");
  CHECK(laid_out.get_number("step_seconds_low") < answer->layout->seconds());
  CHECK(laid_out.get_number("step_seconds_high") > answer->layout->seconds());
  const auto toml = parse_toml(size_toml(*answer, question->gpus_per_node), "size.toml");
  REQUIRE_MESSAGE(toml.ok(), toml.error().message());
  Value stage = *toml->find("stage")->find("pretrain");
  CHECK(stage.get_integer("nodes") == 4);
  for (const char* key : {"kind", "inputs", "ranks", "nodes", "parallel"}) {
    CHECK(stage.find(key));
    stage.erase(key);
  }
  Diagnostics problems;
  const PretrainSettings settings = pretrain_fields().parse(stage, "stage.pretrain", problems);
  CHECK_MESSAGE(problems.empty(), problems.render(""));
  CHECK(resolve_shape(settings.model).value() == answer->task.shape);
  CHECK(settings.steps == answer->steps);
  CHECK(!settings.low_precision.on());
  q.precision = "fp8";
  const auto fewer_bits = size_training(size_request(q, SiteConfig(), constants(), device, notes).value());
  REQUIRE(fewer_bits.ok());
  CHECK(size_toml(*fewer_bits, 8).find("low_precision = { recipe = \"delayed\" }") != std::string::npos);
  SiteConfig none;
  CHECK(!size_request(BudgetRequest(), none, constants(), device, notes)->where);
}

}  // namespace serving_request_test
}  // namespace
}  // namespace longhaul
