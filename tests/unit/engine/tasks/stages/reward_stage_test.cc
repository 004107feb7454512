// Reward models as a stage: what is learnt and reported, that a restart changes no bit, that ranks change nothing, what
// is exported, what judges answers in learning from rewards, and what is said of bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "contracts/events/event.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/model_server.h"
#include "engine/model/store/model_folder.h"
#include "engine/train/step/sequence_rewards.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

constexpr const char* reward_settings = R"json(
    {"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 16, "epochs": 4, "precision": "f32",
     "optimizer": {"lr": 0.003, "warmup_steps": 2}})json";

// A model of sentences, and pairs whose better answer is the one that does not hesitate, whatever its colour.
class RewardFolder : public StageFolder {
 public:
  RewardFolder() {
    prepare(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    prepare(task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
    std::string train, held;
    static const char* colour[] = {"red", "blue", "green", "white", "black"};
    for (int i = 0; i < 60; ++i) {
      Value row = Value::make_table();
      row.set("prompt", format("which colour is number {}?", i));
      row.set("chosen", format("it is {}.", colour[i % 5])), row.set("rejected", format("maybe {}!", colour[i % 3]));
      if (i % 3 == 0) row.set("margin", 0.5);
      row.set("category", i % 2 == 0 ? "even" : "odd numbers");
      (i % 5 == 0 ? held : train) += to_json(row) + "\n";
    }
    REQUIRE(write_file_atomic(at("pairs.jsonl"), train).ok());
    REQUIRE(write_file_atomic(at("held.jsonl"), held).ok());
  }
  Task reward(const std::string& settings = reward_settings) const {
    return task("reward", {{"model", "base"}, {"data", "pairs.jsonl"}, {"heldout", "held.jsonl"}}, settings);
  }
  std::string model_bytes(const std::string& out) const { return *read_file(at(out + "/model.safetensors")); }
  std::vector<Value> steps(const std::string& out, const char* with) const {
    std::uint64_t offset = 0;
    std::vector<Value> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find(with)) found.push_back(event.fields);
    return found;
  }
  std::string refused(const Task& task) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, "refused", stop);
    REQUIRE_FALSE(status.ok());
    return status.error().message();
  }
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("reward models: pairs are learnt, held-out ones judged by category; a restart and ranks change nothing") {
  const RewardFolder folder;
  const Task reward = folder.reward();
  folder.run_well(reward, "whole");
  CHECK(folder.figure("whole", "pairs") == 48);
  CHECK(folder.figure("whole", "pairs_too_long") == 0);
  CHECK(folder.figure("whole", "heldout_pairs") == 12);
  CHECK(folder.figure("whole", "heldout_accuracy") > 0.9);
  CHECK(folder.figure("whole", "heldout_accuracy_low") > 0.6);
  CHECK(folder.figure("whole", "heldout_accuracy_high") <= 1);
  for (const char* category : {"even", "odd_numbers"}) {
    CHECK(folder.figure("whole", format("heldout_pairs_{}", category)) == 6);
    CHECK(folder.figure("whole", format("heldout_accuracy_{}", category)) > 0.8);
    CHECK(folder.figure("whole", format("heldout_accuracy_{}_low", category)) > 0.4);
  }
  const std::vector<Value> steps = folder.steps("whole", "margin");
  REQUIRE(steps.size() == 12);
  CHECK(steps.front().get_number("loss") > 0.6);
  CHECK(steps.back().get_number("loss") < 0.3);
  CHECK(steps.back().get_number("margin") > 1);

  // Stopped after its first step and started again: the same bits.
  const std::atomic<bool> stop{true};
  const Status stopped = folder.run(reward, "parts", stop);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::aborted);
  folder.run_well(reward, "parts");
  CHECK(folder.model_bytes("whole") == folder.model_bytes("parts"));
  CHECK(folder.figure("whole", "heldout_accuracy_low") == folder.figure("parts", "heldout_accuracy_low"));

  run_on_ranks(folder, reward, "ranks", 2);
  const std::vector<Value> ranks = folder.steps("ranks", "margin");
  REQUIRE(ranks.size() == steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const char* name : {"loss", "accuracy", "margin", "chosen_reward", "rejected_reward", "grad_norm"}) {
      CAPTURE(name);
      CHECK(ranks[i].get_number(name) == doctest::Approx(steps[i].get_number(name)).epsilon(1e-4).scale(1));
    }
  CHECK(folder.figure("ranks", "heldout_pairs_even") == 6);
  CHECK(folder.figure("ranks", "heldout_accuracy_low") == folder.figure("whole", "heldout_accuracy_low"));

  // What is exported is a model of its own kind, from which another training goes on.
  const HfConfig config = load_any_model_config(folder.at("whole")).value();
  CHECK(config.shape.scalar_head);
  CHECK(config.pad_token_id >= 0);
  Task more = reward;
  more.inputs[0].paths = {folder.at("whole")};
  folder.run_well(more, "more");
  CHECK(folder.steps("more", "margin").front().get_number("loss") < 0.3);
}

