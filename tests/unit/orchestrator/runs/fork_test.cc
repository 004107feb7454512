// Where a fork goes on that nobody gave a stage.
#include "orchestrator/runs/fork.h"

#include <doctest/doctest.h>

#include "base/value/json.h"
#include "contracts/settings/stages/alignment.h"

namespace longhaul {

namespace {

namespace fork_test {

// A stage that trains on two ranks and has answers drawn by a third.
RunPlan plan_with_drawing_rank(const char* more = "") {
  PlannedStage stage;
  stage.stage = "grpo", stage.kind = "align", stage.device = "cpu";
  stage.settings = *parse_json(R"({"method": "grpo", "steps": 9, "global_batch_size": 64, "reward": {"kind": "exact"},
      "rollout": {"group_size": 8, "max_new_tokens": 8, "ahead": true, "ranks": 1}})");
  stage.settings.set("device", "cpu");
  stage.dims.dp_replicate = 2, stage.common.ranks = 3;
  for (const char* name : {"model", "data", more}) {
    PlannedInput input;
    input.name = name;
    if (*name != 0) stage.inputs.push_back(input);
  }
  RunPlan plan;
  plan.stages = {stage};
  return plan;
}

Result<PlannedStage> forked_stage(const RunPlan& plan, const std::vector<std::string>& sets) {
  LH_TRY(const RunPlan forked, forked_plan(plan, {.stage = "grpo", .sets = sets}, 3));
  return forked.stages.front();
}

std::string fork_refusal(const RunPlan& plan, const std::vector<std::string>& sets) {
  const auto forked = forked_stage(plan, sets);
  REQUIRE_FALSE(forked.ok());
  return forked.error().message();
}

}  // namespace fork_test

}  // namespace

TEST_CASE("a fork: stage and step as they are written, each of which may be left out") {
  CHECK(parse_fork_from("pretrain@400")->stage == "pretrain");
  CHECK(parse_fork_from("pretrain@400")->step == 400);
  CHECK(parse_fork_from("sft/lr=1e-05")->stage == "sft/lr=1e-05");
  CHECK(parse_fork_from("sft")->step == -1);
  CHECK(parse_fork_from("@400")->stage.empty());
  CHECK(parse_fork_from("@400")->step == 400);
  CHECK(parse_fork_from("")->step == -1);
  CHECK(parse_fork_from("sft@last").error().message().find("'last' is not a step") != std::string::npos);
}

TEST_CASE("a fork without a stage: the first that is changed, else the one that is meant, else the last") {
  const std::vector<std::string> both = {"pretrain", "sft"};
  CHECK(meant_fork_stage(both, {"stage.pretrain.steps=9"}, "sft").value() == "pretrain");
  CHECK(meant_fork_stage(both, {"stage.sft.epochs=2", "stage.pretrain.steps=9"}, "").value() == "pretrain");
  CHECK(meant_fork_stage(both, {"stage.deploy.max_tokens=9"}, "").value() == "sft");
  CHECK(meant_fork_stage(both, {}, "pretrain").value() == "pretrain");
  CHECK(meant_fork_stage(both, {}, "deploy").value() == "sft");  // which has no checkpoint
  CHECK(meant_fork_stage({"pre", "pretrain"}, {"stage.pretrain.steps=9"}, "").value() == "pretrain");
}

TEST_CASE("a fork without a stage: no checkpoint, and a matrix that is changed, are answered by what there is") {
  CHECK(meant_fork_stage({}, {}, "pretrain").error().code == ErrorCode::not_found);
  const std::vector<std::string> matrix = {"pretrain", "sft/lr=1e-05", "sft/lr=1e-06"};
  const Error error = meant_fork_stage(matrix, {"stage.sft.epochs=2"}, "").error();
  CHECK(error.code == ErrorCode::invalid_input);
  CHECK(error.message() ==
        "several variants have a checkpoint: sft/lr=1e-05, sft/lr=1e-06; name one: --from sft/lr=1e-05");
  CHECK(meant_fork_stage(matrix, {}, "sft/lr=1e-05").value() == "sft/lr=1e-05");
}

TEST_CASE("a fork: ranks that only draw come and go beside the layout, unless the fork says how many ranks there are") {
  const RunPlan plan = fork_test::plan_with_drawing_rank();
  const auto ranks_of = [&](const std::vector<std::string>& sets) {
    const auto stage = fork_test::forked_stage(plan, sets);
    REQUIRE_MESSAGE(stage.ok(), stage.error().message());
    CHECK(stage->dims.world_size() + rollout_ranks_of("align", stage->settings) == stage->common.ranks);
    return std::pair(stage->common.ranks, stage->dims.world_size());
  };
  CHECK(ranks_of({"stage.grpo.steps=12"}) == std::pair(3, 2));
  CHECK(ranks_of({"stage.grpo.rollout.ranks=2"}) == std::pair(4, 2));
  CHECK(ranks_of({"stage.grpo.rollout.ranks=0"}) == std::pair(2, 2));
  CHECK(ranks_of({"stage.grpo.rollout={ group_size = 8, max_new_tokens = 8 }"}) == std::pair(2, 2));
  CHECK(ranks_of({"stage.grpo.ranks=5"}) == std::pair(5, 4));
  CHECK(ranks_of({"stage.grpo.rollout.ranks=2", "stage.grpo.ranks=3"}) == std::pair(3, 1));
  CHECK(ranks_of({"stage.grpo.ranks=3", "stage.grpo.rollout.ranks=2"}) == std::pair(3, 1));
}

TEST_CASE("a fork: what ranks that only draw cannot be is refused by name") {
  RunPlan plan = fork_test::plan_with_drawing_rank();
  const auto says = [&](const std::vector<std::string>& sets, const char* text) {
    const std::string refusal = fork_test::fork_refusal(plan, sets);
    CHECK_MESSAGE(refusal.find(text) != std::string::npos, refusal);
  };
  says({"stage.grpo.ranks=1"}, "1 ranks with rollout.ranks = 1: none is left to train");
  says({"stage.grpo.rollout.ahead=false"}, "rollout.ranks = 1 without rollout.ahead");
  plan.stages.front().common.nodes = 3;
  says({"stage.grpo.rollout.ranks=2"}, "4 ranks with rollout.ranks = 2 cannot be shared evenly by 3 nodes");
}

TEST_CASE("a fork: settings that need an input find it among the stage's") {
  RunPlan plan = fork_test::plan_with_drawing_rank("reward");
  plan.stages.front().settings.find("reward")->set("kind", "model");
  const auto stage = fork_test::forked_stage(plan, {"stage.grpo.steps=12"});
  CHECK_MESSAGE(stage.ok(), stage.error().message());
  plan.stages.front().inputs.pop_back();
  CHECK(fork_test::fork_refusal(plan, {"stage.grpo.steps=12"}).find("without the input 'reward'") != std::string::npos);
}

}  // namespace longhaul
