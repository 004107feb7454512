// Reward models of attributes and of steps as stages: what is learnt and reported, that a restart changes no bit, that
// ranks change nothing, and that every place which asks a reward model understands their numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "contracts/events/event.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/model_server.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/rewards/reward_model.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

constexpr const char* attribute_settings = R"json(
    {"method": "attributes", "attribute": {"sure": {"weight": 1}, "doubt": {"weight": -0.5, "min": 1, "max": 9}},
     "sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 16, "epochs": 12, "precision": "f32",
     "optimizer": {"lr": 0.003, "warmup_steps": 2}})json";
constexpr const char* step_settings = R"json(
    {"method": "process", "step_separator": "\n", "sequence_length": 64, "micro_batch_size": 4,
     "global_batch_size": 16, "epochs": 16, "precision": "f32", "optimizer": {"lr": 0.003, "warmup_steps": 2}})json";

// Answers that hesitate or do not, of different lengths, with how sure they are and how much they doubt; and answers in
// two or three steps, of which those that hesitate are wrong.
class RatingFolder : public StageFolder {
 public:
  RatingFolder() {
    prepare(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    prepare(task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
    std::string rated[2], steps[2], pairs;
    for (int i = 0; i < 80; ++i) {
      const bool sure = i % 2 == 0, held = i % 5 == 0;
      rated[held] += to_json(rated_row(i, sure, i % 3 == 0)) + "\n";
      steps[held] += to_json(stepped_row(i)) + "\n";
    }
    for (int i = 0; i < 10; ++i)
      pairs += json_line({{"prompt", format("which colour is number {}?", i)},
                          {"chosen", answer_of(i, true, false)},
                          {"rejected", answer_of(i, false, false)}});
    for (const auto& [name, text] : {std::pair{"ratings.jsonl", &rated[0]},
                                     {"ratings/ratings.jsonl", &rated[1]},
                                     {"steps.jsonl", &steps[0]},
                                     {"steps/steps.jsonl", &steps[1]},
                                     {"pairs/pairs.jsonl", &pairs}}) {
      REQUIRE(make_directories(at(std::string(name).substr(0, std::string(name).find('/') + 1))).ok());
      REQUIRE(write_file_atomic(at(name), *text).ok());
    }
  }
  static std::string answer_of(int i, bool sure, bool longer) {
    static const char* colour[] = {"red", "blue", "green", "white", "black"};
    return format("{} {}{}{}", sure ? "it is" : "maybe", colour[i % 5], longer ? " and red" : "", sure ? "." : "!");
  }
  static Value rated_row(int i, bool sure, bool longer) {
    Value row = Value::make_table();
    row.set("prompt", format("which colour is number {}?", i)), row.set("response", answer_of(i, sure, longer));
    row.set("sure", sure ? 4 : 0);
    if (i % 7 != 0) row.set("doubt", sure ? 2 : 7);
    return row;
  }
  static Value stepped_row(int i) {
    Value row = Value::make_table(), list = Value::make_array();
    row.set("prompt", format("which colour is number {}?", i));
    const int steps = 2 + i % 2, wrong = i % 4 < 2 ? -1 : i % steps;
    for (int s = 0; s < steps; ++s) list.push_back(answer_of(i + s, s != wrong, false));
    row.set("steps", std::move(list)), row.set("label", wrong);
    row.set("category", i % 2 == 0 ? "even" : "odd");
    return row;
  }
  Task attributes() const {
    return task("reward", {{"model", "base"}, {"data", "ratings.jsonl"}, {"heldout", "ratings"}}, attribute_settings);
  }
  Task process() const {
    return task("reward", {{"model", "base"}, {"data", "steps.jsonl"}, {"heldout", "steps"}}, step_settings);
  }
  std::string weights_of(const std::string& out) const { return *read_file(at(out + "/model.safetensors")); }
  std::string refusal(const Task& task) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, "refused", stop);
    REQUIRE_FALSE(status.ok());
    return status.error().message();
  }
};

