#include "orchestrator/controller/layout_candidates.h"

#include <doctest/doctest.h>

#include <set>

#include "base/toml.h"
#include "contracts/settings/training.h"
#include "contracts/settings/tune.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/trial_stage.h"

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
  const auto found = search()(tune_stage(""), target(8), gpu_site());
  REQUIRE_MESSAGE(found.ok(), found.error().message());
  REQUIRE(found->size() > 5);
  std::set<std::string> names;
  for (const Trial& trial : *found) {
    CHECK(names.insert(trial.name).second);
    CHECK(trial.predicted_seconds >= found->front().predicted_seconds);
    CHECK(trial.predicted_sigma > 0);
    CHECK(trial.predicted_bytes > 0);
    const auto stage = stage_with(target(8), trial.settings);
    REQUIRE_MESSAGE(stage.ok(), trial.name << ": " << stage.error().message());
    CHECK(stage->dims.world_size() == 8);
  }
}

TEST_CASE("what a tune stage holds fixed holds for its candidates") {
  const auto found = search()(tune_stage("tp = [2]\nmicro_batch_size = [1, 2]\n"), target(8), gpu_site());
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
}

TEST_CASE("constants that are missing are an error, not an empty list") {
  CHECK(!layout_search_with("/nowhere/constants.toml", "")(tune_stage(""), target(8), gpu_site()).ok());
}

}  // namespace layout_candidates_test
}  // namespace
}  // namespace longhaul
