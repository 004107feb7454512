// Learning from rewards of the model's own answers, as a stage: what it reports, that a restart changes no bit, that
// ranks change nothing, and what is said of bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/digest/hash.h"
#include "base/files/file_retry.h"
#include "contracts/events/event.h"
#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("learning from rewards: the reward rises, a restart and other ranks change nothing") {
  const RolloutFolder folder;
  const Task grpo = folder.grpo();
  folder.run_well(grpo, "whole");
  const std::vector<Value> steps = folder.metrics("whole");
  REQUIRE(steps.size() == 4);
  for (const Value& step : steps) {
    CHECK(step.get_number("answer_tokens") > 1);
    CHECK(step.get_number("entropy") > 0);
    CHECK(step.get_number("clip_fraction") == 0);  // drawn by the same weights
    for (const char* name : {"accuracy", "answers_cut", "equal_groups", "reward_faults"})
      CHECK(step.get_number(name, -1) >= 0);
    for (const char* name : {"generate_s", "reward_s", "reference_s", "train_s"}) CHECK(step.get_number(name) > 0);
  }
  CHECK(steps[0].get_number("kl") == doctest::Approx(0).epsilon(1e-6).scale(1));  // it is the reference
  CHECK(steps[3].get_number("kl") > 1e-4);
  CHECK(folder.figure("whole", "prompts") == 24);
  CHECK(folder.figure("whole", "heldout_accuracy") >= 0);

  // Stopped after its first step and started again: the same bits.
  const std::atomic<bool> stop{true};
  const Status stopped = folder.run(grpo, "parts", stop);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::aborted);
  folder.run_well(grpo, "parts");
  CHECK(folder.weights("whole") == folder.weights("parts"));

  run_on_ranks(folder, grpo, "ranks", 2);
  const std::vector<Value> ranks = folder.metrics("ranks");
  REQUIRE(ranks.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    for (const char* name : {"loss", "reward", "accuracy", "kl", "answer_tokens", "grad_norm", "equal_groups"}) {
      CAPTURE(name);
      CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-5).scale(1));
    }
}

TEST_CASE("learning from rewards: several updates learn from one rollout, with ratios to what drew it, bit for bit") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 10), task.settings.set("checkpoint", *parse_json(R"({"every_steps": 1, "keep_last": 9})"));
  Value& rollout = *task.settings.find("rollout");
  rollout.set("minibatches", 2), rollout.set("epochs", 2), rollout.set("clip_low", 1e-3),
      rollout.set("clip_high", 1e-3);
  folder.run_well(task, "whole");
  const std::vector<Value> steps = folder.metrics("whole");
  REQUIRE(steps.size() == 10);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool begins = i % 4 == 0;
    CAPTURE(i);
    CHECK((steps[i].get_number("generate_s") > 0) == begins);
    CHECK((steps[i].get_number("clip_fraction") > 0) == !begins);  // the weights have moved since
    CHECK(steps[i].get_number("entropy") == steps[i - i % 4].get_number("entropy"));
  }
  // Answers of the same batch: rewards are those of before.
  for (const std::size_t i : {0U, 1U, 4U, 5U})
    CHECK(steps[i].get_number("reward") == steps[i + 2].get_number("reward"));
  CHECK(folder.checkpoints("whole", "checkpoints") ==
        std::vector<std::string>{"step-00000004", "step-00000008", "step-00000010"});
  folder.run_in_parts(task, "parts", 4);
  CHECK(folder.weights("whole") == folder.weights("parts"));

  run_on_ranks(folder, task, "ranks", 2);
  const std::vector<Value> ranks = folder.metrics("ranks");
  REQUIRE(ranks.size() == 10);
  for (std::size_t i = 0; i < 10; ++i)
    for (const char* name : {"reward", "kl", "answer_tokens", "entropy", "reward_deviation"}) {
      CAPTURE(name);
      CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-4).scale(1));
    }
}

