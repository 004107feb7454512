// What `tune` proposes is what the engine accepts: for the shipped recipes and the shapes of well-known models, on few
// and many GPUs, each candidate is held to the engine's own checks, as its stage would be when it is submitted.
#include <doctest/doctest.h>

#include <set>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/plan/layout_check.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/forecast/layout_candidates.h"
#include "orchestrator/forecast/size_request.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/layout/feature_check.h"
#include "orchestrator/workflow/trials/trial_stage.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

namespace tune_proposals_test {

struct Proposal {
  const char* name;
  PretrainSettings settings;
  std::vector<int> gpus;
};

PretrainSettings shipped(const char* recipe, std::int64_t vocabulary) {
  const std::string path = format("{}/workflows/recipes/{}.toml", LONGHAUL_SOURCE_DIR, recipe);
  PretrainSettings settings = pretrain_fields().parse(read_toml_file(path).value(), "").value();
  settings.model.vocab_size = vocabulary;
  return settings;
}

PretrainSettings of_shape(const char* architecture, int layers, int hidden, int inner, int heads, int kv,
                          int vocabulary, int length) {
  PretrainSettings settings;
  ModelShape& m = settings.model;
  m.architecture = architecture, m.num_hidden_layers = layers, m.hidden_size = hidden, m.intermediate_size = inner;
  m.num_attention_heads = heads, m.num_key_value_heads = kv, m.vocab_size = vocabulary;
  m.max_position_embeddings = settings.sequence_length = length;
  return settings;
}

std::vector<Proposal> proposals() {
  // The release build asks them all; what a sanitizer looks for is in each search.
  const std::vector<int> all = testing::sanitized ? std::vector<int>{96}
                                                  : std::vector<int>{64, 96, 256, 1000, 1024, 4096},
                         some = {96};
  return {{"quickstart-tiny", shipped("quickstart-tiny", 2048), all},
          {"llama3-8b", shipped("llama3-8b", 128256), all},
          {"Llama 2 70B", of_shape("llama", 80, 8192, 28672, 64, 8, 32000, 4096), some},
          {"Mixtral 8x7B", of_shape("mixtral", 32, 4096, 14336, 32, 8, 32000, 4096), some},
          {"GPT-2 1.5B", of_shape("gpt2", 48, 1600, 6400, 25, 25, 50257, 1024), some}};
}

SiteConfig site_of_gpus() {
  SiteConfig site;
  site.node.gpu = "NVIDIA H100 80GB", site.node.gpus = 8, site.network.nics = 8, site.network.nic_gbit = 400;
  return site;
}

PlannedStage stage_of(const Proposal& proposal, int gpus) {
  PretrainSettings settings = proposal.settings;
  settings.device = "gpu", settings.micro_batch_size = 1;
  settings.global_batch_size = batch_for(std::int64_t{1} << 22, settings.sequence_length, gpus);
  PlannedStage stage;
  stage.stage = "pretrain", stage.kind = "pretrain", stage.settings = pretrain_fields().to_value(settings);
  stage.dims.dp_replicate = gpus, stage.common.ranks = gpus, stage.common.nodes = gpus / 8;
  return stage;
}

TEST_CASE("no layout that tune proposes is refused by the engine's own checks") {
  const LayoutSearch search = layout_search_with(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml", "");
  PlannedStage tune;
  tune.stage = "layout", tune.kind = "tune", tune.settings = Value::make_table();
  int candidates = 0, cases = 0;
  std::vector<std::string> without;  // a model too large for so few, or a number that nothing divides
  for (const Proposal& proposal : proposals())
    for (const int gpus : proposal.gpus) {
      ++cases;
      CAPTURE(proposal.name);
      CAPTURE(gpus);
      const PlannedStage target = stage_of(proposal, gpus);
      const auto found = search({}, tune, target, site_of_gpus());
      if (!found.ok()) {
        const bool known =
            found.error().code == ErrorCode::unavailable || found.error().code == ErrorCode::invalid_input;
        CHECK_MESSAGE(known, found.error().message());
        without.push_back(format("{} on {}: {}", proposal.name, gpus, found.error().what));
        continue;
      }
      for (const Trial& trial : *found) {
        CAPTURE(trial.name);
        ++candidates;
        const auto made = stage_with(target, trial.settings);  // with the checks of a workflow that has it written
        REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
        const PretrainSettings settings = pretrain_fields().parse(made->settings, "").value();
        const ModelShape shape = resolve_shape(settings.model).value();
        CHECK(check_engine(engine_case_of("pretrain", settings, shape, made->dims, settings.sequence_length)).ok());
        CHECK(check_layout_of(
                  {shape, made->dims, settings.micro_batch_size, settings.sequence_length, settings.cp_attention})
                  .ok());
        CHECK(made->dims.world_size() == gpus);
      }
    }
  MESSAGE(candidates << " candidates of " << cases << " cases, none refused; no layout: " << join(without, "; "));
  CHECK(candidates > 20 * cases);
  CHECK_MESSAGE(without.empty(), join(without, "; "));
}

TEST_CASE("what no layout can do is said instead of a search: replay, and moments that leave the GPU") {
  const LayoutSearch search = layout_search_with(std::string(LONGHAUL_SOURCE_DIR) + "/autotune/constants.toml", "");
  PlannedStage tune, target = stage_of(proposals()[1], 64);
  tune.stage = "layout", tune.kind = "tune", tune.settings = Value::make_table();
  target.settings.find("corruption")->set("check", "replay");
  const auto refused = search({}, tune, target, site_of_gpus());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().what.find("micro-batches are computed twice on processors only") != std::string::npos);
  // 70B on eight GPUs: what would make it fit must be something that the engine does.
  target = stage_of(proposals()[2], 8);
  const auto small = search({}, tune, target, site_of_gpus());
  REQUIRE_FALSE(small.ok());
  CHECK(small.error().code == ErrorCode::unavailable);
  CHECK_MESSAGE(small.error().hint.find("offload") == std::string::npos, small.error().hint);
}

}  // namespace tune_proposals_test

}  // namespace
}  // namespace longhaul