TEST_CASE("reward models: an adapter is trained with the new output layer beside it, and leaves both") {
  const RewardFolder folder;
  Task reward = folder.reward();
  reward.settings.set("adapter", *parse_json(R"({"kind": "lora", "rank": 8, "alpha": 16})"));
  folder.run_well(reward, "whole");
  CHECK(folder.steps("whole", "margin").back().get_number("loss") < 0.4);
  CHECK(folder.figure("whole", "heldout_accuracy") > 0.8);

  const std::atomic<bool> stop{true};
  REQUIRE_FALSE(folder.run(reward, "parts", stop).ok());
  folder.run_well(reward, "parts");
  CHECK(folder.model_bytes("whole") == folder.model_bytes("parts"));
  run_on_ranks(folder, reward, "ranks", 2);
  CHECK(folder.steps("ranks", "margin").back().get_number("loss") ==
        doctest::Approx(folder.steps("whole", "margin").back().get_number("loss")).epsilon(1e-4));

  // PEFT's files have the layer; a base without one, and the adapter, are the model.
  const SafetensorsFile adapter = SafetensorsFile::open(folder.at("whole/adapter/adapter_model.safetensors")).value();
  const SafetensorsFile model = SafetensorsFile::open(folder.at("whole/model.safetensors")).value();
  CHECK(adapter.find("base_model.model.score.weight").value().bytes == model.find("score.weight").value().bytes);
  const std::string config = *read_file(folder.at("whole/adapter/adapter_config.json"));
  CHECK(says(config, "\"SEQ_CLS\""));
  CHECK(parse_json(config)->find("modules_to_save")->as_array().front().as_string() == "score");

  // A reward model that is there goes on: its head begins as it stands.
  Task more = reward;
  more.inputs[0].paths = {folder.at("whole")};
  folder.run_well(more, "more");
  CHECK(folder.steps("more", "margin").front().get_number("loss") < 0.4);
}