TEST_CASE("learning from rewards: ppo trains a critic beside the model; restarts and ranks change nothing") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("method", "ppo"), task.settings.set("steps", 8);
  task.settings.set("checkpoint", *parse_json(R"({"every_steps": 4, "keep_last": 1})"));
  task.settings.set("ppo", *parse_json(R"({"critic_lr": 0.003, "kl_target": 0.01, "kl": "k3", "gamma": 0.99})"));
  Value& rollout = *task.settings.find("rollout");
  rollout.set("group_size", 1), rollout.set("minibatches", 2), rollout.set("epochs", 2),
      rollout.set("average", "token");
  folder.run_well(task, "whole");
  const std::vector<Value> steps = folder.metrics("whole");
  REQUIRE(steps.size() == 8);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK((steps[i].get_number("value_s", -1) > 0) == (i % 4 == 0));
    CHECK(steps[i].get_number("critic_s") > 0);
    CHECK(steps[i].get_number("critic_grad_norm") > 0);
    CHECK(steps[i].get_number("value_loss") > 0);
    CHECK(steps[i].get_number("explained_variance", 9) <= 1);
    for (const char* name : {"value", "value_clip_fraction", "kl_penalty"}) CHECK(steps[i].find(name) != nullptr);
  }
  CHECK(steps[0].get_number("kl_penalty") == doctest::Approx(0).epsilon(1e-6).scale(1));
  CHECK(steps[7].get_number("kl_penalty") > 0);
  // 64 answers far below the target lower beta by a fifth of their share of the horizon.
  CHECK(steps[0].get_number("kl_coefficient") == 0.05);
  CHECK(steps[4].get_number("kl_coefficient") == doctest::Approx(0.05 * (1 - 0.2 * 64 / 10'000)));
  CHECK(steps[3].get_number("value_loss") < steps[1].get_number("value_loss"));  // of the same answers
  CHECK(folder.figure("whole", "heldout_answer_tokens") > 1);
  CHECK(folder.figure("whole", "heldout_reward_deviation") >= 0);

  // Each critic stands beside the checkpoint of the model that it belongs to, and no other stays.
  folder.run_in_parts(task, "parts", 4);
  CHECK(folder.weights("whole") == folder.weights("parts"));
  for (const char* out : {"whole", "parts"})
    for (const char* of : {"checkpoints", "critic"}) CHECK(folder.checkpoints(out, of).back() == "step-00000008");
  CHECK(folder.checkpoints("whole", "critic").size() <= 2);
  const auto critic_of = [&](const std::string& out) {
    const std::string at = folder.at(out + ".state/critic/step-00000008");
    std::string all;
    const std::vector<std::string> names = *names_if_there(at);
    for (const std::string& name : names)
      if (name.find(".safetensors") != std::string::npos) all += *read_file(at + "/" + name);
    return all;
  };
  CHECK(!critic_of("whole").empty());
  CHECK(critic_of("whole") == critic_of("parts"));

  // A critic that is ahead, as after a kill between the two saves, is not gone on with.
  const std::atomic<bool> kill{true};
  REQUIRE_FALSE(folder.run(task, "ahead", kill).ok());
  std::filesystem::copy(folder.at("ahead.state/critic/step-00000004"), folder.at("ahead.state/critic/step-00000008"),
                        std::filesystem::copy_options::recursive);
  folder.run_well(task, "ahead");
  CHECK(folder.weights("whole") == folder.weights("ahead"));
  CHECK(critic_of("whole") == critic_of("ahead"));

  run_on_ranks(folder, task, "ranks", 2);
  const std::vector<Value> ranks = folder.metrics("ranks");
  REQUIRE(ranks.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    for (const char* name :
         {"loss", "reward", "value_loss", "explained_variance", "kl_coefficient", "critic_grad_norm"}) {
      CAPTURE(name);
      CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-4).scale(1));
    }

  // Without the critic that belongs to its checkpoint a training does not go on as if nothing were missing.
  const std::atomic<bool> stop{true};
  REQUIRE_FALSE(folder.run(task, "lost", stop).ok());
  REQUIRE(remove_tree(folder.at("lost.state/critic")).ok());
  const std::atomic<bool> goes_on{false};
  const Status lost = folder.run(task, "lost", goes_on);
  REQUIRE_FALSE(lost.ok());
  CHECK(has_text(lost.error().message(), "the critic that belongs to"));
}

TEST_CASE("learning from rewards: groups whose rewards are equal give way to others within a bound, on any ranks") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.inputs.pop_back();
  task.settings.set("steps", 2);
  const auto step_of = [&](const std::string& out, const char* pattern, int redraws) {
    task.settings.find("reward")->set("pattern", pattern), task.settings.find("rollout")->set("redraws", redraws);
    folder.run_well(task, out);
    return folder.metrics(out).at(0);
  };
  const Value kept = step_of("kept", "red", 0), some = step_of("some", "red", 8);
  REQUIRE(kept.get_number("equal_groups") > 0);
  CHECK(some.get_number("equal_groups") < kept.get_number("equal_groups"));
  CHECK(some.get_number("redrawn_groups") >= kept.get_number("equal_groups"));
  CHECK(some.get_number("drawn_reward") != some.get_number("reward"));
  CHECK(!kept.find("redrawn_groups"));
  run_on_ranks(folder, task, "ranks", 2);
  for (const char* name : {"reward", "equal_groups", "redrawn_groups", "drawn_reward", "entropy"}) {
    CAPTURE(name);
    CHECK(folder.metrics("ranks").at(0).get_number(name) == doctest::Approx(some.get_number(name)).epsilon(1e-5));
  }
  // Where all are equal each group is drawn three times, the last stays, and nothing is learnt.
  const Value none = step_of("none", "no colour", 2);
  CHECK(none.get_number("redrawn_groups") == 2);
  CHECK(none.get_number("equal_groups") == 1);
  CHECK(none.get_number("grad_norm") == doctest::Approx(0).epsilon(1e-6).scale(1));
}

