// The critic of ppo in layouts: what one rank has of it, also behind a restart.
#include <doctest/doctest.h>

#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {

TEST_CASE("ppo in layouts: a critic lies over the ranks as the policy does, and goes on from there") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("method", "ppo"), task.settings.set("steps", 3);
  task.settings.set("global_batch_size", 16), task.settings.set("micro_batch_size", 4);
  task.settings.set("checkpoint", *parse_json(R"({"every_steps": 2, "keep_last": 1})"));
  task.settings.set("ppo", *parse_json(R"({"critic_lr": 0.003, "kl": "k3"})"));
  task.settings.find("rollout")->set("group_size", 1);
  folder.run_well(task, "one");
  const std::vector<Value> one = folder.metrics("one");
  REQUIRE(one.size() == 3);
  ParallelDims contexts = stage_layout(1, 1, 1, 0);
  contexts.cp = 2;
  for (const ParallelDims& dims : {stage_layout(2, 1, 2, 2), stage_layout(1, 2, 2, 3), contexts}) {
    CAPTURE(dims.to_string());
    const std::string out = replace_all(dims.to_string(), " ", "-");
    for (const Status& stopped : run_in_layout(folder, task, out, dims, {.stops = true}))
      CHECK(stopped.error().code == ErrorCode::aborted);
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> steps = folder.metrics(out);
    REQUIRE(steps.size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
      for (const char* name : {"loss", "reward", "answer_tokens", "grad_norm", "value_loss", "value",
                               "critic_grad_norm", "explained_variance", "kl_penalty", "kl_coefficient"}) {
        CAPTURE(name);
        CHECK(steps[i].get_number(name) == doctest::Approx(one[i].get_number(name)).epsilon(1e-4).scale(1));
      }
    CHECK(folder.checkpoints(out, "critic").back() == "step-00000003");
  }
}

}  // namespace longhaul