TEST_CASE("reward models: steps in layouts with tp, cp, pp and ZeRO are those of one rank, with an adapter, too") {
  const RewardFolder folder;
  Task reward = folder.reward();
  reward.settings.set("steps", 4), reward.settings.find("optimizer")->set("lr", 0.001);
  ParallelDims without_sp = stage_layout(2, 1, 2, 0);
  without_sp.sp = false;
  ParallelDims contexts = stage_layout(1, 1, 2, 1);
  contexts.cp = 2;
  for (const char* adapter : {R"({"kind": "none"})", R"({"kind": "lora", "rank": 4})"}) {
    CAPTURE(adapter);
    reward.settings.set("adapter", *parse_json(adapter));
    const std::string one = format("one-{}", adapter[10]);
    folder.run_well(reward, one);
    const std::vector<Value> alone = folder.steps(one, "margin");
    REQUIRE(alone.size() == 4);
    std::vector<ParallelDims> layouts = {without_sp, stage_layout(2, 2, 1, 0), contexts};
    if (adapter[10] == 'n')
      for (const ParallelDims& more : {stage_layout(1, 2, 2, 2), stage_layout(1, 1, 2, 3)}) layouts.push_back(more);
    for (const ParallelDims& dims : layouts) {
      CAPTURE(dims.to_string());
      const std::string out = one + replace_all(dims.to_string(), " ", "-") + (dims.sp ? "-sp" : "");
      run_on_ranks(folder, reward, out, dims);
      const std::vector<Value> steps = folder.steps(out, "margin");
      REQUIRE(steps.size() == alone.size());
      for (std::size_t i = 0; i < steps.size(); ++i)
        for (const char* name : {"loss", "margin", "chosen_reward", "rejected_reward", "grad_norm"}) {
          CAPTURE(name);
          CAPTURE(i);
          CHECK(steps[i].get_number(name) == doctest::Approx(alone[i].get_number(name)).epsilon(1e-5).scale(1));
        }
      for (const char* name : {"heldout_loss", "heldout_accuracy_low", "heldout_accuracy_even"})
        CHECK(folder.figure(out, name) == doctest::Approx(folder.figure(one, name)).epsilon(1e-5).scale(1));
      // The head that is written is that of one rank.
      const auto head = [&](const std::string& of) {
        const SafetensorsFile file = SafetensorsFile::open(folder.at(of + "/model.safetensors")).value();
        const SafetensorView tensor = file.find("score.weight").value();
        std::vector<float> values(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]));
        REQUIRE(convert_to_f32(tensor, values).ok());
        return values;
      };
      const std::vector<float> whole = head(one), spread = head(out);
      REQUIRE(spread.size() == whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(spread[i] - whole[i]) < 1e-4F);
    }
  }
}

TEST_CASE("reward models: margins ask for larger differences, and centering keeps rewards around zero") {
  const RewardFolder folder;
  const auto trained = [&](const char* out, double margin, double center) {
    std::string rows;
    for (const std::string& line : split(*read_file(folder.at("pairs.jsonl")), '\n')) {
      if (line.empty()) continue;
      Value row = *parse_json(line);
      row.set("margin", margin);
      rows += to_json(row) + "\n";
    }
    REQUIRE(write_file_atomic(folder.at("margins.jsonl"), rows).ok());
    Task task = folder.reward();
    task.inputs[1].paths = {folder.at("margins.jsonl")};
    task.settings.set("center_weight", center);
    folder.run_well(task, out);
    return folder.steps(out, "margin");
  };
  CHECK(trained("plain", 0, 0).front().get_number("loss") < 0.8);
  CHECK(trained("wide", 4, 0).front().get_number("loss") > 3);  // -log sigmoid(-4)
  const Value centred = trained("centred", 4, 1).back();
  const auto off_zero = [](const Value& step) {
    return std::abs(step.get_number("chosen_reward") + step.get_number("rejected_reward"));
  };
  CHECK(off_zero(centred) < 0.5);
}

