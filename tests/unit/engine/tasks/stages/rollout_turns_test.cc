// Conversations of several turns with an environment, as a stage: what is learnt and reported, that restarts, layouts
// and answers ahead change nothing, and what a broken environment costs.
#include <doctest/doctest.h>

#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {

namespace {

namespace rollout_turns_test {

Value shell_program(const std::string& script) {
  Value argv = Value::make_array();
  for (const char* word : {"/bin/sh", "-c"}) argv.push_back(word);
  argv.push_back(script);
  return argv;
}

// What the model reads depends on how its answer began, and the turn is behind it; answers of even rows end it.
const std::string asks_for_red = R"(while read -r line; do case "$line" in
    *'"answer":"done"}') echo '{"done": true, "content": "well"}';;
    *'"content":"it is'*) echo '{"content": "red?"}';;
    *) echo '{"content": "it?"}';; esac; done)";
// 1 for red in the last turn; none where the turns are not there.
const std::string likes_red = R"(while read -r line; do case "$line" in
    *'"completion":"'*red*'"turns":[{"role":"assistant"'*) echo 1;;
    *'"turns":[{"role":"assistant"'*) echo 0;; *) echo none;; esac; done)";

// The model ends its answers more often than not.
Task two_turns(const RolloutFolder& folder) {
  folder.run_well(folder.task("sft", {{"model", "tuned"}, {"data", "questions"}},
                              R"({"sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 8, "epochs": 12,
                                  "precision": "f32", "optimizer": {"lr": 0.003}})"),
                  "talks");
  Task task = folder.grpo();
  task.inputs.front().paths = {folder.at("talks")};
  Value& rollout = *task.settings.find("rollout");
  rollout.set("turns", 2), rollout.set("environment", shell_program(asks_for_red));
  rollout.set("clip_low", 1e-3), rollout.set("clip_high", 1e-3), rollout.set("max_new_tokens", 18);
  Value reward = Value::make_table();
  reward.set("kind", "command"), reward.set("command", shell_program(likes_red));
  task.settings.set("reward", reward);
  return task;
}

// Half of the conversations end with their first turn.
void write_prompts(const RolloutFolder& folder) {
  std::string prompts;
  for (int i = 0; i < 24; ++i)
    prompts +=
        json_line({{"prompt", format("which colour is number {}?", i)}, {"answer", i % 2 == 0 ? "done" : "red"}});
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), prompts).ok());
}

std::string warnings_of(const RolloutFolder& folder, const std::string& out) {
  std::uint64_t offset = 0;
  std::string text;
  for (const std::vector<Event> all = *read_events(folder.at(out + ".events.jsonl"), offset); const Event& event : all)
    if (event.fields.get_string("level") == "warn") text += event.fields.get_string("text") + "\n";
  return text;
}

TEST_CASE(
    "learning from turns: the model's tokens alone are learnt from, at their places, and held-out prompts have turns") {
  const RolloutFolder folder;
  write_prompts(folder);
  Task task = two_turns(folder);
  task.settings.set("steps", 2);
  for (const char* method : {"grpo", "ppo"}) {
    CAPTURE(method);
    task.settings.set("method", method);
    folder.run_well(task, method);
    const std::vector<Value> steps = folder.metrics(method);
    REQUIRE(steps.size() == 2);
    for (const Value& step : steps) {
      CHECK(step.get_number("turns") > 1);
      CHECK(step.get_number("turns") <= 2);
      CHECK(step.get_number("answer_tokens") > 1);
      CHECK(step.get_number("reward_faults") == 0);
      CHECK(step.get_number("environment_faults", -1) == 0);
      for (const char* name : {"environment_s", "generate_s", "grad_norm", "entropy"}) CHECK(step.get_number(name) > 0);
      CHECK(step.get_number("clip_fraction") == 0);  // each number is of the token that was drawn there
    }
    const char* divergence = method == std::string("grpo") ? "kl" : "kl_penalty";
    CHECK(steps[0].get_number(divergence, 9) == doctest::Approx(0).epsilon(1e-5).scale(1));  // it is the reference
    CHECK(folder.figure(method, "heldout_turns") > 1);
    CHECK(folder.figure(method, "heldout_environment_faults") == 0);
  }
}

