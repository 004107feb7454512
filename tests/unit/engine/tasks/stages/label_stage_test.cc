// Learning from answers that are good or bad by themselves, as a stage.
#include "engine/tasks/stages/label_stage.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "contracts/events/event.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

constexpr const char* label_settings = R"json(
    {"method": "kto", "sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 16, "steps": 40,
     "precision": "f32", "beta": 0.1, "optimizer": {"lr": 0.002, "warmup_steps": 0}})json";

// A tuned model, and answers to its questions of which every other is good: those that end with a mark.
class LabelFolder : public StageFolder {
 public:
  LabelFolder() {
    prepare(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    prepare(task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
    std::string rows;
    for (int i = 0; i < 48; ++i) {
      const std::string question = format("which colour is number {}?", i / 2);
      rows += format("{{\"prompt\": \"{}\", \"completion\": \"{}\", \"label\": {}}}\n", question,
                     i % 2 ? "it is red!" : "it is red.", i % 2 ? "true" : "false");
    }
    REQUIRE(write_file_atomic(at("labels.jsonl"), rows).ok());
  }
  Task kto() const {
    return task("align", {{"model", "base"}, {"data", "labels.jsonl"}, {"heldout", "labels.jsonl"}}, label_settings);
  }
  std::string weights(const std::string& out) const { return *read_file(at(out + "/model.safetensors")); }
  std::vector<Value> steps(const std::string& out) const {
    std::uint64_t offset = 0;
    std::vector<Value> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find("divergence_estimate")) found.push_back(event.fields);
    return found;
  }
  std::string refused(const Task& task) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, "refused", stop);
    REQUIRE_FALSE(status.ok());
    return status.error().message();
  }
};

ChatTokens tokens_of(std::vector<std::int32_t> prompt, std::vector<std::int32_t> answer) {
  ChatTokens made;
  made.loss_mask.assign(prompt.size(), 0), made.loss_mask.resize(prompt.size() + answer.size(), 1);
  made.ids = std::move(prompt);
  made.ids.insert(made.ids.end(), answer.begin(), answer.end());
  return made;
}

}  // namespace

TEST_CASE("labels: good answers become likelier than bad ones; a restart and other ranks change nothing") {
  const LabelFolder folder;
  folder.run_well(folder.kto(), "whole");
  const std::vector<Value> steps = folder.steps("whole");
  REQUIRE(steps.size() == 40);
  CHECK(steps.front().get_number("loss") == doctest::Approx(0.5).epsilon(1e-4));  // the model is its reference
  CHECK(steps.front().get_number("divergence_estimate") == doctest::Approx(0).epsilon(1e-3).scale(1));
  CHECK(steps.back().get_number("margin") > 1);
  CHECK(folder.figure("whole", "heldout_accuracy") > 0.8);
  CHECK(folder.figure("whole", "heldout_loss") < 0.3);
  CHECK(folder.figure("whole", "answers") == 48);
  CHECK(folder.figure("whole", "desirable_answers") == 24);

  Task short_one = folder.kto();
  short_one.settings.set("steps", 6);
  folder.run_well(short_one, "short");
  const std::atomic<bool> stop{true};
  const Status stopped = folder.run(short_one, "parts", stop);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::aborted);
  folder.run_well(short_one, "parts");
  CHECK(folder.weights("short") == folder.weights("parts"));

  run_on_ranks(folder, short_one, "ranks", 2);
  const std::vector<Value> alone = folder.steps("short"), ranks = folder.steps("ranks");
  REQUIRE(alone.size() == 6);
  REQUIRE(ranks.size() == alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i)
    for (const char* name : {"loss", "margin", "divergence_estimate", "grad_norm"}) {
      CAPTURE(name);
      CHECK(ranks[i].get_number(name) == doctest::Approx(alone[i].get_number(name)).epsilon(1e-5).scale(1));
    }
}