TEST_CASE("reward models: one judges the answers of learning from rewards, as it judges texts anywhere") {
  const RewardFolder folder;
  folder.run_well(folder.reward(), "judge");
  std::string prompts;
  for (int i = 0; i < 16; ++i) prompts += json_line({{"prompt", format("which colour is number {}?", i)}});
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), prompts).ok());
  const Task grpo = folder.task(
      "align", {{"model", "base"}, {"data", "prompts.jsonl"}, {"heldout", "prompts.jsonl"}, {"reward", "judge"}},
      R"json({"method": "grpo", "sequence_length": 40, "micro_batch_size": 8, "global_batch_size": 32, "steps": 12,
              "precision": "f32", "beta": 0, "optimizer": {"lr": 0.003, "warmup_steps": 0},
              "rollout": {"group_size": 8, "max_new_tokens": 8, "slots": 16}, "reward": {"kind": "model"}})json");
  folder.run_well(grpo, "taught");
  const std::vector<Value> steps = folder.steps("taught", "reward");
  REQUIRE(steps.size() == 12);
  for (const Value& step : steps) {
    CHECK(step.get_number("reward_faults") == 0);
    CHECK(step.get_number("reward_s") > 0);
  }
  CHECK(steps.back().get_number("reward") > steps.front().get_number("reward") + 0.1);
  run_on_ranks(folder, grpo, "ranks", 2);
  CHECK(folder.steps("ranks", "reward").front().get_number("reward") ==
        doctest::Approx(steps.front().get_number("reward")).epsilon(1e-4).scale(1));

  // The critic of ppo begins as the judge, whose numbers for half an answer are far from nothing, or with a new head.
  Task ppo = grpo;
  ppo.settings.set("method", "ppo"), ppo.settings.set("steps", 2);
  const auto explained = [&](const char* critic) {
    Value settings = Value::make_table();
    settings.set("critic", critic);
    ppo.settings.set("ppo", std::move(settings));
    folder.run_well(ppo, critic);
    return folder.steps(critic, "reward").front().get_number("explained_variance");
  };
  CHECK(std::abs(explained("policy")) < 0.1);
  CHECK(std::abs(explained("reward")) > 0.5);

  // Other tokens, other forms and models that judge nothing are refused before anything is trained.
  Task wrong = grpo;
  wrong.inputs[3].paths = {folder.at("base")};
  CHECK(says(folder.refused(wrong), "is no reward model"));
  Task without = grpo;
  without.inputs.pop_back();
  CHECK(says(folder.refused(without), "reward.kind = \"model\" without the input 'reward'"));
  Task unused = grpo;
  unused.settings.find("reward")->set("kind", "number");
  CHECK(says(folder.refused(unused), "the input 'reward' means nothing"));
  Task longer = grpo;
  longer.settings.set("sequence_length", 64);
  CHECK(says(folder.refused(longer), "texts of up to 65 tokens"));
  const std::string path = folder.at("judge/tokenizer.json");
  REQUIRE(write_file_atomic(path, *read_file(path) + " ").ok());
  CHECK(says(folder.refused(grpo), "differ in tokenizer.json"));
  // And it answers nothing itself.
  for (const char* kind : {"sft", "evaluate"}) {
    CAPTURE(kind);
    Task taken = folder.task(kind, {{"model", "judge"}, {"data", "questions"}}, "{}");
    if (std::string(kind) == "evaluate") taken.settings = *parse_json(R"({"tasks": ["preference"]})");
    CHECK(says(folder.refused(taken), "is a reward model, which writes no text"));
  }
}

TEST_CASE(
    "reward models: evaluate ranks pairs of files by category, beside another model, and measures nothing else of it") {
  const RewardFolder folder;
  folder.run_well(folder.reward(), "judge");
  Task one_step = folder.reward();
  one_step.settings.set("steps", 1);
  folder.run_well(one_step, "early");
  // RewardBench's names: a subset, and columns that nobody uses.
  std::string rows;
  for (const std::string& line : split(*read_file(folder.at("held.jsonl")), '\n')) {
    if (line.empty()) continue;
    Value row = *parse_json(line);
    row.set("subset", *row.find("category")), row.set("id", 7);
    row.erase("category");
    rows += to_json(row) + "\n";
  }
  REQUIRE(make_directories(folder.at("bench")).ok());
  REQUIRE(write_file_atomic(folder.at("bench/pairs.jsonl"), rows).ok());
  Task evaluate = folder.task("evaluate", {{"model", "judge"}, {"baseline", "early"}, {"data", "bench"}},
                              R"({"tasks": ["reward"], "precision": "f32", "ignore": ["id"]})");
  folder.run_well(evaluate, "scores");
  const auto of = [&](const std::string& name) { return folder.figure("scores", name); };
  CHECK(of("reward_accuracy") == folder.figure("judge", "heldout_accuracy"));
  CHECK(of("reward_accuracy_low") == folder.figure("judge", "heldout_accuracy_low"));
  CHECK(of("reward_accuracy_even") == folder.figure("judge", "heldout_accuracy_even"));
  CHECK(of("reward_pairs") == 12);
  CHECK(of("reward_pairs_odd_numbers") == 6);
  CHECK(of("reward_pairs_compared") == 12);
  CHECK(of("reward_accuracy_difference") == doctest::Approx(of("reward_accuracy") - of("baseline_reward_accuracy")));
  const auto samples = split(*read_file(folder.at("scores/samples.jsonl")), '\n');
  REQUIRE(samples.size() == 25);  // 12 of each model, and the end
  CHECK(parse_json(samples[0])->get_string("category") == "even");
  CHECK(parse_json(samples[0])->get_number("chosen") > parse_json(samples[0])->get_number("rejected"));

  evaluate.settings.set("tasks", *parse_json(R"(["reward", "answer_loss"])"));
  CHECK(says(folder.refused(evaluate), "the task \"reward\" beside others"));
  evaluate.settings.set("tasks", *parse_json(R"(["reward"])"));
  evaluate.inputs[0].paths = {folder.at("base")};
  CHECK(says(folder.refused(evaluate), "is no reward model, which the task \"reward\" measures"));
}

