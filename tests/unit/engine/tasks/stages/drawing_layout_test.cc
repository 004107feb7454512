// Ranks of a replica that draw answers together, each with a part of the model (rollout.tp, rollout.pp), as a stage.
#include <doctest/doctest.h>

#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {

namespace {

namespace drawing_layout_test {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Drawn {
  ParallelDims dims;
  int tp = 1, pp = 1;
};

ParallelDims with_cp(ParallelDims dims, int cp) {
  dims.cp = cp;
  return dims;
}

Task drawing(Task task, int tp, int pp) {
  Value& rollout = *task.settings.find("rollout");
  rollout.set("tp", tp), rollout.set("pp", pp);
  return task;
}

// Every figure of every step as one rank has it.
void check_like_one(const RolloutFolder& folder, const Task& task, const std::string& name,
                    const std::vector<Drawn>& layouts, std::initializer_list<const char*> figures) {
  CAPTURE(name);
  folder.run_well(task, name);
  const std::vector<Value> one = folder.metrics(name);
  REQUIRE(one.size() >= 2);
  for (const Drawn& drawn : layouts) {
    CAPTURE(drawn.dims.to_string());
    CAPTURE(drawn.tp);
    CAPTURE(drawn.pp);
    const std::string out =
        format("{}-{}-{}-{}", name, replace_all(drawn.dims.to_string(), " ", "-"), drawn.tp, drawn.pp);
    run_on_ranks(folder, drawing(task, drawn.tp, drawn.pp), out, drawn.dims);
    const std::vector<Value> steps = folder.metrics(out);
    REQUIRE(steps.size() == one.size());
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* figure : figures) {
        CAPTURE(figure);
        CHECK(steps[i].get_number(figure) == doctest::Approx(one[i].get_number(figure)).epsilon(1e-5).scale(1));
      }
    for (const char* figure : {"heldout_accuracy", "heldout_answer_tokens"}) {
      CAPTURE(figure);
      CHECK(folder.figure(out, figure) == doctest::Approx(folder.figure(name, figure)).epsilon(1e-5));
    }
  }
}

TEST_CASE("ranks that draw together learn what one rank does: with the parts that they train, and with others") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 2), task.settings.find("rollout")->set("redraws", 1);
  check_like_one(folder, task, "grpo",
                 {{stage_layout(2, 1, 2, 2), 2, 1},
                  {stage_layout(2, 2, 1, 0), 2, 2},
                  {stage_layout(2, 2, 1, 0), 1, 2},
                  {stage_layout(1, 2, 2, 3), 2, 1},
                  {with_cp(stage_layout(1, 1, 1, 0), 2), 2, 1}},
                 {"loss", "reward", "accuracy", "kl", "answer_tokens", "entropy", "grad_norm", "redrawn_groups"});
}

TEST_CASE("ranks that draw together have what adapters make of parts, and of what stands before texts") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 2), task.settings.find("optimizer")->set("lr", 0.02);
  const std::initializer_list<const char*> figures = {"loss", "reward", "kl", "answer_tokens", "entropy", "grad_norm"};
  task.settings.set("adapter", *parse_json(R"({"kind": "lora", "rank": 4})"));
  check_like_one(folder, task, "lora", {{stage_layout(2, 1, 1, 0), 2, 1}, {stage_layout(2, 1, 1, 0), 1, 2}}, figures);
  task.settings.set("adapter", *parse_json(R"({"kind": "prefix", "virtual_tokens": 4})"));
  check_like_one(folder, task, "prefix", {{stage_layout(1, 2, 1, 0), 2, 1}}, figures);
}

TEST_CASE("ranks that draw together ask an environment and a reward once for each answer") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.inputs.pop_back();  // held-out prompts, which are asked about too
  task.settings.set("steps", 1);
  const auto program = [&](const std::string& script) {
    Value argv = Value::make_array();
    for (const char* word : {"/bin/sh", "-c"}) argv.push_back(word);
    argv.push_back(script);
    return argv;
  };
  // Each line that is asked about is written down.
  const std::string asked = folder.at("asked"), judged = folder.at("judged");
  Value& rollout = *task.settings.find("rollout");
  rollout.set("turns", 2), rollout.set("max_new_tokens", 6), rollout.set("redraws", 0);
  rollout.set("environment",
              program("while read -r line; do echo x >> " + asked + "; echo '{\"content\": \"again?\"}'; done"));
  Value reward = Value::make_table();
  reward.set("kind", "command"),
      reward.set("command", program("while read -r line; do echo x >> " + judged + "; echo 1; done"));
  task.settings.set("reward", reward);
  const auto lines = [](const std::string& path) { return file_exists(path) ? read_file(path)->size() / 2 : 0; };
  run_on_ranks(folder, drawing(task, 2, 1), "turns", stage_layout(2, 2, 1, 0));
  CHECK(lines(judged) == 32);  // the answers of a step
  CHECK(lines(asked) <= 32);
  const std::size_t once = lines(asked);
  REQUIRE(std::filesystem::remove(asked));
  folder.run_well(task, "alone");
  CHECK(lines(asked) == once);
}

TEST_CASE("a layout that ranks cannot draw in is refused, with the numbers and what would do") {
  const RolloutFolder folder;
  const auto said = [&](const Task& task, const ParallelDims& dims) {
    const std::vector<Status> all = run_in_layout(folder, task, "refused", dims);
    for (const Status& one : all) REQUIRE_FALSE(one.ok());
    return all.front().error().message();
  };
  CHECK(says(said(drawing(folder.grpo(), 2, 1), stage_layout(1, 1, 2, 0)),
             "rollout.tp(2) * rollout.pp(1) = 2 ranks draw together, and a replica has tp(1) * cp(1) * pp(1) = 1"));
  CHECK(says(said(drawing(folder.grpo(), 4, 1), stage_layout(2, 2, 1, 0)),
             "rollout.tp = 4 does not divide model.num_key_value_heads = 2"));
  Task ahead = drawing(folder.grpo(), 2, 1);
  ahead.settings.find("rollout")->set("ahead", true);
  CHECK(says(folder.refusal(ahead), "rollout.tp = 2 with rollout.ahead"));
  ahead.settings.find("rollout")->set("ranks", 3);
  for (const Status& one : run_in_layout(folder, ahead, "refused", stage_layout(1, 1, 1, 0), {.drawing = 3})) {
    REQUIRE_FALSE(one.ok());
    CHECK(says(one.error().message(), "rollout.tp(2) * rollout.pp(1) = 2 ranks draw together, and rollout.ranks = 3"));
  }
}

}  // namespace drawing_layout_test

}  // namespace
}  // namespace longhaul