bool has_words(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Stopped after its first step and started again: the same bits; two ranks, and two layouts: the same figures.
void check_restart_and_ranks(const RatingFolder& folder, Task task, const std::string& figure) {
  const std::string whole = "short";
  task.settings.set("epochs", 2);
  folder.run_well(task, whole);
  const std::atomic<bool> stop{true};
  CHECK(folder.run(task, whole + "-parts", stop).error().code == ErrorCode::aborted);
  folder.run_well(task, whole + "-parts");
  CHECK(folder.weights_of(whole) == folder.weights_of(whole + "-parts"));
  ParallelDims replicas;
  replicas.dp_replicate = 2;
  for (const ParallelDims& dims : {replicas, stage_layout(2, 2, 1, 0), stage_layout(1, 1, 2, 3)}) {
    CAPTURE(dims.to_string());
    const std::string out = whole + replace_all(dims.to_string(), " ", "-");
    run_on_ranks(folder, task, out, dims);
    for (const std::string& name : {figure, std::string("heldout_loss")})
      CHECK(folder.figure(out, name) == doctest::Approx(folder.figure(whole, name)).epsilon(1e-3).scale(1));
  }
}

// A model of the folder answers POST /v1/score with the first entry of `data`.
Value score_of(const std::string& folder, const std::string& answer) {
  const SystemClock clock;
  ModelServerSettings settings;
  settings.model_name = "judge";
  const std::unique_ptr<ModelServer> server = ModelServer::start(clock, settings).value();
  server->attach(AnswerJudge::load(folder, "f32", 1, 0).value());
  Value messages = Value::make_array(), body = Value::make_table();
  for (const auto& [role, content] :
       {std::pair{"user", std::string("which colour is number 5?")}, {"assistant", answer}}) {
    Value message = Value::make_table();
    message.set("role", role), message.set("content", content);
    messages.push_back(std::move(message));
  }
  body.set("messages", std::move(messages));
  const HttpReply reply = http_post_json({"127.0.0.1", server->port(), ""}, "/v1/score", to_json(body), 20'000).value();
  REQUIRE_MESSAGE(reply.status == 200, reply.body);
  CHECK(server->drain(5'000));
  return parse_json(reply.body)->find("data")->as_array()[0];
}

}  // namespace

TEST_CASE(
    "reward models of attributes: values are learnt, missing ones left out, and those of held-out answers predicted") {
  RatingFolder folder;
  folder.prepare(folder.attributes(), "rater");
  const auto of = [&](const std::string& name) { return folder.figure("rater", name); };
  CHECK(of("answers") == 64);
  CHECK(of("heldout_answers") == 16);
  CHECK(of("heldout_values_sure") == 16);
  CHECK(of("heldout_values_doubt") == 13);
  CHECK(of("heldout_pearson_sure") > 0.9);
  CHECK(of("heldout_mse_sure") < 0.5 * of("heldout_mean_only_mse_sure"));
  CHECK(of("heldout_pearson_doubt") > 0.9);
  check_restart_and_ranks(folder, folder.attributes(), "heldout_mse_sure");

  const HfConfig config = load_any_model_config(folder.at("rater")).value();
  CHECK(config.shape.num_labels == 2);
  CHECK(reward_form_of_folder(folder.at("rater"))->attributes[1] == RewardAttribute{"doubt", -0.5, 1, 9});
  Task more = folder.attributes();
  more.inputs[0].paths = {folder.at("rater")};
  folder.run_well(more, "more");
  CHECK(folder.figure("more", "heldout_mse_sure") < of("heldout_mean_only_mse_sure"));
  more.settings.set("attribute", *parse_json(R"({"sure": {}, "length": {"max": 9}})"));
  more.settings.set("ignore", *parse_json(R"(["doubt"])"));
  CHECK(has_words(folder.refusal(more), "is a reward model of sure, doubt, and the stage trains sure, length"));

  // evaluate: the same figures, beside a baseline; and the numbers of rows that have no values.
  Task evaluate = folder.task("evaluate", {{"model", "rater"}, {"baseline", "more"}, {"data", "ratings"}},
                              R"({"tasks": ["reward"], "precision": "f32"})");
  folder.run_well(evaluate, "scores");
  CHECK(folder.figure("scores", "reward_mse_sure") == doctest::Approx(of("heldout_mse_sure")).epsilon(1e-4));
  CHECK(folder.figure("scores", "reward_answers_compared") == 16);
  CHECK(folder.figure("scores", "reward_mse_difference") ==
        doctest::Approx(folder.figure("scores", "reward_mse") - folder.figure("scores", "baseline_reward_mse")));
  std::string unrated;
  for (int i = 0; i < 6; ++i)
    unrated += json_line({{"prompt", "which colour is it?"}, {"response", RatingFolder::answer_of(i, i < 3, false)}});
  REQUIRE(make_directories(folder.at("unrated")).ok());
  REQUIRE(write_file_atomic(folder.at("unrated/ratings.jsonl"), unrated).ok());
  Task label = folder.task("evaluate", {{"model", "rater"}, {"data", "unrated"}},
                           R"({"tasks": ["reward"], "precision": "f32"})");
  folder.run_well(label, "labels");
  CHECK(folder.figure("labels", "reward_values_sure") == 0);
  const auto samples = split(*read_file(folder.at("labels/samples.jsonl")), '\n');
  REQUIRE(samples.size() == 7);
  const auto sure = [&](std::size_t i) { return parse_json(samples[i])->find("attributes")->get_number("sure"); };
  CHECK(sure(0) > sure(5) + 1);
  CHECK(parse_json(samples[0])->get_number("reward") ==
        doctest::Approx(sure(0) - 0.5 * parse_json(samples[0])->find("attributes")->get_number("doubt")));
  // Pairs are ranked by the one reward.
  Task ranks = folder.task("evaluate", {{"model", "rater"}, {"data", "pairs"}}, R"({"tasks": ["reward"]})");
  folder.run_well(ranks, "ranked");
  CHECK(folder.figure("ranked", "reward_accuracy") > 0.8);

  const Value entry = score_of(folder.at("rater"), "it is red.");
  CHECK(entry.find("attributes")->get_number("sure") > 2);
  CHECK(entry.get_number("score") == doctest::Approx(entry.find("attributes")->get_number("sure") -
                                                     0.5 * entry.find("attributes")->get_number("doubt")));
}

TEST_CASE("reward models of steps: each is judged where it ends, and the first wrong one is found") {
  RatingFolder folder;
  folder.prepare(folder.process(), "checker");
  const auto of = [&](const std::string& name) { return folder.figure("checker", name); };
  CHECK(of("heldout_step_accuracy") > 0.9);
  CHECK(of("heldout_first_error_f1") > 0.8);
  CHECK(of("heldout_wrong_accuracy_even") > 0.5);
  check_restart_and_ranks(folder, folder.process(), "heldout_first_error_f1");
  Task evaluate = folder.task("evaluate", {{"model", "checker"}, {"data", "steps"}},
                              R"({"tasks": ["reward"], "precision": "f32"})");
  folder.run_well(evaluate, "scores");
  CHECK(folder.figure("scores", "reward_first_error_f1") == of("heldout_first_error_f1"));
  CHECK(folder.figure("scores", "reward_step_accuracy") == of("heldout_step_accuracy"));
  CHECK(folder.figure("scores", "reward_first_error_accuracy") > 0.8);

  const Value good = score_of(folder.at("checker"), "it is red.\nit is blue.\nit is green."),
              bad = score_of(folder.at("checker"), "it is red.\nmaybe blue!\nit is green.");
  REQUIRE(good.find("steps")->size() == 3);
  REQUIRE(bad.find("steps")->size() == 3);
  CHECK(bad.find("steps")->as_array()[1].as_number() < 0.5);
  CHECK(bad.find("steps")->as_array()[0].as_number() ==
        doctest::Approx(good.find("steps")->as_array()[0].as_number()).epsilon(1e-4));
  CHECK(bad.get_number("score") == doctest::Approx(bad.find("steps")->as_array()[1].as_number()).epsilon(0.5));
  CHECK(good.get_number("score") > bad.get_number("score") + 0.3);

  // A judge of another kind beside it is refused where steps are compared.
  folder.prepare(folder.attributes(), "rater");
  evaluate.inputs.push_back(folder.task("evaluate", {{"baseline", "rater"}}, "{}").inputs[0]);
  CHECK(has_words(folder.refusal(evaluate), "mean different things"));
}

TEST_CASE("reward models of attributes and of steps judge the answers of learning from rewards") {
  RatingFolder folder;
  folder.prepare(folder.attributes(), "rater");
  folder.prepare(folder.process(), "checker");
  std::string prompts;
  for (int i = 0; i < 16; ++i) prompts += json_line({{"prompt", format("which colour is number {}?", i)}});
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), prompts).ok());
  for (const char* judge : {"rater", "checker"}) {
    CAPTURE(judge);
    const Task ppo =
        folder.task("align", {{"model", "base"}, {"data", "prompts.jsonl"}, {"reward", judge}},
                    R"json({"method": "ppo", "sequence_length": 40, "micro_batch_size": 8, "global_batch_size": 32,
              "steps": 2, "precision": "f32", "beta": 0, "optimizer": {"lr": 0.003, "warmup_steps": 0},
              "ppo": {"critic": "reward"},
              "rollout": {"group_size": 8, "max_new_tokens": 8, "slots": 16}, "reward": {"kind": "model"}})json");
    folder.run_well(ppo, std::string("taught-") + judge);
    std::uint64_t offset = 0;
    int steps = 0;
    const std::vector<Event> all = *read_events(folder.at(std::string("taught-") + judge + ".events.jsonl"), offset);
    for (const Event& event : all) {
      if (event.kind != "metric" || !event.fields.find("reward_deviation")) continue;
      ++steps;
      CHECK(event.fields.get_number("reward_faults") == 0);
      CHECK(event.fields.get_number("reward_deviation") > 0);
      const double reward = event.fields.get_number("reward");
      if (std::string(judge) == "checker") CHECK((reward > 0 && reward < 1));
    }
    CHECK(steps == 2);
  }
}

TEST_CASE("reward models of attributes and of steps: rows that make no sense are refused with their lines") {
  const RatingFolder folder;
  REQUIRE(write_file_atomic(folder.at("ratings.jsonl"),
                            R"({"prompt": "a?", "response": "b", "sure": 2}
{"prompt": "a?", "response": "b", "sure": 7}
{"prompt": "a?", "response": "b"}
)")
              .ok());
  std::string text = folder.refusal(folder.attributes());
  for (const char* part :
       {"ratings.jsonl:2", "'sure' is 7, expected a number from 0 to 4", "ratings.jsonl:3", "a value of no attribute"})
    CHECK_MESSAGE(has_words(text, part), text);
  Task none = folder.attributes();
  none.settings.erase("attribute");
  CHECK(has_words(folder.refusal(none), "without an attribute"));
  REQUIRE(write_file_atomic(folder.at("steps.jsonl"), R"({"prompt": "a?", "completions": ["b", "c"], "labels": [1]}
)")
              .ok());
  text = folder.refusal(folder.process());
  CHECK_MESSAGE(has_words(text, "steps.jsonl:1"), text);
  CHECK_MESSAGE(has_words(text, "'labels' has 1 entries"), text);
}

}  // namespace longhaul