TEST_CASE(
    "learning from rewards: answers drawn beside the step before are one step older; a restart and ranks change "
    "nothing") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 5), task.settings.set("checkpoint", *parse_json(R"({"every_steps": 1, "keep_last": 9})"));
  Value& rollout = *task.settings.find("rollout");
  rollout.set("clip_low", 1e-4), rollout.set("clip_high", 1e-4), rollout.set("redraws", 1);
  folder.run_well(task, "plain");
  rollout.set("ahead", true), rollout.set("threads", 1);
  folder.run_well(task, "whole");
  const std::vector<Value> plain = folder.metrics("plain"), steps = folder.metrics("whole");
  REQUIRE(steps.size() == 5);
  CHECK(steps[0].get_number("entropy") == plain[0].get_number("entropy"));
  CHECK(steps[1].get_number("entropy") != plain[1].get_number("entropy"));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK(plain[i].get_number("clip_fraction") == 0);
    CHECK((steps[i].get_number("clip_fraction") > 0) ==
          (i > 0));  // the weights that drew them are not those that learn
    for (const char* name : {"generate_s", "reward_s", "train_s"}) CHECK(steps[i].get_number(name) > 0);
    CHECK(steps[i].get_number("wait_s", -1) >= 0);
  }

  // What was drawn for a step to come is kept beside each checkpoint but the last.
  std::vector<std::string> kept = folder.checkpoints("whole", "checkpoints");
  REQUIRE(kept.size() == 5);
  kept.pop_back();
  CHECK(folder.checkpoints("whole", "ahead") == kept);
  folder.run_in_parts(task, "parts", 1);
  CHECK(folder.weights("whole") == folder.weights("parts"));

  // With ZeRO 3 replicas that draw groups again need the weights of those that do not.
  for (const ParallelDims& dims : {stage_layout(1, 1, 2, 1), stage_layout(2, 1, 1, 0), stage_layout(1, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    const std::string out = replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> ranks = folder.metrics(out);
    REQUIRE(ranks.size() == 5);
    for (std::size_t i = 0; i < 5; ++i)
      for (const char* name : {"loss", "reward", "kl", "answer_tokens", "entropy", "redrawn_groups"}) {
        CAPTURE(name);
        CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-5).scale(1));
      }
  }

  // A damaged file of answers is not learnt from.
  const std::atomic<bool> stop{true}, goes_on{false};
  CHECK_FALSE(folder.run(task, "damaged", stop).ok());
  const std::string path = folder.at("damaged.state/ahead/step-00000001");
  const std::string whole = *read_file(path);
  REQUIRE(write_file_atomic(path, whole.substr(0, whole.size() - 1)).ok());
  const Status damaged = folder.run(task, "damaged", goes_on);
  REQUIRE_FALSE(damaged.ok());
  CHECK(has_text(damaged.error().message(), "the answers that were drawn ahead are damaged"));

  // Nor are answers to other prompts, as a fork may have them.
  REQUIRE(write_file_atomic(path, whole).ok());
  const std::string prompts = *read_file(folder.at("prompts.jsonl"));
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), replace_all(prompts, "number", "house")).ok());
  CHECK_FALSE(folder.run(task, "damaged", stop).ok());
  CHECK(has_text(*read_file(folder.at("damaged.events.jsonl")), "answers to other prompts"));
}

