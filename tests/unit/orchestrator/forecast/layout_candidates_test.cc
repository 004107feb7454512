#include "orchestrator/forecast/layout_candidates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/toml.h"
#include "contracts/settings/stages/tune.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/forecast/processor_memory.h"
#include "orchestrator/forecast/written_layout.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

namespace layout_candidates_test {

LayoutSearch search() {
  return layout_search_with(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml", "");
}

PlannedStage target(int ranks) {
  PretrainSettings settings;
  ModelShape& m = settings.model;
  m.hidden_size = 2048, m.intermediate_size = 8192, m.num_hidden_layers = 16, m.num_attention_heads = 16;
  m.num_key_value_heads = 8, m.max_position_embeddings = 4096, m.vocab_size = 32000;
  settings.sequence_length = 4096, settings.micro_batch_size = 1, settings.global_batch_size = 64;
  PlannedStage stage;
  stage.stage = "pretrain", stage.kind = "pretrain", stage.settings = pretrain_fields().to_value(settings);
  stage.dims.dp_replicate = ranks, stage.common.ranks = ranks, stage.common.nodes = std::max(1, ranks / 4);
  return stage;
}

PlannedStage tune_stage(const char* settings) {
  PlannedStage tune;
  tune.stage = "layout", tune.kind = "tune", tune.settings = parse_toml(settings, "tune.toml").value();
  return tune;
}

SiteConfig gpu_site() {
  SiteConfig site;
  site.node.gpu = "NVIDIA H100 80GB", site.node.gpus = 4, site.network.nics = 4, site.network.nic_gbit = 200;
  return site;
}

TEST_CASE("candidates come with predictions, best first among those unlike each other, and each can be the stage") {
  const auto found = search()({}, tune_stage(""), target(8), gpu_site());
  REQUIRE_MESSAGE(found.ok(), found.error().message());
  REQUIRE(found->size() > 5);
  std::set<std::string> names;
  for (const Trial& trial : *found) {
    CHECK(names.insert(trial.name).second);
    CHECK(trial.predicted_seconds >= found->front().predicted_seconds);
    CHECK(trial.predicted_sigma > 0);
    CHECK(trial.predicted_from == ForecastSource::measured_elsewhere);
    CHECK(trial.predicted_bytes > 0);
    const auto stage = stage_with(target(8), trial.settings);
    REQUIRE_MESSAGE(stage.ok(), trial.name << ": " << stage.error().message());
    CHECK(stage->dims.world_size() == 8);
  }
}

TEST_CASE("what a tune stage holds fixed holds for its candidates") {
  const auto found = search()({}, tune_stage("tp = [2]\nmicro_batch_size = [1, 2]\n"), target(8), gpu_site());
  REQUIRE(found.ok());
  for (const Trial& trial : *found) {
    CHECK(trial.settings.find("parallel")->get_integer("tp") == 2);
    CHECK(trial.settings.get_integer("micro_batch_size") <= 2);
  }
}

TEST_CASE("a layout is written as a user would write it") {
  TrainingLayout layout;
  layout.dims.tp = 2, layout.dims.sp = true, layout.dims.pp = 4, layout.dims.dp_replicate = 8;
  layout.schedule = PipelineKind::zb_h1, layout.recompute.block = true, layout.recompute.layers = 3;
  const Value written = written_layout(layout);
  CHECK(written.find("parallel")->size() == 4);  // tp, sp, pp, dp_replicate
  CHECK(written.find("pipeline")->get_string("schedule") == "zb-h1");
  CHECK(written.find("recompute")->get_integer("layers") == 3);
  TrainingLayout plain;
  plain.dims.dp_replicate = 8;
  CHECK(written_layout(plain).find("parallel")->get_integer("dp_replicate") == 8);
  CHECK(written_layout(plain).find("recompute") == nullptr);
  CHECK(written_layout(plain).find("low_precision") == nullptr);
  plain.precision = Precision::fp8;
  CHECK(written_layout(plain).find("low_precision")->get_string("recipe") == "delayed");
}

// Everything that a stage may have said about its layout, against a plain one.
PlannedStage laid_out_by_hand() {
  PretrainSettings settings = pretrain_fields().parse(target(8).settings, "").value();
  settings.pipeline.schedule = "interleaved", settings.pipeline.group = 8, settings.pipeline.stage_layers = {8, 8};
  settings.recompute.modules = {"block"}, settings.recompute.layers = 2, settings.optimizer.offload = "node_local",
  settings.optimizer.offload_dir = "/scratch";
  PlannedStage stage = target(8);
  stage.settings = pretrain_fields().to_value(settings);
  return stage;
}

TEST_CASE("what a stage says about its own layout does not stay beside a layout that was searched") {
  const PlannedStage stage = laid_out_by_hand();
  TrainingLayout plain;
  plain.dims.tp = 8, plain.dims.sp = true;
  const auto made = stage_with(stage, written_over(stage.settings, plain, true));
  REQUIRE_MESSAGE(made.ok(), made.error().message());
  const PretrainSettings now = pretrain_fields().parse(made->settings, "").value();
  CHECK(now.pipeline.schedule == "auto");
  CHECK(now.pipeline.group == 0);
  CHECK(now.pipeline.stage_layers.empty());
  CHECK(now.recompute.modules.empty());
  CHECK(now.recompute.layers == 0);
  CHECK(now.optimizer.offload == "none");

  SUBCASE("layers distributed by hand stay with as many stages, a disk of the node with moments off the GPU") {
    plain.dims.pp = 2, plain.dims.tp = 4, plain.offload_moments = true;
    plain.recompute.attention = true;
    const auto two = stage_with(stage, written_over(stage.settings, plain, true));
    REQUIRE_MESSAGE(two.ok(), two.error().message());
    const PretrainSettings then = pretrain_fields().parse(two->settings, "").value();
    CHECK(then.pipeline.schedule == "1f1b");
    CHECK(then.pipeline.stage_layers == std::vector<std::int64_t>{8, 8});
    CHECK(then.recompute.modules == std::vector<std::string>{"attention"});
    CHECK(then.recompute.layers == 0);
    CHECK(then.optimizer.offload == "node_local");
  }
  SUBCASE("moments stay where they are when the layout does not decide it") {
    const auto kept = stage_with(stage, written_over(stage.settings, plain, false));
    REQUIRE(kept.ok());
    CHECK(pretrain_fields().parse(kept->settings, "").value().optimizer.offload == "node_local");
  }
}

TEST_CASE("a search for a stage that was laid out by hand finds what one finds for the stage without that") {
  const auto plain = search()({}, tune_stage(""), target(8), gpu_site());
  const auto by_hand = search()({}, tune_stage(""), laid_out_by_hand(), gpu_site());
  REQUIRE(plain.ok());
  REQUIRE_MESSAGE(by_hand.ok(), by_hand.error().message());
  REQUIRE(by_hand->size() == plain->size());
  for (std::size_t i = 0; i < plain->size(); ++i) {
    CHECK((*by_hand)[i].predicted_seconds == doctest::Approx((*plain)[i].predicted_seconds));
    const auto stage = stage_with(laid_out_by_hand(), (*by_hand)[i].settings);
    const auto same = stage_with(target(8), (*plain)[i].settings);
    REQUIRE_MESSAGE(stage.ok(), (*by_hand)[i].name << ": " << stage.error().message());
    REQUIRE(same.ok());
    const PretrainSettings a = pretrain_fields().parse(stage->settings, "").value();
    const PretrainSettings b = pretrain_fields().parse(same->settings, "").value();
    CHECK(a.recompute.modules == b.recompute.modules);
    CHECK(a.pipeline.schedule == b.pipeline.schedule);
  }
}

TEST_CASE("on processors what the engine itself would hold decides what fits") {
  SiteConfig site;
  site.node.cores = 8;
  PlannedStage stage = target(8);
  stage.common.nodes = 1;
  const auto all = search()({}, tune_stage(""), stage, site);
  REQUIRE_MESSAGE(all.ok(), all.error().message());
  std::vector<std::int64_t> needed;
  const auto bytes_of = [&](const Trial& trial) {
    const auto laid_out = stage_with(stage, trial.settings);
    REQUIRE(laid_out.ok());
    const auto node = ProcessorMemory{*laid_out, site, 8}.as_written();
    REQUIRE(node.ok());
    return node->bytes;
  };
  for (const Trial& trial : *all) needed.push_back(bytes_of(trial));
  const auto [least, most] = std::minmax_element(needed.begin(), needed.end());
  REQUIRE(*least < *most);
  site.node.memory.value = (*least + *most) / 2;
  const auto fitting = search()({}, tune_stage(""), stage, site);
  REQUIRE_MESSAGE(fitting.ok(), fitting.error().message());
  for (const Trial& trial : *fitting) CHECK_MESSAGE(bytes_of(trial) <= site.node.memory.value, trial.name);

  site.node.memory.value = 1 << 20;
  const auto none = search()({}, tune_stage(""), stage, site);
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::unavailable);
  CHECK_MESSAGE(none.error().what.find("on a node and there are 1") != std::string::npos, none.error().what);
}

TEST_CASE("a training of a model that another stage makes is searched like that model") {
  PlannedStage base = target(8);
  base.stage = "base";
  RunPlan plan;
  plan.stages = {base};
  SftSettings settings;
  settings.sequence_length = 4096, settings.micro_batch_size = 1, settings.global_batch_size = 64;
  PlannedStage sft = target(8);
  sft.stage = "sft", sft.kind = "sft", sft.settings = sft_fields().to_value(settings);
  sft.inputs.emplace_back();
  sft.inputs.back().name = "model", sft.inputs.back().stages = {"base"};
  const auto found = search()(plan, tune_stage(""), sft, gpu_site());
  REQUIRE_MESSAGE(found.ok(), found.error().message());
  const auto same = search()(plan, tune_stage(""), base, gpu_site());
  REQUIRE(same.ok());
  REQUIRE(found->size() == same->size());
  CHECK(found->front().predicted_seconds == doctest::Approx(same->front().predicted_seconds));
  // Nobody makes it: it cannot be known.
  CHECK(search()({}, tune_stage(""), sft, gpu_site()).error().code == ErrorCode::unsupported);
}

TEST_CASE("constants that are missing are an error, not an empty list") {
  CHECK(!layout_search_with("/nowhere/constants.toml", "")({}, tune_stage(""), target(8), gpu_site()).ok());
}

}  // namespace layout_candidates_test
}  // namespace
}  // namespace longhaul
