// Post-training in layouts drawn by a seed, each against one rank: losses and gradients of `sft` with LoRA, of DPO, of
// KTO, of a reward model and of a step of GRPO. The models are tiny; a rank is a thread.
#include <doctest/doctest.h>

#include "contracts/events/event.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

namespace random_stage_layouts_test {

constexpr int ranks_max = 8, batch = 32, micro_batch = 4;

// What the four layers, four heads and two key-value heads of the model can be spread over.
ParallelDims draw_layout(PhiloxSequence& random) {
  for (;;) {
    const auto one_of = [&](std::initializer_list<int> values) {
      return values.begin()[random.next_below(values.size())];
    };
    ParallelDims dims;
    dims.tp = one_of({1, 2}), dims.sp = dims.tp > 1 && one_of({0, 1}) == 1;
    dims.pp = one_of({1, 1, 2, 4}), dims.vp = dims.pp == 2 ? one_of({1, 2}) : 1;
    dims.dp_replicate = one_of({1, 2}), dims.dp_shard = one_of({1, 2, 4});
    dims.zero = dims.dp_shard > 1 ? one_of({1, 2, 3}) : 0;
    const int micro_batches = batch / micro_batch / dims.dp();
    if (dims.world_size() > 1 && dims.world_size() <= ranks_max && (dims.vp == 1 || micro_batches % dims.pp == 0))
      return dims;
  }
}

class TunedFolder : public StageFolder {
 public:
  TunedFolder() {
    Task pretrain = task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
    pretrain.settings.find("model")->set("num_hidden_layers", 4);
    run_well(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    run_well(pretrain, "base");
    std::string prompts, labels;
    for (int i = 0; i < 24; ++i) {
      const std::string prompt = format("which colour is number {}?", i);
      prompts += json_line({{"prompt", prompt}, {"answer", "red"}});
      labels += format("{{\"prompt\": \"{}\", \"completion\": \"it is red.\", \"label\": {}}}\n", prompt, i % 2 == 0);
    }
    REQUIRE(write_file_atomic(at("prompts.jsonl"), prompts).ok());
    REQUIRE(write_file_atomic(at("labels.jsonl"), labels).ok());
  }
  std::vector<std::pair<std::string, Task>> tasks() const {
    const std::string common = format(
        R"("sequence_length": 64, "micro_batch_size": {}, "global_batch_size": {}, "precision": "f32",
           "optimizer": {{"lr": 0.001, "warmup_steps": 0}})",
        micro_batch, batch);
    return {{"sft with LoRA", task("sft", {{"model", "base"}, {"data", "questions"}},
                                   "{" + common + R"(, "steps": 2, "adapter": {"kind": "lora", "rank": 4}})")},
            {"dpo", task("align", {{"model", "base"}, {"data", "questions"}}, "{" + common + R"(, "steps": 2})")},
            {"kto", task("align", {{"model", "base"}, {"data", "labels.jsonl"}},
                         "{" + common + R"(, "steps": 2, "method": "kto"})")},
            {"reward", task("reward", {{"model", "base"}, {"data", "questions"}}, "{" + common + R"(, "steps": 2})")},
            {"grpo", task("align", {{"model", "base"}, {"data", "prompts.jsonl"}},
                          "{" + common + R"(, "steps": 1, "method": "grpo", "beta": 0.05,
                            "rollout": {"group_size": 4, "max_new_tokens": 12, "slots": 8},
                            "reward": {"kind": "regex", "pattern": "[a-m]$"}})")}};
  }
  // loss and grad_norm of each step.
  std::vector<double> curve(const std::string& out) const {
    std::uint64_t offset = 0;
    std::vector<double> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find("loss") && event.fields.find("grad_norm"))
        for (const char* name : {"loss", "grad_norm"}) found.push_back(event.fields.get_number(name));
    return found;
  }
};

TEST_CASE("post-training in layouts drawn by a seed: losses and gradients are those of one rank") {
  const std::uint64_t seed = testing::seed(20261129);
  CAPTURE(seed);
  PhiloxSequence random(seed);
  const TunedFolder folder;
  std::vector<ParallelDims> layouts;
  for (int i = 0; i < (testing::sanitized ? 2 : 10); ++i) layouts.push_back(draw_layout(random));
  for (const auto& [name, task] : folder.tasks()) {
    CAPTURE(name);
    folder.run_well(task, "one-" + name);
    const std::vector<double> alone = folder.curve("one-" + name);
    REQUIRE(alone.size() >= 2);
    CHECK(alone[1] > 0);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      CAPTURE(layouts[i].to_string());
      const std::string out = format("{}-{}", name, i);
      run_on_ranks(folder, task, out, layouts[i]);
      const std::vector<double> spread = folder.curve(out);
      REQUIRE(spread.size() == alone.size());
      for (std::size_t k = 0; k < spread.size(); ++k)
        CHECK(spread[k] == doctest::Approx(alone[k]).epsilon(1e-5).scale(1));
    }
  }
}

}  // namespace random_stage_layouts_test

}  // namespace
}  // namespace longhaul