TEST_CASE("learning from rewards: guessed tokens change no answer, and are counted over all ranks") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 2);
  folder.run_well(task, "plain");
  task.settings.find("rollout")->set("speculate", "ngram");
  folder.run_well(task, "guessed");
  run_on_ranks(folder, task, "ranks", 2);
  const std::vector<Value> plain = folder.metrics("plain"), guessed = folder.metrics("guessed");
  const std::vector<Value> ranks = folder.metrics("ranks");
  double accepted = 0, longest_step = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (const char* name : {"loss", "reward", "answer_tokens", "entropy", "kl"}) {
      CAPTURE(name);
      CHECK(guessed[i].get_number(name) == doctest::Approx(plain[i].get_number(name)).epsilon(1e-5).scale(1));
    }
    for (const char* name : {"draft_tokens", "drafts_accepted", "tokens_per_step"}) {
      CAPTURE(name);
      CHECK_FALSE(plain[i].find(name));
      CHECK(guessed[i].find(name));
    }
    accepted += guessed[i].get_number("drafts_accepted");
    longest_step = std::max(longest_step, guessed[i].get_number("tokens_per_step"));
    CHECK(ranks[i].get_number("answer_tokens") ==
          doctest::Approx(guessed[i].get_number("answer_tokens")).epsilon(1e-5).scale(1));
  }
  CHECK(accepted > 0);
  CHECK(longest_step > 1);
}

TEST_CASE("learning from rewards: every method, average and ratio, and adapters, learn without a reference") {
  const RolloutFolder folder;
  for (const char* method : {"rloo", "reinforce++", "grpo"})
    for (const char* average : {"token", "longest"}) {
      Task task = folder.grpo();
      task.settings.set("method", method), task.settings.set("beta", 0), task.settings.set("steps", 2);
      task.settings.find("rollout")->set("average", average);
      if (std::string(method) == "grpo") task.settings.set("adapter", *parse_json(R"({"kind": "lora", "rank": 4})"));
      if (std::string(average) == "longest") task.settings.find("rollout")->set("ratio", "sequence");
      const std::string out = format("{}-{}", method, average);
      folder.run_well(task, out);
      for (const Value& step : folder.metrics(out)) {
        CHECK(step.get_number("kl") == 0);
        CHECK(std::isfinite(step.get_number("loss")));
        CHECK(step.get_number("reference_s") < step.get_number("generate_s"));
      }
    }
}

TEST_CASE("learning from rewards: answers without one are counted and teach nothing; a step of them ends the run") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 1);
  const auto judged_by = [&](const std::string& script) {
    Value reward = Value::make_table(), command = Value::make_array();
    for (const std::string& word : {std::string("sh"), std::string("-c"), script}) command.push_back(word);
    reward.set("kind", "command"), reward.set("command", std::move(command));
    task.settings.set("reward", std::move(reward));
  };
  judged_by(
      "i=0; while read -r line; do i=$((i+1)); if [ $((i % 4)) = 0 ]; then echo nan; else echo $((i % 2)); fi; done");
  Task alone = task;
  alone.inputs.pop_back();
  folder.run_well(alone, "some");
  CHECK(folder.metrics("some").at(0).get_number("reward_faults") == 8);
  judged_by("echo none");
  const std::string text = folder.refusal(task);
  CHECK(has_text(text, "step 1: no answer has a reward"));
  CHECK(has_text(text, "'none', which is no number"));
}