TEST_CASE("learning from turns: a restart, ranks and answers ahead keep what was drawn and whose it was") {
  const RolloutFolder folder;
  write_prompts(folder);
  Task task = two_turns(folder);
  task.inputs.pop_back();
  task.settings.set("steps", 3), task.settings.set("checkpoint", *parse_json(R"({"every_steps": 1, "keep_last": 9})"));
  Value& rollout = *task.settings.find("rollout");
  rollout.set("redraws", 1), rollout.set("ahead", true), rollout.set("threads", 1);
  folder.run_well(task, "whole");
  const std::vector<Value> steps = folder.metrics("whole");
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].get_number("turns") > 1);
  folder.run_in_parts(task, "parts", 1);
  CHECK(folder.weights("whole") == folder.weights("parts"));
  // With a cache for each conversation a turn reads what is new; the same is drawn.
  const std::int64_t slots = rollout.get_integer("slots");
  rollout.set("slots", 32);
  folder.run_well(task, "cached");
  rollout.set("slots", slots);
  const std::vector<Value> cached = folder.metrics("cached");
  for (const char* name : {"loss", "reward", "turns", "answer_tokens", "entropy"})
    CHECK(cached[0].get_number(name) == doctest::Approx(steps[0].get_number(name)).epsilon(1e-5).scale(1));
  CHECK(cached[0].get_number("read_tokens") > 0);
  CHECK(cached[0].get_number("read_tokens") < 0.9 * steps[0].get_number("read_tokens"));
  for (const ParallelDims& dims : {stage_layout(1, 1, 2, 0), stage_layout(2, 1, 1, 0)}) {
    CAPTURE(dims.to_string());
    const std::string out = replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> ranks = folder.metrics(out);
    REQUIRE(ranks.size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
      for (const char* name :
           {"loss", "reward", "kl", "turns", "answer_tokens", "entropy", "grad_norm", "redrawn_groups"}) {
        CAPTURE(name);
        CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-5).scale(1));
      }
  }
}

TEST_CASE("learning from turns: without a reply there is no reward, a reply without room ends the conversation") {
  const RolloutFolder folder;
  Task task = two_turns(folder);
  task.inputs.pop_back(), task.settings.set("steps", 1);
  Value& rollout = *task.settings.find("rollout");
  rollout.set("environment", shell_program("read -r line; echo Traceback; " + asks_for_red));
  folder.run_well(task, "broken");
  const Value broken = folder.metrics("broken").at(0);
  CHECK(broken.get_number("environment_faults") == 1);
  CHECK(broken.get_number("reward_faults") == 1);
  CHECK(broken.get_number("grad_norm") > 0);
  const std::string warned = warnings_of(folder, "broken");
  CHECK_MESSAGE(warned.find("1 of 32 answers have no reward") != std::string::npos, warned);
  CHECK(warned.find("of line ") != std::string::npos);
  CHECK(warned.find("the environment prints 'Traceback', which is no JSON") != std::string::npos);

  const std::string longest = std::string(60, 'x');
  rollout.set("environment", shell_program("while read -r line; do echo '{\"content\": \"" + longest + "\"}'; done"));
  folder.run_well(task, "long");
  CHECK(folder.metrics("long").at(0).get_number("turns") == 1);
  CHECK(folder.metrics("long").at(0).get_number("answers_cut") == 1);
  CHECK(folder.metrics("long").at(0).get_number("reward_faults") == 0);

  rollout.set("environment", shell_program("exit 3"));  // answers that are cut do without it
  folder.run_well(task, "dead");
  const Value dead = folder.metrics("dead").at(0);
  CHECK(dead.get_number("environment_faults") == 32 - 32 * dead.get_number("answers_cut"));
  CHECK(dead.get_number("environment_faults") > 16);
  CHECK(warnings_of(folder, "dead").find("the environment fails: exit code 3") != std::string::npos);
  rollout.set("environment", shell_program("sleep 60")), rollout.set("environment_deadline_s", 1);
  folder.run_well(task, "hangs");
  CHECK(folder.metrics("hangs").at(0).get_number("environment_faults") == dead.get_number("environment_faults"));
  CHECK(warnings_of(folder, "hangs").find("the environment fails: ") != std::string::npos);
  rollout.set("environment_role", "tool");
  CHECK(folder.refusal(task).find("rollout.environment_role = \"tool\"") != std::string::npos);
}

}  // namespace rollout_turns_test

}  // namespace
}  // namespace longhaul
