#include "orchestrator/preflight/memory_check.h"

#include <doctest/doctest.h>

#include "contracts/settings/training/training.h"

namespace longhaul {

namespace {

PlannedStage stage_for_memory() {
  PretrainSettings settings;
  settings.model.vocab_size = 32000, settings.model.hidden_size = 2048, settings.model.num_hidden_layers = 16;
  settings.model.num_attention_heads = 16, settings.model.max_position_embeddings = 2048;
  settings.sequence_length = 2048;
  PlannedStage stage;
  stage.stage = "train", stage.kind = "pretrain";
  stage.dims.dp_replicate = 4;
  stage.common.ranks = 4;
  stage.settings = pretrain_fields().to_value(settings);
  return stage;
}

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("a training that does not fit a node's memory is refused before it is submitted") {
  PlannedStage stage = stage_for_memory();
  JobPlan job;
  job.ranks_per_node = 4;
  const auto with = [&](std::int64_t bytes) {
    return check_stage_memory(stage, job, {}, {bytes, "site x: node.memory"});
  };
  CHECK(with(2000 * gib).ok());
  const Status refused = with(16 * gib);
  REQUIRE_FALSE(refused.ok());
  const std::string text = refused.error().message();
  CAPTURE(text);
  for (const char* said :
       {"too little memory", "4 ranks of a node", "16.0 GiB (site x: node.memory)", "most of it for"})
    CHECK(text.find(said) != std::string::npos);
  CHECK(with(0).ok());  // not known
  stage.inputs.push_back({"model", {"base"}, "", false, 0, "", {}});
  CHECK(with(16 * gib).ok());  // nor the shape
  stage = stage_for_memory();
  stage.kind = "sft";
  CHECK(with(16 * gib).ok());
}

TEST_CASE("amounts of memory as sbatch takes them") {
  Site site;
  const auto bytes = [&](const char* asked) { return granted_memory(site, asked, "here").bytes; };
  CHECK(bytes("") == 0);
  CHECK(bytes("0") == 0);
  CHECK(bytes("512") == 512 << 20);
  CHECK(bytes("512M") == 512 << 20);
  CHECK(bytes("2G") == 2 * gib);
  CHECK(bytes("1T") == 1024 * gib);
  site.config.node.memory.value = 3 * gib;
  CHECK(bytes("0") == 3 * gib);
  CHECK(bytes("2G") == 2 * gib);
}

}  // namespace longhaul