TEST_CASE("learning from a teacher: its divergence falls, a restart and layouts change nothing") {
  const RolloutFolder folder;
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"),
                            [] {
                              std::string rows;
                              for (int i = 0; i < 24; ++i)
                                rows += json_line({{"prompt", format("which colour is number {}?", i)}});
                              return rows;
                            }())
              .ok());
  Task task = folder.distill("tuned");
  folder.run_well(task, "whole");
  const std::vector<Value> steps = folder.metrics("whole");
  REQUIRE(steps.size() == 12);
  for (const Value& step : steps) {
    CHECK(step.get_number("clip_fraction") == 0);  // drawn by the same weights
    CHECK(step.get_number("kl") > 0);
    for (const char* name : {"generate_s", "reference_s", "train_s"}) CHECK(step.get_number(name) > 0);
    for (const char* name : {"reward", "accuracy", "equal_groups", "reward_faults", "reward_deviation", "reward_s"})
      CHECK_FALSE(step.find(name));
  }
  CHECK(steps[0].get_number("loss") > 0.5);
  CHECK(steps[11].get_number("loss") < 0.7 * steps[0].get_number("loss"));
  CHECK(folder.figure("whole", "heldout_loss") < 0.7 * steps[0].get_number("loss"));
  CHECK(folder.figure("whole", "heldout_kl") > 0);
  CHECK(folder.figure("whole", "heldout_answer_tokens") > 1);
  CHECK(folder.figure("whole", "heldout_accuracy") == -1e9);

  Task short_one = task;
  short_one.settings.set("steps", 4);
  folder.run_well(short_one, "short");
  folder.run_in_parts(short_one, "parts", 1);
  CHECK(folder.weights("short") == folder.weights("parts"));

  const std::vector<Value> alone = folder.metrics("short");
  int layouts = 0;
  for (const ParallelDims& dims : {stage_layout(1, 1, 2, 0), stage_layout(2, 1, 1, 0), stage_layout(1, 2, 2, 3)}) {
    CAPTURE(dims.to_string());
    const std::string out = format("layout-{}", ++layouts);
    run_on_ranks(folder, short_one, out, dims);
    const std::vector<Value> ranks = folder.metrics(out);
    REQUIRE(ranks.size() == 4);  // a draw may fall on the other side of a last bit later
    for (std::size_t i = 0; i < 4; ++i)
      for (const char* name : {"loss", "kl", "answer_tokens", "grad_norm"}) {
        CAPTURE(name);
        CHECK(ranks[i].get_number(name) == doctest::Approx(alone[i].get_number(name)).epsilon(1e-4).scale(1));
      }
  }

  // Held-out answers are drawn by the seed, and not the likeliest, which no seed changes.
  task.settings.set("steps", 1), task.settings.find("optimizer")->set("lr", 0.0);
  std::vector<double> heldout;
  for (const int seed : {1, 2, 1}) {
    task.settings.set("seed", seed);
    const std::string out = format("draw-{}", heldout.size());
    folder.run_well(task, out);
    heldout.push_back(folder.figure(out, "heldout_loss"));
  }
  CHECK(heldout[0] != heldout[1]);
  CHECK(heldout[0] == heldout[2]);

  // From itself nothing is to be learnt: the student drew with the teacher's probabilities.
  task = folder.distill("base");
  task.settings.set("steps", 1);
  folder.run_well(task, "itself");
  const Value itself = folder.metrics("itself").at(0);
  for (const char* name : {"loss", "kl", "grad_norm"}) {
    CAPTURE(name);
    CHECK(itself.get_number(name) == doctest::Approx(0).epsilon(1e-4).scale(1));
  }
}