TEST_CASE("labels: steps in layouts with tp, cp, pp and ZeRO are those of one rank, with an adapter, too") {
  const LabelFolder folder;
  // Good answers are what others are compared with, and count most: so the estimate rises above 0.
  const std::string rows = replace_all(*read_file(folder.at("labels.jsonl")), "true", "maybe");
  REQUIRE(
      write_file_atomic(folder.at("labels.jsonl"), replace_all(replace_all(rows, "false", "true"), "maybe", "false"))
          .ok());
  Task task = folder.kto();
  task.settings.set("steps", 4), task.settings.set("undesirable_weight", 0.1);
  ParallelDims without_sp = stage_layout(2, 2, 1, 0);
  without_sp.sp = false;
  ParallelDims contexts = stage_layout(1, 2, 1, 0);
  contexts.cp = 2;
  for (const char* adapter : {R"({"kind": "none"})", R"({"kind": "lora", "rank": 4})"}) {
    CAPTURE(adapter);
    task.settings.set("adapter", *parse_json(adapter));
    const std::string one = format("one-{}", adapter[10]);
    folder.run_well(task, one);
    const std::vector<Value> alone = folder.steps(one);
    REQUIRE(alone.size() == 4);
    double largest = 0;
    for (const Value& step : alone) largest = std::max(largest, step.get_number("divergence_estimate"));
    CHECK(largest > 1e-3);  // there is something to agree on
    std::vector<ParallelDims> layouts = {without_sp, stage_layout(2, 1, 1, 0), stage_layout(1, 2, 2, 2), contexts};
    if (adapter[10] == 'n') layouts.push_back(stage_layout(1, 1, 2, 3));
    for (const ParallelDims& dims : layouts) {
      CAPTURE(dims.to_string());
      const std::string out = one + replace_all(dims.to_string(), " ", "-") + (dims.sp ? "-sp" : "");
      run_on_ranks(folder, task, out, dims);
      const std::vector<Value> steps = folder.steps(out);
      REQUIRE(steps.size() == alone.size());
      for (std::size_t i = 0; i < steps.size(); ++i)
        for (const char* name : {"loss", "margin", "divergence_estimate", "grad_norm"}) {
          CAPTURE(name);
          CAPTURE(i);
          CHECK(steps[i].get_number(name) == doctest::Approx(alone[i].get_number(name)).epsilon(1e-5).scale(1));
        }
      for (const char* name : {"heldout_loss", "heldout_margin", "heldout_divergence_estimate"})
        CHECK(folder.figure(out, name) == doctest::Approx(folder.figure(one, name)).epsilon(1e-5).scale(1));
    }
  }
}

TEST_CASE("labels: the reference has the codes of the model where ranks compute an answer together, too") {
  const LabelFolder folder;
  Task task = folder.kto();
  task.settings.set("adapter", *parse_json(R"({"kind": "lora", "base_weights": "nf4"})"));
  task.settings.set("steps", 1);
  ParallelDims contexts;
  contexts.cp = 2;
  for (const ParallelDims& dims : {contexts, stage_layout(1, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    const std::string out = "coded" + replace_all(dims.to_string(), " ", "-");
    for (const Status& said : run_in_layout(folder, task, out, dims))
      REQUIRE_MESSAGE(said.ok(), (said.ok() ? "" : said.error().message()));
    const std::vector<Value> steps = folder.steps(out);
    REQUIRE(steps.size() == 1);
    CHECK(steps.front().get_number("loss") == doctest::Approx(0.5).epsilon(1e-5));  // the model is its reference
  }
}

TEST_CASE("labels: rows that are no labels, and labels that are all alike, are refused by name") {
  const LabelFolder folder;
  const auto refusal = [&](const std::string& rows) {
    REQUIRE(write_file_atomic(folder.at("labels.jsonl"), rows).ok());
    return folder.refused(folder.kto());
  };
  const std::string row = "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}\n";
  const std::string alike = refusal(row + row);
  CHECK(alike.find("all 2 answers") != std::string::npos);
  CHECK(alike.find("are good") != std::string::npos);
  const std::string wrong = refusal(row + "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": \"yes\"}\n");
  CHECK(wrong.find("labels.jsonl:2") != std::string::npos);
  CHECK(wrong.find("'label' is string") != std::string::npos);
}

TEST_CASE("labels: a mismatched answer is the next one to another prompt, cut where it is too long") {
  const std::vector<LabelledAnswer> answers = {
      {tokens_of({1, 2}, {10, 11}), true}, {tokens_of({1, 2}, {12}), false}, {tokens_of({3}, {13, 14, 15}), true}};
  const std::vector<ChatTokens> made = mismatched_answers(answers, 4);
  REQUIRE(made.size() == 3);
  CHECK(made[0].ids == std::vector<std::int32_t>{1, 2, 13, 14});
  CHECK(made[0].loss_mask == std::vector<std::uint8_t>{0, 0, 1, 1});
  CHECK(made[1].ids == std::vector<std::int32_t>{1, 2, 13, 14});
  CHECK(made[2].ids == std::vector<std::int32_t>{3, 10, 11});
  // All of one prompt: the next answer, of the last one the first.
  const std::vector<LabelledAnswer> same(answers.begin(), answers.begin() + 2);
  CHECK(mismatched_answers(same, 8)[1].ids == std::vector<std::int32_t>{1, 2, 10, 11});
}

}  // namespace longhaul
