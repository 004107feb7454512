// Where a fork goes on that nobody gave a stage.
#include "orchestrator/runs/fork.h"

#include <doctest/doctest.h>

namespace longhaul {

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

}  // namespace longhaul