TEST_CASE("reward models: served, one gives a number for each conversation and writes no text") {
  const RewardFolder folder;
  folder.run_well(folder.reward(), "judge");
  const SystemClock clock;
  ModelServerSettings settings;
  settings.model_name = "judge";
  const std::unique_ptr<ModelServer> server = ModelServer::start(clock, settings).value();
  const HttpTarget target{"127.0.0.1", server->port(), ""};
  const auto post = [&](const std::string& path, const std::string& body) {
    return http_post_json(target, path, body, 20'000).value();
  };
  const auto conversation = [](const char* answer) {
    return format(R"([{{"role": "user", "content": "which colour is number 5?"}},
                      {{"role": "assistant", "content": "{}"}}])",
                  answer);
  };
  const std::string good = conversation("it is red."), bad = conversation("maybe red!");
  const std::string both = format(R"({{"model": "judge", "conversations": [{}, {}]}})", bad, good);
  CHECK(post("/v1/score", both).status == 503);  // not there yet
  server->attach(AnswerJudge::load(folder.at("judge"), "f32", 1, 0).value());
  CHECK(http_get(target, "/health", 5'000)->status == 200);
  const HttpReply reply = post("/v1/score", both);
  REQUIRE_MESSAGE(reply.status == 200, reply.body);
  const Value answer = parse_json(reply.body).value();
  const ValueArray& data = answer.find("data")->as_array();
  REQUIRE(data.size() == 2);
  CHECK(data[1].get_number("score") > data[0].get_number("score") + 0.5);
  CHECK(data[1].get_integer("index") == 1);
  CHECK(answer.find("usage")->get_integer("total_tokens") > 20);
  // One by itself is the same, and so is what the engine says of the same tokens.
  const Value alone = parse_json(post("/v1/score", format(R"({{"messages": {}}})", good)).body).value();
  CHECK(alone.find("data")->as_array()[0].get_number("score") ==
        doctest::Approx(data[1].get_number("score")).epsilon(1e-5));
  const auto refused = [&](const std::string& body, int status, const char* what) {
    const HttpReply said = post("/v1/score", body);
    CHECK(said.status == status);
    CHECK_MESSAGE(says(said.body, what), said.body);
  };
  refused("{", 400, "invalid_json");
  refused("{}", 400, "give either messages or conversations");
  refused(format(R"({{"messages": {}, "conversations": [{}]}})", good, good), 400, "give either");
  refused(R"({"conversations": []})", 400, "conversations must be a list of 1 to 64");
  refused(R"({"messages": [{"role": "user", "content": "hello"}]})", 400, "does not end with an answer");
  refused(R"({"conversations": [[{"role": "user", "content": 5}]]})", 400, "conversations[0][0].content must be text");
  refused(format(R"({{"messages": {}, "temperature": 1}})", good), 400, "temperature is not done here");
  refused(format(R"({{"messages": {}, "model": "other"}})", good), 404, "is not served here");
  refused(format(R"({{"messages": {}}})", conversation(std::string(300, 'x').c_str())), 400, "do not fit the model");
  CHECK(says(post("/v1/chat/completions", format(R"({{"messages": {}}})", good)).body, "writes no text"));
  CHECK(says(http_get(target, "/v1/models", 5'000)->body, "\"max_model_len\":64"));
  CHECK(http_get(target, "/metrics", 5'000)->status == 200);
  CHECK(server->drain(5'000));
  CHECK_FALSE(AnswerJudge::load(folder.at("base"), "f32", 1, 0).ok());
}

TEST_CASE("reward models: texts are judged alike in any company, by the last token of the answer") {
  const RewardFolder folder;
  folder.run_well(folder.reward(), "judge");
  const ComputeContext compute(1);
  const HfConfig config = load_any_model_config(folder.at("judge")).value();
  ParameterStore store(config.shape, DType::f32);
  REQUIRE(load_model_weights(compute, folder.at("judge"), store).ok());
  LlamaOptions options;
  options.tokens_max = 256, options.length_max = 48, options.training = false;
  Llama model(store, options);
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int32_t length : {3, 48, 17, 40, 5, 33})
    for (std::vector<std::int32_t>& text = texts.emplace_back(); static_cast<std::int32_t>(text.size()) < length;)
      text.push_back(static_cast<std::int32_t>(7 + (13 * text.size() + static_cast<std::size_t>(length)) % 200));
  std::vector<std::span<const std::int32_t>> all(texts.begin(), texts.end());
  const std::vector<double> together = sequence_rewards(compute, model, 256, all).value();
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(sequence_rewards(compute, model, 256, {&all[i], 1}).value()[0] ==
          doctest::Approx(together[i]).epsilon(1e-5).scale(1));
  texts.emplace_back(49, 3);
  all.assign(texts.begin(), texts.end());
  CHECK(says(sequence_rewards(compute, model, 256, all).error().message(), "a text of 49 tokens"));
  texts.back().clear();
  all.assign(texts.begin(), texts.end());
  CHECK(says(sequence_rewards(compute, model, 256, all).error().message(), "a text of 0 tokens"));
}

TEST_CASE("reward models: rows that make no sense are refused with their lines, and what is not there by name") {
  const RewardFolder folder;
  const auto refused_rows = [&](const std::string& rows) {
    REQUIRE(write_file_atomic(folder.at("pairs.jsonl"), rows).ok());
    return folder.refused(folder.reward());
  };
  const std::string pair = R"("prompt": "is it so?", "chosen": "yes, it surely is", "rejected": "no")";
  const std::string text =
      refused_rows("{" + pair + "}\n{" + pair + ", \"margin\": -1}\n{" + pair + ", \"margin\": \"wide\"}\n{" + pair +
                   ", \"category\": \"a/b\"}\n{" + pair +
                   ", \"label\": true}\n{\"prompt\": \"a?\", \"chosen\": \"x\", \"rejected\": \"x\"}\n");
  for (const char* said : {"pairs.jsonl:2", "'margin' is -1", "pairs.jsonl:3", "'margin' is string", "pairs.jsonl:4",
                           "'category' is 'a/b'", "pairs.jsonl:5", "'label' is not used", "pairs.jsonl:6",
                           "'chosen' and 'rejected' are the same answer"})
    CHECK_MESSAGE(says(text, said), text);
  Task short_rows = folder.reward();
  REQUIRE(write_file_atomic(folder.at("pairs.jsonl"), "{" + pair + "}\n").ok());
  short_rows.settings.set("sequence_length", 8);
  CHECK(says(folder.refused(short_rows), "none of 1 pairs fits into sequence_length = 8"));
  short_rows.settings.set("adapter", *parse_json(R"({"kind": "prompt", "virtual_tokens": 3})"));
  CHECK(says(folder.refused(short_rows), "sequence_length = 8, of which 3 stand before every text"));
  // Of pairs for align a margin is refused: nothing there uses it.
  REQUIRE(write_file_atomic(folder.at("pairs.jsonl"), "{" + pair + ", \"margin\": 1}\n").ok());
  Task align = folder.task("align", {{"model", "base"}, {"data", "pairs.jsonl"}}, R"({"sequence_length": 64})");
  CHECK(says(folder.refused(align), "'margin' is not used"));
}

}  // namespace longhaul
