#include "orchestrator/preflight/plan_forecasts.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "autotune/inference/rollout_time.h"
#include "autotune/time/processor_place.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/plan/memory_plan.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/checkpoint_forecast.h"
#include "orchestrator/forecast/layout_request.h"
#include "orchestrator/forecast/stage_outline.h"
#include "orchestrator/render/plan/forecast_text.h"

namespace longhaul {
namespace {

namespace plan_forecasts_test {

const TimeConstants& constants() {
  static const TimeConstants all =
      read_time_constants(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml").value();
  return all;
}

// Llama 3 8B on so many ranks of data parallelism.
RunPlan plan_of(int ranks) {
  PretrainSettings settings;
  ModelShape& m = settings.model;
  m.hidden_size = 4096, m.intermediate_size = 14336, m.num_hidden_layers = 32, m.num_attention_heads = 32;
  m.num_key_value_heads = 8, m.max_position_embeddings = 8192, m.tie_word_embeddings = false;
  settings.sequence_length = 8192, settings.micro_batch_size = 1, settings.global_batch_size = 1024,
  settings.steps = 1000;
  PlannedStage tokens;
  tokens.stage = "tokens", tokens.kind = "tokenize";
  tokens.settings = Value::make_table();
  tokens.settings.set("vocabulary", 128256);
  PlannedStage stage;
  stage.stage = "pretrain", stage.kind = "pretrain", stage.settings = pretrain_fields().to_value(settings);
  stage.dims.dp_replicate = ranks, stage.common.ranks = ranks;
  PlannedInput input;
  input.name = "tokens", input.stages = {"tokens"};
  stage.inputs.push_back(input);
  RunPlan plan;
  plan.workflow = "test", plan.stages = {tokens, stage};
  return plan;
}

// One that fits, and of which no faster layout is looked for where that is not what the case is about.
RunPlan sharded_plan(int ranks) {
  RunPlan plan = plan_of(ranks);
  ParallelDims& d = plan.stages[1].dims;
  d.dp_replicate = 1, d.dp_shard = ranks, d.zero = 2;
  return plan;
}
constexpr ForecastSearch as_written = ForecastSearch::where_it_does_not_fit;

// A training of the model that the pretraining makes, on as many ranks.
PlannedStage behind_pretrain(const RunPlan& plan, const char* kind, Value settings) {
  PlannedStage stage = plan.stages[1];
  stage.stage = stage.kind = kind, stage.settings = std::move(settings);
  stage.inputs = {PlannedInput{}};
  stage.inputs.front().name = "model", stage.inputs.front().stages = {"pretrain"};
  return stage;
}

SiteConfig gpu_site(const std::string& gpu) {
  SiteConfig site;
  site.name = "somewhere", site.scheduler = "slurm";
  site.node.gpu = gpu, site.node.gpus = 4, site.network.nics = 4, site.network.nic_gbit = 200;
  return site;
}

TEST_CASE("of a training that does not fit it is said by how much, with the layout that would") {
  const auto forecasts = plan_forecasts(plan_of(256), gpu_site("NVIDIA H100 80GB"), {}, {constants()});
  REQUIRE(forecasts.size() == 1);
  const TrainingForecast& f = forecasts.front();
  CHECK(f.problem.empty());
  CHECK(f.memory > f.memory_limit);
  REQUIRE(f.better);
  CHECK(f.better->memory.total() <= f.memory_limit);
  const std::string text = forecast_text(forecasts);
  CHECK(text.find("more memory per rank") != std::string::npos);
  CHECK(text.find("the search finds") != std::string::npos);
  CHECK(text.find("vocabulary") == std::string::npos);  // it is known: the tokenizer's
}

TEST_CASE("time, tokens, GPU-hours and energy follow from each other") {
  const TrainingForecast f =
      plan_forecasts(sharded_plan(256), gpu_site("NVIDIA H100 80GB"), {}, {constants()}, as_written).front();
  CHECK(f.memory < f.memory_limit);
  CHECK(f.tokens_per_second == doctest::Approx(1024 * 8192 / f.seconds()));
  CHECK(f.gpu_hours == doctest::Approx(f.seconds() * 1000 * 256 / 3600));
  CHECK(f.energy_kwh == doctest::Approx(f.gpu_hours * 0.7));
  CHECK(f.low < f.seconds());
  CHECK(f.high > f.seconds());
  CHECK(f.utilisation > 0.25);
  CHECK(f.utilisation < 0.6);
  const Value json = forecast_value({f});
  CHECK(json.as_array().front().get_number("gpu_hours") == doctest::Approx(f.gpu_hours));
}

TEST_CASE("a forecast says what it is made from, and energy whose power it is") {
  const RunPlan plan = sharded_plan(256);
  const TrainingForecast known =
      plan_forecasts(plan, gpu_site("NVIDIA H100 80GB"), {}, {constants()}, as_written).front();
  CHECK(known.source == ForecastSource::measured_elsewhere);
  CHECK(forecast_text({known}).find("from what others measured of such devices") != std::string::npos);
  const Value json = forecast_value({known}).as_array().front();
  CHECK(json.get_string("from") == "measured_elsewhere");
  CHECK(json.get_string("energy_from").find("700 W each") != std::string::npos);

  const TrainingForecast unseen = plan_forecasts(plan, gpu_site("MI300X"), {}, {constants()}, as_written).front();
  CHECK(unseen.source == ForecastSource::arithmetic);
  CHECK(unseen.time.sigma > known.time.sigma);

  SiteConfig site = gpu_site("Gaudi 3");
  site.node.gpu_tflops = 1835, site.node.gpu_memory.value = 128'000'000'000;
  site.network.gpu_memory_gbyte = 3700, site.network.gpu_link_gbyte = 525;
  const TrainingForecast powerless = plan_forecasts(plan, site, {}, {constants()}, as_written).front();
  CHECK(powerless.source == ForecastSource::arithmetic);
  CHECK(powerless.energy_from.empty());
  CHECK(forecast_value({powerless}).as_array().front().find("energy_kwh") == nullptr);
}

TEST_CASE("a checkpoint's cost is that of the slower of storage and network cards, or the key that would say it") {
  SiteConfig site = gpu_site("NVIDIA H100 80GB");
  site.network.nics = 0, site.network.nic_gbit = 0;
  ModelShape shape;
  shape.hidden_size = 4096, shape.num_hidden_layers = 32, shape.num_attention_heads = 32, shape.vocab_size = 32000;
  shape = resolve_shape(shape).value();
  const auto parameters = static_cast<double>(shape.parameter_count());
  OptimizerSettings optimizer;
  const CheckpointForecast silent = checkpoint_forecast(shape, optimizer, site, 4);
  CHECK(silent.bytes == doctest::Approx(12 * parameters));
  CHECK(silent.seconds == 0);
  CHECK(checkpoint_text(silent).find("network.storage_write_gbyte") != std::string::npos);
  site.network.storage_write_gbyte = 100;
  CHECK(checkpoint_forecast(shape, optimizer, site, 4).seconds == doctest::Approx(12 * parameters / 100e9));
  site.network.nics = 1, site.network.nic_gbit = 80;  // 10 GB/s a node
  CHECK(checkpoint_forecast(shape, optimizer, site, 4).seconds == doctest::Approx(12 * parameters / 40e9));
  CHECK(checkpoint_forecast(shape, optimizer, site, 4).from.find("4 nodes") != std::string::npos);
  optimizer.moments = "bf16";
  CHECK(checkpoint_forecast(shape, optimizer, site, 40).bytes == doctest::Approx(8 * parameters));
  CHECK(checkpoint_forecast(shape, optimizer, site, 40).from.find("storage") != std::string::npos);
}

TEST_CASE("an unknown GPU asks for four keys of the site file, and lives on them") {
  SiteConfig site = gpu_site("Gaudi 3");
  const auto asked = plan_forecasts(sharded_plan(256), site, {}, {constants()}, as_written);
  for (const char* key : {"node.gpu_tflops", "node.gpu_memory", "network.gpu_memory_gbyte", "network.gpu_link_gbyte"})
    CHECK(asked.front().problem.find(key) != std::string::npos);
  site.node.gpu_tflops = 1835, site.node.gpu_memory.value = 128'000'000'000;
  site.network.gpu_memory_gbyte = 3700, site.network.gpu_link_gbyte = 525;
  const auto reported = plan_forecasts(sharded_plan(256), site, {}, {constants()}, as_written);
  CHECK(reported.front().problem.empty());
  CHECK(reported.front().time.sigma == constants().common.spread_new);
}

TEST_CASE("a site's own numbers win over a data sheet's") {
  SiteConfig site = gpu_site("NVIDIA H100 80GB");
  std::vector<std::string> notes;
  CHECK(cluster_of(site, constants(), notes)->nic_rate == doctest::Approx(25e9));
  CHECK(notes.empty());
  site.node.gpu_memory.value = 94'000'000'000, site.network.gpu_memory_gbyte = 2400, site.network.nics = 0;
  const Cluster cluster = cluster_of(site, constants(), notes).value();
  CHECK(cluster.gpu.memory == 94e9);
  CHECK(cluster.gpu.memory_rate == 2400e9);
  CHECK(cluster.domain == 4);
  CHECK(notes.size() == 1);  // the cards are assumed
}

TEST_CASE("on processors there are forecasts as well, without GPU-hours") {
  SiteConfig site;
  site.node.cores = 2;
  const auto forecasts = plan_forecasts(plan_of(2), site, {}, {constants()});
  CHECK(forecasts.front().problem.empty());
  CHECK(!forecasts.front().on_gpus);
  CHECK(forecast_text(forecasts).find("1 core") != std::string::npos);
}

TEST_CASE("moments on the host cost a processor nothing; those on a disk its time, or say whose rate is not known") {
  RunPlan plan = plan_of(2);
  SiteConfig site;
  site.node.cores = 2;
  const auto forecast = [&](const char* offload, const char* folder) {
    PretrainSettings settings = pretrain_fields().parse(plan.stages[1].settings, "").value();
    settings.optimizer.offload = offload, settings.optimizer.offload_dir = folder;
    plan.stages[1].settings = pretrain_fields().to_value(settings);
    return plan_forecasts(plan, site, {}, {constants()}).front();
  };
  const TrainingForecast none = forecast("none", ""), host = forecast("host", ""),
                         disk = forecast("node_local", "/local/scratch");
  REQUIRE(none.problem.empty());
  CHECK(host.seconds() == none.seconds());
  CHECK(host.memory == none.memory);
  CHECK(forecast_text({host}).find("that disk") == std::string::npos);
  CHECK(disk.memory < none.memory - 4e9);  // two moments of f32 of 8e9 weights lie elsewhere
  CHECK(forecast_text({disk}).find("/local/scratch and back") != std::string::npos);
  CHECK(forecast_text({disk}).find("network.node_local_write_gbyte") != std::string::npos);
  // Both ranks' moments, 8 bytes a weight, are read and written by one disk, beside the update.
  site.network.node_local_read_gbyte = 2, site.network.node_local_write_gbyte = 1;
  const TrainingForecast priced = forecast("node_local", "/local/scratch");
  const double weights = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3.0 * 4096 * 14336) + 2.0 * 128256 * 4096;
  CHECK(priced.time[StepPart::optimizer] == doctest::Approx(2 * 8 * weights * (1 / 2e9 + 1 / 1e9)));
  CHECK(priced.seconds() > none.seconds() + 100);
  CHECK(forecast_text({priced}).find("read at 2 GB/s and written at 1 GB/s by all ranks of a node") !=
        std::string::npos);
  site.network.node_local_read_gbyte = site.network.node_local_write_gbyte = 1e6;  // the update itself takes longer
  CHECK(forecast("node_local", "/local/scratch").seconds() == doctest::Approx(none.seconds()));
}

TEST_CASE("products in eight bits are priced where GPUs multiply them, and said by name where they are emulated") {
  const auto forecast = [](const std::string& gpu, const std::string& recipe, std::int64_t kept = 0) {
    RunPlan plan = sharded_plan(32);
    PretrainSettings settings = pretrain_fields().parse(plan.stages[1].settings, "").value();
    settings.low_precision.recipe = recipe, settings.low_precision.first_layers_bf16 = kept;
    plan.stages[1].settings = pretrain_fields().to_value(settings);
    SiteConfig site = gpu_site(gpu);
    if (gpu.empty()) site.node.gpus = 0, site.node.cores = 64;
    return plan_forecasts(plan, site, {}, {constants()}, as_written).front();
  };
  std::map<std::string, double> known;  // seconds of each kind of node without a recipe
  const auto without = [&](const std::string& gpu) {
    const auto [at, is_new] = known.try_emplace(gpu);
    if (is_new) at->second = forecast(gpu, "none").seconds();
    return at->second;
  };
  const TrainingForecast bf16 = forecast("NVIDIA H100 80GB", "none");
  REQUIRE_MESSAGE(bf16.problem.empty(), bf16.problem);
  known["NVIDIA H100 80GB"] = bf16.seconds();
  for (const char* recipe : {"delayed", "current", "blockwise"}) {
    const TrainingForecast fp8 = forecast("NVIDIA H100 80GB", recipe);
    REQUIRE_MESSAGE(fp8.problem.empty(), fp8.problem);
    CHECK(fp8.layout.precision == Precision::fp8);
    CHECK(fp8.seconds() < 0.85 * bf16.seconds());
    CHECK(fp8.seconds() > 0.5 * bf16.seconds());
    CHECK(fp8.memory == bf16.memory);  // weights and inputs are kept in two bytes and cast again
    CHECK(forecast_text({fp8}).find("emulated") == std::string::npos);
  }
  CHECK(forecast("B200", "mxfp8").layout.precision == Precision::fp8);
  for (const auto& [gpu, recipe] : {std::pair{"NVIDIA H100 80GB", "mxfp8"},
                                    {"NVIDIA H100 80GB", "mxfp4"},
                                    {"B200", "blockwise"},
                                    {"NVIDIA A100-SXM4-80GB", "delayed"},
                                    {"", "delayed"}}) {
    const TrainingForecast emulated = forecast(gpu, recipe);
    REQUIRE_MESSAGE(emulated.problem.empty(), gpu << ": " << emulated.problem);
    CHECK(emulated.layout.precision == Precision::bf16);
    CHECK(emulated.seconds() == without(gpu));
    CHECK_MESSAGE(forecast_text({emulated})
                          .find(format("low_precision.recipe = \"{}\" are emulated there and priced as "
                                       "those of bf16: steps take longer than this",
                                       recipe)) != std::string::npos,
                  forecast_text({emulated}));
  }
  CHECK(
      forecast_text({forecast("NVIDIA H100 80GB", "delayed", 2)}).find("also the 2 that low_precision keeps in bf16") !=
      std::string::npos);
}

TEST_CASE("on processors the memory is the engine's own plan, beside a rank's part of the node's") {
  RunPlan plan = plan_of(2);
  PlannedStage& stage = plan.stages[1];
  SiteConfig site;
  site.node.cores = 2, site.node.arch = "x86_64";
  const auto forecast = [&] { return plan_forecasts(plan, site, {}, {constants()}).front(); };
  TrainingOutline outline = outline_of(pretrain_fields().parse(stage.settings, "").value(), stage.dims).value();
  outline.shape.vocab_size = 128256;  // the tokenizer's
  const auto planned = static_cast<double>(plan_worst_rank(outline).value().plan.bytes.total());
  CHECK(forecast().memory == planned);
  CHECK(forecast().memory_limit == 1e18);  // nobody said what a node has
  CHECK(forecast().tuning.candidates.front().memory == planned);
  outline.compiled_products = false;
  site.node.arch = "aarch64";
  CHECK(forecast().memory == static_cast<double>(plan_worst_rank(outline).value().plan.bytes.total()));
  CHECK(forecast().memory < planned);

  site.node.memory.value = static_cast<std::int64_t>(2.1 * planned);
  CHECK(forecast().memory_limit == doctest::Approx(1.05 * planned));
  CHECK(forecast_text({forecast()}).find("more memory per rank") == std::string::npos);
  site.node.memory.value = static_cast<std::int64_t>(1.9 * planned);
  const TrainingForecast misses = forecast();
  CHECK(forecast_text({misses}).find("more memory per rank") != std::string::npos);
  REQUIRE(misses.better);  // what it names fits by the same plan
  CHECK(misses.tuning.candidates.back().memory < misses.memory_limit);
  site.node.memory.value = 1 << 20;
  CHECK(!forecast().better);
  CHECK(forecast_text({forecast()}).find("layouts fits") != std::string::npos);
}

TEST_CASE("ranks of a pipeline share their node's memory as they need it") {
  RunPlan plan = plan_of(1);
  PlannedStage& stage = plan.stages[1];
  stage.dims.pp = 2;
  SiteConfig site;
  site.node.cores = 2;
  const TrainingOutline outline = stage_outline(with_vocabulary(stage, plan), site).value();
  const std::vector<int> both = {0, 1};
  const NodeMemory node = plan_node_memory(outline, both).value();
  REQUIRE(node.bytes < 2 * node.worst.plan.bytes.total());  // the second stage holds less
  const auto forecast = [&](std::int64_t bytes) {
    site.node.memory.value = bytes;
    return plan_forecasts(plan, site, {}, {constants()}).front();
  };
  const TrainingForecast fits = forecast(node.bytes + 1000), misses = forecast(node.bytes - node.bytes / 1000);
  CHECK(fits.memory <= fits.memory_limit);
  CHECK(misses.memory > misses.memory_limit);
}

TEST_CASE("a training whose model nobody knows says that it is not predicted") {
  RunPlan plan = plan_of(8);
  plan.stages[1].kind = "sft", plan.stages[1].settings = sft_fields().to_value({});
  const auto forecasts = plan_forecasts(plan, gpu_site("H100"), {}, {constants()});
  CHECK(forecasts.front().problem.find("takes its model from an input") != std::string::npos);
}

TEST_CASE("supervised finetuning is predicted with the model of the pretraining behind it") {
  RunPlan plan = plan_of(16);
  SftSettings settings;
  settings.sequence_length = 8192, settings.micro_batch_size = 1, settings.global_batch_size = 1024;
  plan.stages.push_back(behind_pretrain(plan, "sft", sft_fields().to_value(settings)));
  const auto forecasts = plan_forecasts(plan, gpu_site("H100"), {}, {constants()});
  REQUIRE(forecasts.size() == 2);
  CHECK(forecasts[1].problem.empty());
  CHECK(forecasts[1].seconds() == doctest::Approx(forecasts[0].seconds()));
  CHECK(forecasts[1].memory == doctest::Approx(forecasts[0].memory));
  SiteConfig processors;  // nobody plans its memory there yet
  processors.node.cores = 64;
  const auto on_processors = plan_forecasts(plan, processors, {}, {constants()});
  CHECK(on_processors[0].memory > 0);
  CHECK(on_processors[1].problem.empty());
  CHECK(on_processors[1].memory == 0);
}

TEST_CASE("alignment is predicted as a training on both answers of its pairs, and its layout is not searched") {
  RunPlan plan = plan_of(16);
  AlignSettings settings;
  settings.sequence_length = 8192, settings.micro_batch_size = 1, settings.global_batch_size = 512;
  plan.stages.push_back(behind_pretrain(plan, "align", align_fields().to_value(settings)));
  const auto forecasts = plan_forecasts(plan, gpu_site("H100"), {}, {constants()});
  REQUIRE(forecasts.size() == 2);
  REQUIRE_MESSAGE(forecasts[1].problem.empty(), forecasts[1].problem);
  // As many tokens as the pretraining, in micro-batches of two sequences.
  CHECK(forecasts[1].layout.micro_batch_size == 2);
  CHECK(forecasts[1].seconds() == doctest::Approx(forecasts[0].seconds()).epsilon(0.1));
  CHECK(forecasts[1].memory > forecasts[0].memory);
  CHECK(!forecasts[1].better);
}

AlignSettings grpo_settings() {
  AlignSettings settings;
  settings.method = "grpo", settings.device = "cpu", settings.reward.kind = "exact", settings.beta = 0.04;
  settings.sequence_length = 160, settings.micro_batch_size = 8, settings.global_batch_size = 64, settings.steps = 10;
  settings.rollout.max_new_tokens = 48;
  return settings;
}

// On two ranks, and on those that only draw beside them.
TrainingForecast grpo_forecast(const AlignSettings& settings, int cores, const TimeConstants& known = constants()) {
  RunPlan plan = plan_of(2);
  plan.stages[1].settings = pretrain_fields().to_value([] {
    PretrainSettings small;
    small.model.hidden_size = 128, small.model.num_hidden_layers = 4, small.model.vocab_size = 2000;
    return small;
  }());
  PlannedStage align = behind_pretrain(plan, "align", align_fields().to_value(settings));
  align.device = "cpu", align.common.ranks = 2 + static_cast<int>(settings.rollout.ranks), align.common.threads = 1;
  plan.stages.push_back(align);
  SiteConfig site;
  site.node.cores = cores;
  const auto forecasts = plan_forecasts(plan, site, {}, {known});
  REQUIRE_MESSAGE(forecasts.back().problem.empty(), forecasts.back().problem);
  return forecasts.back();
}

// As if ranks of these uses had been measured at a share of what is assumed.
TimeConstants measured_at(const std::vector<std::pair<RankUse, double>>& uses) {
  TimeConstants all = constants();
  for (const auto& [use, rate] : uses) {
    const TrainingPlace place =
        processor_place(constants(), use.threads, use.ranks, use.precision == "f32" ? Precision::f32 : Precision::bf16)
            .value();
    MeasuredProcessor one{use.text(), place.cluster.gpu, place.common, place.framework};
    one.rank.peak_f32 *= rate, one.rank.peak_bf16 *= rate, one.rank.memory_rate *= rate;
    one.drawing = one.scoring = 1 / rate;
    all.measured_processors.push_back(std::move(one));
  }
  return all;
}

TEST_CASE(
    "a training on answers of its own is predicted with what they take: in turn, ahead, and on ranks of their own") {
  AlignSettings settings = grpo_settings();
  const TrainingForecast in_turn = grpo_forecast(settings, 4);
  const RolloutForecast of = in_turn.rollout.value();
  CHECK(of.how == "in turn");
  for (const double part : {of.train, of.generate, of.reference, of.weights, of.memory}) CHECK(part > 0);
  CHECK(in_turn.seconds() == doctest::Approx(of.train + of.generate + of.reference + of.weights));
  CHECK(in_turn.high > in_turn.seconds());
  CHECK(in_turn.low < of.train);
  CHECK(in_turn.tokens_per_second == doctest::Approx(64 * 160 / in_turn.seconds()));
  CHECK(in_turn.duration() == doctest::Approx(10 * in_turn.seconds()));

  settings.rollout.ahead = true;
  const TrainingForecast ahead = grpo_forecast(settings, 4), shared = grpo_forecast(settings, 2);
  CHECK(ahead.rollout->how == "ahead");
  CHECK(ahead.seconds() == doctest::Approx(of.weights + std::max(of.train, of.generate + of.reference)));
  CHECK(shared.seconds() == doctest::Approx(in_turn.seconds()));  // nothing is won on the same cores

  settings.rollout.ranks = 1;
  const TrainingForecast one = grpo_forecast(settings, 4);
  settings.rollout.ranks = 2;
  const TrainingForecast two = grpo_forecast(settings, 4);
  CHECK(one.rollout->how == "ranks");
  CHECK(one.rollout->generate == doctest::Approx(2 * two.rollout->generate));  // of both ranks that train
  CHECK(two.rollout->generate == doctest::Approx(of.generate));
  CHECK(one.rollout->memory > of.memory);  // weights come whole, in f32
  CHECK(one.gpu_hours == doctest::Approx(1.5 * one.duration() * 2 / 3600));
  CHECK(forecast_text({one}).find("answers are drawn by 1 rank beside the steps") != std::string::npos);
  CHECK(forecast_text({one}).find("every prompt had 113 tokens and every answer 48") != std::string::npos);

  settings.rollout.ranks = 0, settings.rollout.ahead = false, settings.rollout.epochs = 2, settings.beta = 0;
  const TrainingForecast twice = grpo_forecast(settings, 4);
  CHECK(twice.rollout->generate == doctest::Approx(of.generate / 2));
  CHECK(twice.rollout->reference == 0);
}

TEST_CASE("what goes on beside something else is slowed down as it was measured, for as long as that lasts") {
  AlignSettings settings = grpo_settings();
  settings.precision = "f32", settings.rollout.ahead = true;
  const RankUse beside{2, 1, "f32", {2, 1}}, alone{2, 1, "f32"};
  // While nobody measured them alone, they are as slow all the time: the longer of the two decides.
  const RolloutForecast slow = *grpo_forecast(settings, 4, measured_at({{beside, 0.5}})).rollout;
  CHECK(slow.seconds == doctest::Approx(slow.weights + slow.train));
  CHECK(slow.alone == slow.train);
  const RolloutForecast fast = *grpo_forecast(settings, 4, measured_at({{beside, 1.0}})).rollout;

  const TrainingForecast both = grpo_forecast(settings, 4, measured_at({{beside, 0.5}, {alone, 1.0}}));
  const RolloutForecast& of = *both.rollout;
  const double draw_alone = fast.generate + fast.reference, draw_beside = slow.generate + slow.reference;
  REQUIRE(draw_beside < slow.train);  // the training ends last
  CHECK(of.generate + of.reference == doctest::Approx(draw_beside));
  CHECK(of.train == doctest::Approx(seconds_beside({fast.train, slow.train}, {draw_alone, draw_beside})));
  CHECK(of.train < 0.95 * slow.train);
  CHECK(of.train > 1.05 * fast.train);
  CHECK(both.seconds() == doctest::Approx(of.weights + of.train));
  CHECK(of.alone == doctest::Approx(fast.train));
  CHECK(both.low < fast.train);

  // Ranks of their own, and those that only draw are the ones that were not measured alone.
  settings.rollout.ranks = 1;
  const RankUse by_rank{2, 1, "f32", {1, 1}}, drawer{1, 1, "f32"};
  const RolloutForecast no_drawer = *grpo_forecast(settings, 4, measured_at({{by_rank, 0.5}, {alone, 1.0}})).rollout;
  CHECK(no_drawer.alone == doctest::Approx(slow.train));
  const RolloutForecast ranks =
      *grpo_forecast(settings, 4, measured_at({{by_rank, 0.5}, {alone, 1.0}, {drawer, 1.0}})).rollout;
  CHECK(ranks.alone == doctest::Approx(fast.train));
  CHECK(ranks.seconds < 0.95 * no_drawer.seconds);
}

// The same with the input of that name from the pretraining, or from nowhere yet.
TrainingForecast with_model_beside(const AlignSettings& settings, const std::string& input, bool known) {
  RunPlan plan = plan_of(2);
  plan.stages.push_back(behind_pretrain(plan, "align", align_fields().to_value(settings)));
  PlannedInput beside;
  beside.name = input;
  if (known) beside.stages = {"pretrain"};
  if (!input.empty()) plan.stages.back().inputs.push_back(beside);
  SiteConfig site;
  site.node.cores = 4;
  return plan_forecasts(plan, site, {}, {constants()}).back();
}

TEST_CASE("a critic adds what it expects and a step of its own, a teacher what it says, a judge what it reads") {
  AlignSettings settings = grpo_settings();
  const RolloutForecast alone = with_model_beside(settings, "", false).rollout.value();
  settings.method = "ppo";
  const TrainingForecast ppo = with_model_beside(settings, "", false);
  REQUIRE_MESSAGE(ppo.problem.empty(), ppo.problem);
  const RolloutForecast& with_critic = *ppo.rollout;
  CHECK(with_critic.value > 0);
  CHECK(with_critic.critic > with_critic.value);
  CHECK(with_critic.critic < with_critic.train);  // it has no vocabulary
  CHECK(ppo.seconds() == doctest::Approx(with_critic.train + with_critic.generate + with_critic.reference +
                                         with_critic.weights + with_critic.value + with_critic.critic));
  CHECK(forecast_text({ppo}).find("for the critic's values") != std::string::npos);

  settings.method = "grpo", settings.reward.kind = "model";
  const RolloutForecast judged = with_model_beside(settings, "reward", true).rollout.value();
  CHECK(judged.reward > 0);
  CHECK(judged.reward < judged.train);  // forward alone
  CHECK(judged.seconds == doctest::Approx(alone.seconds + judged.reward));

  settings.method = "distill", settings.reward.kind = "exact", settings.beta = 0;
  const TrainingForecast taught = with_model_beside(settings, "teacher", true);
  REQUIRE_MESSAGE(taught.problem.empty(), taught.problem);
  CHECK(taught.rollout->reference == doctest::Approx(alone.reference));  // as a reference of that shape
}

TEST_CASE(
    "models beside that nobody knows yet: a critic and a teacher are not predicted, a judge is left out, by name") {
  AlignSettings settings = grpo_settings();
  settings.method = "distill";
  CHECK(with_model_beside(settings, "teacher", false).problem.find("teacher") != std::string::npos);
  settings.method = "ppo", settings.ppo.critic = "reward", settings.reward.kind = "model";
  CHECK(with_model_beside(settings, "reward", false).problem.find("critic") != std::string::npos);
  settings.method = "grpo";
  const TrainingForecast left_out = with_model_beside(settings, "reward", false);
  CHECK(left_out.rollout->reward == 0);
  CHECK(forecast_text({left_out}).find("without what judging answers takes") != std::string::npos);
}

TEST_CASE("on GPUs that hold whole replicas drawing is priced by what a server's step takes there") {
  RunPlan plan = plan_of(8);
  AlignSettings settings = grpo_settings();
  settings.device = "gpu", settings.sequence_length = 2048, settings.rollout.max_new_tokens = 512;
  settings.micro_batch_size = 1;
  plan.stages.push_back(behind_pretrain(plan, "align", align_fields().to_value(settings)));
  const TrainingForecast h100 = plan_forecasts(plan, gpu_site("H100"), {}, {constants()}).back();
  REQUIRE_MESSAGE(h100.problem.empty(), h100.problem);
  CHECK(h100.on_gpus);
  // At least the weights from memory for every token of an answer, 8e9 of 2 bytes at 3.35 TB/s.
  CHECK(h100.rollout->generate > 511 * 16e9 / 3.35e12);
  const TrainingForecast a100 = plan_forecasts(plan, gpu_site("A100"), {}, {constants()}).back();
  CHECK(a100.rollout->generate > h100.rollout->generate);
}

TEST_CASE("of a training in phases the time is that of all and the memory that of the longest sequences") {
  RunPlan plan = sharded_plan(64);
  const auto alone =
      plan_forecasts(plan, gpu_site("H100"), {}, {constants()}, as_written).front();  // 1000 steps of 8192 tokens
  plan.stages[1].settings.set("steps", 0);
  const char* phases = "[short]\nsteps = 3000\nsequence_length = 4096\n[long]\nsteps = 1000\nsequence_length = 8192\n";
  plan.stages[1].settings.set("phase", parse_toml(phases, "phases.toml").value());
  const auto f = plan_forecasts(plan, gpu_site("H100"), {}, {constants()}, as_written).front();
  REQUIRE_MESSAGE(f.problem.empty(), f.problem);
  CHECK(f.steps == 4000);
  CHECK(f.memory == doctest::Approx(alone.memory));
  CHECK(f.duration() > alone.duration() + 3000 * 0.4 * alone.seconds());
  CHECK(f.duration() < alone.duration() + 3000 * 0.6 * alone.seconds());
  CHECK(f.gpu_hours == doctest::Approx(f.duration() * 64 / 3600));
  CHECK(forecast_text({f}).find("short ") != std::string::npos);
}

TEST_CASE("what was measured at the site corrects its forecasts, and they say so") {
  const RunPlan plan = sharded_plan(64);
  const auto before = plan_forecasts(plan, gpu_site("H100"), {}, {constants()}, as_written).front();
  MeasuredTraining measured;
  measured.device = before.device, measured.name = "tp2", measured.run = "llama-1";
  measured.like = {"another layout", {1, 2, 3, 4, 5, 6}};
  measured.predicted = 2, measured.measured = 3;
  const auto after = plan_forecasts(plan, gpu_site("H100"), {}, {constants(), {{measured}, {}}}, as_written).front();
  CHECK(after.seconds() == doctest::Approx(1.5 * before.seconds()).epsilon(0.01));
  CHECK(forecast_text({after}).find("step times measured here: 1, the last by llama-1") != std::string::npos);
  measured.device = "another GPU";
  const auto other = plan_forecasts(plan, gpu_site("H100"), {}, {constants(), {{measured}, {}}}, as_written).front();
  CHECK(other.seconds() == before.seconds());
}

}  // namespace plan_forecasts_test
}  // namespace
}  // namespace longhaul
