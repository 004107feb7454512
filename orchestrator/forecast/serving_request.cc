#include "orchestrator/forecast/serving_request.h"

#include <algorithm>

#include "autotune/inference/processor_serving.h"
#include "autotune/time/processor_place.h"
#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/training/feature_table.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/layout/imported_model.h"

namespace longhaul {
namespace {

// What our server holds beside the model, on processors: program and libraries. Customary, not measured.
constexpr double cpu_server_base = 0.2e9;
constexpr std::int64_t usual_prompt = 1024;

const PlannedInput* model_input(const PlannedStage& stage) {
  for (const PlannedInput& input : stage.inputs)
    if (input.name == "model") return &input;
  return nullptr;
}

// Our server: one rank, a cache of the whole context in every slot.
Result<ServingForecast> deploy_forecast(const RunPlan& plan, const PlannedStage& stage, const SiteConfig& site,
                                        const TimeConstants& constants) {
  LH_TRY(const DeploySettings settings, deploy_fields().parse(stage.settings, ""));
  LH_TRY(const ModelBehind model, model_behind(plan, stage));
  std::vector<std::string> notes;
  if (stage.device == "gpu" && site.node.gpus == 0)
    return make_error(ErrorCode::not_found, format("site '{}' does not say what its GPUs are", site.name),
                      "write node.gpus and node.gpu into its file");
  const bool f32 = settings.precision == "f32";
  const RankUse use{1, rank_threads(site, stage.common.threads, 1), f32 ? "f32" : "bf16"};
  LH_TRY(RankPlace rank, rank_place(site, constants, may_use_gpus(stage), use, notes));
  if (auto asked = engine_case_of_stage(stage.kind, stage.settings, model.shape, stage.dims)) {
    asked->gpu = rank.on_gpus;
    LH_CHECK(check_engine(*asked));
  }
  Cluster& cluster = rank.place.cluster;

  ServingTask task;
  task.gpus = 1, task.tp = 1;
  task.context_length = model.shape.max_position_embeddings;
  task.answer_tokens =
      std::clamp<std::int64_t>(settings.max_tokens, 1, std::max<std::int64_t>(1, task.context_length / 2));
  task.prompt_tokens =
      std::clamp<std::int64_t>(usual_prompt, 1, std::max<std::int64_t>(1, task.context_length - task.answer_tokens));
  task.weights = {model.int8 ? WeightFormat::int8 : f32 ? WeightFormat::f32 : WeightFormat::bf16};
  task.caches = {f32 ? CacheFormat::f32 : CacheFormat::bf16};
  task.chunks = {256}, task.slots_max = std::max(1024, settings.slots), task.memory_reserve = 0;
  if (!rank.on_gpus) task.memory_base = cpu_server_base;
  const bool known = rank.memory_limit > 0;
  cluster.gpu.memory = known ? rank.memory_limit : 1e15;
  const ServingLayout layout{1, 1, task.weights.front(), task.caches.front(), settings.slots, 1, 256};
  ServingPlace place{cluster,
                     rank.place.common,
                     constants.serving,
                     rank.place.framework.attention_scale,
                     rank.place.framework.product_memory,
                     {}};
  // Steps of published servers cost a millisecond of Python's time; ours goes round in microseconds.
  if (!rank.on_gpus) place.serving.step_cost = 0;
  if (!rank.on_gpus)
    place.processor = processor_serving(constants, use.threads, f32 ? Precision::f32 : Precision::bf16);
  LH_TRY(ServingForecast made, forecast_serving(model.shape, task, layout, place));
  made.device = rank.device, made.source = rank.source;
  if (!rank.on_gpus && !is_timed_there(place, layout)) made.source = ForecastSource::arithmetic;
  if (!known) made.memory_limit = 0;
  if (!rank.on_gpus && place.processor.known() && model.int8)
    notes.emplace_back("products of int8 weights were not timed: a rough figure");
  if (!cluster.gpu.measured) notes.emplace_back("no run on such a processor was measured: a rough figure");
  made.notes = std::move(notes);
  return made;
}

}  // namespace

const FieldTable<ServingRequest>& serving_request_fields() {
  using Q = ServingRequest;
  static const auto table =
      FieldTable<Q>()
          .field("recipe", &Q::recipe, {.help = "recipe that has the model's shape, such as llama3-8b"})
          .field("folder", &Q::folder, {.help = "of a model that is there already, with config.json, instead"})
          .group("model", &Q::model, model_shape_fields(), "the model's shape, or what of the recipe's is otherwise")
          .field("gpu", &Q::gpu, {.help = "type of GPU instead of the site's, eight to a node: \"H100\""})
          .field("prompt_tokens", &Q::prompt_tokens, {.unit = "tokens", .help = "mean length of prompts", .min = 1})
          .field("answer_tokens", &Q::answer_tokens, {.unit = "tokens", .help = "mean length of answers", .min = 1})
          .field("context_length", &Q::context_length,
                 {.unit = "tokens", .help = "longest context that a slot has to carry; 0: prompt and answer", .min = 0})
          .field(
              "goal", &Q::goal,
              {.help = "most tokens/s under the targets, or the shortest answers for `concurrency` requests at a time",
               .choices = {"throughput", "latency"}})
          .field("request_rate", &Q::request_rate,
                 {.unit = "requests/s", .help = "that come at random; 0: all slots are always taken", .min = 0})
          .field("concurrency", &Q::concurrency,
                 {.unit = "requests", .help = "at a time, where the goal is latency", .min = 1})
          .field("ttft_max", &Q::ttft_max, {.help = "target for the time to the first token; 0: none", .min = 0})
          .field("itl_max", &Q::itl_max, {.help = "target for the time between two tokens; 0: none", .min = 0})
          .field("percentile", &Q::percentile,
                 {.help = "share of tokens that has to meet the targets", .min = 0, .max = 1})
          .field("gpus", &Q::gpus, {.help = "GPUs that there are; as many replicas as they make", .min = 1})
          .field("tp", &Q::tp, {.help = "tensor parallelism; 0: free", .min = 0})
          .field("weights", &Q::weights,
                 {.help = "number formats of weights that may be used; fewer bits cost quality",
                  .choices = {"f32", "bf16", "fp8", "int8", "int4", "fp4"}})
          .field("caches", &Q::caches,
                 {.help = "number formats of the cache that may be used", .choices = {"f32", "bf16", "fp8", "int8"}})
          .field("chunks", &Q::chunks,
                 {.unit = "tokens", .help = "pieces of prompts per step to choose from; empty: 256 to 8192", .min = 1})
          .field("slots_max", &Q::slots_max, {.help = "most requests answered at a time", .min = 1})
          .field("memory_reserve", &Q::memory_reserve,
                 {.help = "share of a GPU's memory that stays free", .min = 0, .max = 0.95})
          .field("own_server", &Q::own_server,
                 {.help = "only what the deploy stage can do today: one rank, bf16 or int8 weights, 256 tokens of "
                          "prompts a step"});
  return table;
}

Result<ServingTask> serving_task_of(const ServingRequest& q) {
  ServingTask task;
  task.prompt_tokens = q.prompt_tokens, task.answer_tokens = q.answer_tokens, task.context_length = q.context_length;
  task.goal = q.goal == "latency" ? ServingGoal::latency : ServingGoal::throughput;
  task.request_rate = q.request_rate, task.concurrency = q.concurrency;
  task.ttft_max = q.ttft_max.value, task.itl_max = q.itl_max.value, task.percentile = q.percentile;
  task.gpus = q.gpus, task.tp = q.tp, task.slots_max = q.slots_max, task.memory_reserve = q.memory_reserve;
  task.weights.clear(), task.caches.clear();
  for (const std::string& name : q.weights) {
    LH_TRY(const WeightFormat one, parse_weight_format(name));
    task.weights.push_back(one);
  }
  for (const std::string& name : q.caches) {
    LH_TRY(const CacheFormat one, parse_cache_format(name));
    task.caches.push_back(one);
  }
  if (!q.chunks.empty()) task.chunks.assign(q.chunks.begin(), q.chunks.end());
  std::sort(task.chunks.begin(), task.chunks.end());
  if (q.own_server) limit_to_own_server(task);
  return task;
}

namespace {

// What a stage before this one leaves beside the weights of its model; nothing where that is not known.
AdapterLeft adapter_left_behind(const RunPlan& plan, const PlannedStage& stage) {
  const PlannedStage* at = &stage;
  for (std::size_t step = 0; step <= plan.stages.size(); ++step) {
    const PlannedInput* input = model_input(*at);
    if (!input || input->stages.empty()) return {};
    at = plan.find(input->stages.front());
    if (!at) return {};
    if (const AdapterLeft left = left_by_adapter(at->settings); left.any()) return left;
  }
  return {};
}

}  // namespace

Result<ModelBehind> model_behind(const RunPlan& plan, const PlannedStage& stage) {
  ModelBehind behind;
  const PlannedStage* at = &stage;
  for (std::size_t step = 0; step <= plan.stages.size(); ++step) {
    const PlannedInput* input = model_input(*at);
    if (at != &stage && !input && at->kind == "pretrain") {
      LH_TRY(const PretrainSettings settings, pretrain_fields().parse(at->settings, ""));
      LH_TRY(behind.shape, resolve_shape(settings.model));
      if (behind.shape.vocab_size == 0) behind.shape.vocab_size = vocabulary_behind(plan, *at);
      if (behind.shape.vocab_size == 0)
        return make_error(ErrorCode::unsupported, format("the vocabulary of stage {} is its tokenizer's", at->id()),
                          "with model.vocab_size the model is known before");
      adapter_left_behind(plan, stage).put_into(behind.shape);
      return behind;
    }
    if (const std::string folder = imported_folder(*at); !folder.empty()) {
      LH_TRY(behind.shape, imported_shape(folder));
      if (const AdapterLeft left = adapter_left_behind(plan, stage); left.any()) left.put_into(behind.shape);
      return behind;
    }
    if (!input || input->stages.empty())
      return make_error(ErrorCode::unsupported,
                        format("the model of stage {} is neither a stage's nor one folder", at->id()));
    at = plan.find(input->stages.front());
    if (!at) return make_error(ErrorCode::unsupported, "the plan does not have stage " + input->stages.front());
    if (at->kind == "quantize") behind.int8 = true;
  }
  return make_error(ErrorCode::internal, "stages that need each other");
}

std::vector<ServingForecast> plan_serving_forecasts(const RunPlan& plan, const SiteConfig& site,
                                                    const TimeConstants& constants) {
  std::vector<ServingForecast> forecasts;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.kind != "deploy") continue;
    auto made = deploy_forecast(plan, stage, site, constants);
    if (made.ok()) {
      forecasts.push_back(std::move(made).value());
    } else {
      forecasts.emplace_back();
      forecasts.back().problem = made.error().message();
    }
    forecasts.back().stage = stage.id();
  }
  return forecasts;
}

}  // namespace longhaul
