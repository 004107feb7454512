// Post-training in layouts drawn by a seed, each against one rank: losses and gradients of `sft` with LoRA, of DPO, of
// KTO, of a reward model and of a step of GRPO, and of all but the first with a model that has experts. The models are
// tiny; a rank is a thread. Each has every second layout, the next one the others; in the long test each has all.
#include <doctest/doctest.h>

#include <array>

#include "contracts/events/event.h"
#include "tests/support/long_run.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

namespace random_stage_layouts_test {

constexpr int ranks_max = 8, batch = 16, micro_batch = 2;

// What the four layers, four heads and two key-value heads of the model, and the four experts of the other one, can be
// spread over.
ParallelDims draw_layout(PhiloxSequence& random, bool experts) {
  for (;;) {
    const auto one_of = [&](std::initializer_list<int> values) {
      return values.begin()[random.next_below(values.size())];
    };
    ParallelDims dims;
    dims.tp = one_of({1, 2}), dims.sp = dims.tp > 1 && one_of({0, 1}) == 1;
    dims.cp = one_of({1, 1, 2});
    dims.pp = one_of({1, 1, 2, 4}), dims.vp = dims.pp == 2 ? one_of({1, 2}) : 1;
    dims.dp_replicate = one_of({1, 2}), dims.dp_shard = one_of({1, 2, 4});
    dims.zero = dims.dp_shard > 1 ? one_of({1, 2, 3}) : 0;
    if (experts) dims.ep = one_of({1, 2, 4}), dims.etp = one_of({1, 2});
    if (experts && (dims.ep * dims.etp == 1 || !expert_dims_of(dims).ok())) continue;
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
    Value& shape = *pretrain.settings.find("model");
    shape.set("architecture", "mixtral"), shape.set("num_local_experts", 4), shape.set("num_experts_per_tok", 2);
    pretrain.settings.set("steps", 20);
    run_well(pretrain, "experts");
    std::string prompts, labels;
    for (int i = 0; i < 24; ++i) {
      const std::string prompt = format("which colour is number {}?", i);
      prompts += json_line({{"prompt", prompt}, {"answer", "red"}});
      labels += format("{{\"prompt\": \"{}\", \"completion\": \"it is red.\", \"label\": {}}}\n", prompt, i % 2 == 0);
    }
    REQUIRE(write_file_atomic(at("prompts.jsonl"), prompts).ok());
    REQUIRE(write_file_atomic(at("labels.jsonl"), labels).ok());
  }
  std::vector<std::pair<std::string, Task>> tasks(const std::string& base) const {
    const std::string common = format(
        R"("sequence_length": 64, "micro_batch_size": {}, "global_batch_size": {}, "precision": "f32",
           "optimizer": {{"lr": 0.001, "warmup_steps": 0}})",
        micro_batch, batch);
    return {{"sft with LoRA", task("sft", {{"model", base}, {"data", "questions"}},
                                   "{" + common + R"(, "steps": 2, "adapter": {"kind": "lora", "rank": 4}})")},
            {"dpo", task("align", {{"model", base}, {"data", "questions"}}, "{" + common + R"(, "steps": 2})")},
            {"kto", task("align", {{"model", base}, {"data", "labels.jsonl"}},
                         "{" + common + R"(, "steps": 2, "method": "kto"})")},
            {"reward", task("reward", {{"model", base}, {"data", "questions"}}, "{" + common + R"(, "steps": 2})")},
            {"grpo", task("align", {{"model", base}, {"data", "prompts.jsonl"}},
                          "{" + common + R"(, "steps": 1, "method": "grpo", "beta": 0.05,
                            "rollout": {"group_size": 2, "max_new_tokens": 12, "slots": 8},
                            "reward": {"kind": "regex", "pattern": "[a-m]$"}})")}};
  }
  // Of adapters that experts have not: before texts, and behind layers.
  std::vector<std::pair<std::string, Task>> adapted_tasks() const {
    std::vector<std::pair<std::string, Task>> adapted;
    for (const auto& [name, task] : tasks("base")) {
      const bool pairs = name == "dpo";
      if (!pairs && name != "reward") continue;
      adapted.emplace_back(name + (pairs ? " with a prefix" : " with bottlenecks"), task);
      adapted.back().second.settings.set("adapter",
                                         *parse_json(pairs ? R"({"kind": "prefix", "virtual_tokens": 4})"
                                                           : R"({"kind": "bottleneck", "bottleneck_size": 6})"));
    }
    return adapted;
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

// Keys and values of a cp group come in one of three ways, of which the last needs a key-value head for each rank.
void choose_attention(PhiloxSequence& random, const ParallelDims& dims, Task& task) {
  const std::uint64_t ways = dims.tp * dims.cp > 2 ? 2 : 3;
  task.settings.set("cp_attention", std::array{"ring", "gather", "a2a"}[random.next_below(ways)]);
}

void check_in_layouts(const TunedFolder& folder, const std::string& name, Task task,
                      const std::vector<ParallelDims>& layouts, PhiloxSequence& random, std::size_t turn) {
  CAPTURE(name);
  folder.run_well(task, "one-" + name);
  const std::vector<double> alone = folder.curve("one-" + name);
  REQUIRE(alone.size() >= 2);
  CHECK(alone[1] > 0);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (!testing::long_run() && (i + turn) % 2 == 0) continue;
    choose_attention(random, layouts[i], task);
    CAPTURE(layouts[i].to_string());
    CAPTURE(task.settings.get_string("cp_attention"));
    const std::string out = format("{}-{}", name, i);
    run_on_ranks(folder, task, out, layouts[i]);
    const std::vector<double> spread = folder.curve(out);
    REQUIRE(spread.size() == alone.size());
    for (std::size_t k = 0; k < spread.size(); ++k)
      CHECK(spread[k] == doctest::Approx(alone[k]).epsilon(1e-5).scale(1));
  }
}

TEST_CASE("post-training in layouts drawn by a seed: losses and gradients are those of one rank") {
  const std::uint64_t seed = testing::seed(20261129);
  CAPTURE(seed);
  PhiloxSequence random(seed);
  const TunedFolder folder;
  std::vector<ParallelDims> layouts, of_experts;
  std::size_t turn = 0;
  for (int i = 0; i < (testing::sanitized ? 2 : 8); ++i) layouts.push_back(draw_layout(random, false));
  for (int i = 0; i < (testing::sanitized ? 1 : 3); ++i) of_experts.push_back(draw_layout(random, true));
  for (const auto& [name, task] : folder.tasks("base")) check_in_layouts(folder, name, task, layouts, random, turn++);
  for (const auto& [name, task] : folder.tasks("experts"))
    if (task.kind != "sft") check_in_layouts(folder, "experts-" + name, task, of_experts, random, turn++);
  for (const auto& [name, task] : folder.adapted_tasks()) check_in_layouts(folder, name, task, layouts, random, turn++);
}

}  // namespace random_stage_layouts_test

}  // namespace
}  // namespace longhaul