TEST_CASE(
    "learning from a teacher: one of another tokenizer, form, vocabulary or length, without numbers, or none, is "
    "refused") {
  const RolloutFolder folder;
  const std::string tokenizer = *read_file(folder.at("tuned/tokenizer.json"));
  folder.copy_with("tuned", "tokens-differ", "tokenizer.json", tokenizer + "\n");
  const std::string tokens = folder.refusal(folder.distill("tokens-differ"));
  CHECK(has_text(tokens, "the teacher " + folder.at("tokens-differ") + " and the model " + folder.at("base")));
  CHECK(has_text(tokens, "differ in tokenizer.json"));
  folder.copy_with("tuned", "form-differs", "chat_template.jinja",
                   "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}{{ eos_token }}"
                   "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}");
  CHECK(has_text(folder.refusal(folder.distill("form-differs")), "differ in how a conversation is written"));
  const auto with_config = [&](const std::string& to, const char* key, long long value) {
    Value config = *parse_json(*read_file(folder.at("tuned/config.json")));
    config.set(key, value);
    folder.copy_with("tuned", to, "config.json", to_json(config));
    return folder.refusal(folder.distill(to));
  };
  CHECK(has_text(with_config("larger", "vocab_size", 512), "has a vocabulary of 512 tokens, and the model"));
  CHECK(has_text(with_config("shorter", "max_position_embeddings", 32),
                 "sequence_length = 64 is longer than max_position_embeddings = 32 of the teacher"));
  std::string model = *read_file(folder.at("tuned/model.safetensors"));
  std::fill(model.end() - 64, model.end(), '\xff');  // of its last tensor, the last norm
  folder.copy_with("tuned", "no-numbers", "model.safetensors", model);
  CHECK(has_text(folder.refusal(folder.distill("no-numbers")),
                 "the teacher gives a token of an answer the log-probability"));
  Task none = folder.distill("tuned");
  std::erase_if(none.inputs, [](const TaskInput& input) { return input.name == "teacher"; });
  CHECK(has_text(folder.refusal(none), "without the input 'teacher'"));
  Task rewarded = folder.distill("tuned");
  rewarded.settings.set("reward", *parse_json(R"({"kind": "number"})"));
  CHECK(has_text(folder.refusal(rewarded), "reward means nothing with method = \"distill\""));
}

TEST_CASE("learning from rewards: what cannot be is refused before anything is trained") {
  const RolloutFolder folder;
  Task batch = folder.grpo();
  batch.settings.set("global_batch_size", 20);
  CHECK(has_text(folder.refusal(batch), "global_batch_size = 20"));
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), "{\"prompt\": \"a\"}\n{\"question\": \"b\", \"answer\": 1}\n")
              .ok());
  const std::string rows = folder.refusal(folder.grpo());
  CHECK(has_text(rows, "prompts.jsonl:1"));
  CHECK(has_text(rows, "'answer'"));
  CHECK(has_text(rows, "'question'"));
  Task pattern = folder.grpo();
  pattern.settings.find("reward")->set("pattern", "(");
  CHECK(has_text(folder.refusal(pattern), "reward.pattern"));
}

TEST_CASE("learning from rewards: ranks of tp, cp, pipelines and ZeRO draw and learn what one rank does") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 3), task.settings.find("rollout")->set("redraws", 1);
  folder.run_well(task, "one");
  const std::vector<Value> one = folder.metrics("one");
  REQUIRE(one.size() == 3);
  ParallelDims contexts = stage_layout(1, 1, 2, 0);
  contexts.cp = 2;
  for (const ParallelDims& dims :
       {stage_layout(2, 1, 2, 2), stage_layout(1, 2, 2, 3), stage_layout(2, 2, 1, 0), contexts}) {
    CAPTURE(dims.to_string());
    const std::string out = replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> steps = folder.metrics(out);
    REQUIRE(steps.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(steps[i].get_number("reshard_s") > 0);
      for (const char* name : {"loss", "reward", "accuracy", "kl", "answer_tokens", "entropy", "grad_norm",
                               "equal_groups", "redrawn_groups", "reward_deviation"}) {
        CAPTURE(name);
        CHECK(steps[i].get_number(name) == doctest::Approx(one[i].get_number(name)).epsilon(1e-5).scale(1));
      }
    }
    for (const char* name : {"heldout_accuracy", "heldout_answer_tokens", "heldout_reward_deviation"}) {
      CAPTURE(name);
      CHECK(folder.figure(out, name) == doctest::Approx(folder.figure("one", name)).epsilon(1e-5));
    }
  }
}

TEST_CASE("learning from rewards: answers are drawn with what an adapter makes of weights that ranks have parts of") {
  const RolloutFolder folder;
  Task task = folder.grpo();
  task.settings.set("steps", 2);
  for (const char* adapter :
       {R"({"kind": "lora", "rank": 4})", R"({"kind": "dora", "rank": 4})", R"({"kind": "ia3"})",
        R"({"kind": "prefix", "virtual_tokens": 4})", R"({"kind": "bottleneck", "bottleneck_size": 6})"}) {
    CAPTURE(adapter);
    task.settings.set("adapter", *parse_json(adapter)), task.settings.find("optimizer")->set("lr", 0.02);
    const std::string name = std::to_string(xxh3_64(adapter, 0));
    folder.run_well(task, name);
    const std::vector<Value> one = folder.metrics(name);
    REQUIRE(one.size() == 2);
    for (const ParallelDims& dims : {stage_layout(2, 2, 1, 0), stage_layout(2, 1, 2, 2), stage_layout(1, 1, 2, 3)}) {
      CAPTURE(dims.to_string());
      const std::string out = name + replace_all(dims.to_string(), " ", "-");
      run_on_ranks(folder, task, out, dims);
      const std::vector<Value> steps = folder.metrics(out);
      REQUIRE(steps.size() == 2);
      for (std::size_t i = 0; i < 2; ++i)
        for (const char* figure : {"loss", "reward", "kl", "answer_tokens", "entropy", "grad_norm"}) {
          CAPTURE(figure);
          CHECK(steps[i].get_number(figure) == doctest::Approx(one[i].get_number(figure)).epsilon(1e-5).scale(1));
        }
    }
  }
}

TEST_CASE("learning from rewards: a model with experts draws with the weights that it trains, in layouts, too") {
  const RolloutFolder folder;
  folder.run_well(folder.task("pretrain", {{"tokens", "tokens"}},
                              R"({"sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 8, "steps": 30,
                                  "precision": "f32", "optimizer": {"lr": 0.004, "warmup_steps": 10},
                                  "model": {"architecture": "mixtral", "hidden_size": 32, "intermediate_size": 48,
                                            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                                            "num_local_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
                                            "router_score": "sigmoid", "router_bias": true,
                                            "max_position_embeddings": 64},
                                  "moe": {"balance": "bias"}})"),
                  "experts");
  Task task = folder.grpo();
  task.settings.set("steps", 2);
  for (TaskInput& input : task.inputs)
    if (input.name == "model") input.paths = {folder.at("experts")};
  folder.run_well(task, "mixture");
  const std::vector<Value> one = folder.metrics("mixture");
  REQUIRE(one.size() == 2);
  // The training's own log-probabilities are those that answers were drawn with, and those of the folder.
  CHECK(one[0].get_number("kl") == doctest::Approx(0).epsilon(1e-4).scale(1));
  CHECK(one[0].get_number("loss") == doctest::Approx(0).epsilon(1e-4).scale(1));
  CHECK(one[0].get_number("clip_fraction") == 0);
  CHECK(one[0].get_number("grad_norm") > 0);
  CHECK(one[1].get_number("kl") > 0);
  ParallelDims over_replicas = stage_layout(1, 1, 2, 0), split = stage_layout(2, 1, 1, 0);
  over_replicas.ep = 2, split.cp = split.ep = split.etp = 2;
  for (const ParallelDims& dims :
       {stage_layout(1, 1, 2, 0), stage_layout(2, 2, 1, 0), stage_layout(1, 1, 2, 3), over_replicas, split}) {
    CAPTURE(dims.to_string());
    const std::string out = "mixture-" + replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> steps = folder.metrics(out);
    REQUIRE(steps.size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
      for (const char* figure : {"loss", "reward", "kl", "answer_tokens", "entropy", "grad_norm"}) {
        CAPTURE(std::string(figure));
        CHECK(steps[i].get_number(figure) == doctest::Approx(one[i].get_number(figure)).epsilon(1e-5).scale(1));
      }
  }

  // A critic with experts lies over ranks as the policy does.
  task.settings.set("method", "ppo"), task.settings.find("rollout")->set("group_size", 1);
  folder.run_well(task, "critic");
  const std::vector<Value> valued = folder.metrics("critic");
  REQUIRE(valued.size() == 2);
  CHECK(valued[0].get_number("critic_grad_norm") > 0);
  for (const ParallelDims& dims : {stage_layout(2, 2, 1, 0), stage_layout(1, 1, 2, 3), over_replicas, split}) {
    CAPTURE(dims.to_string());
    const std::string out = "critic-" + replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    const std::vector<Value> steps = folder.metrics(out);
    REQUIRE(steps.size() == 2);
    for (std::size_t i = 0; i < 2; ++i)
      for (const char* figure : {"loss", "reward", "value", "value_loss", "critic_grad_norm", "grad_norm"}) {
        CAPTURE(std::string(figure));
        CHECK(steps[i].get_number(figure) == doctest::Approx(valued[i].get_number(figure)).epsilon(1e-4).scale(1));
      }
  }
}

}  // namespace longhaul
