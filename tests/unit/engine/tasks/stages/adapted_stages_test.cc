// Adapters that stand before texts, or behind the layers of a model, in the stages that learn from preferences, labels,
// rewards and the model's own answers: they learn, the reference knows nothing of them, and what they leave is read.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "contracts/events/event.h"
#include "engine/infer/serve/answer_judge.h"
#include "engine/model/store/model_folder.h"
#include "tests/unit/engine/tasks/stages/rollout_folder.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

namespace adapted_stages_test {

// With learning rates that they learn with in a few steps.
struct TriedAdapter {
  const char* kind;
  const char* settings;
  double lr;
};
constexpr TriedAdapter tried_adapters[] = {
    {"prompt", R"({"kind": "prompt", "virtual_tokens": 4})", 0.05},
    {"p-tuning", R"({"kind": "p-tuning", "virtual_tokens": 4, "encoder_size": 24})", 0.01},
    {"prefix", R"({"kind": "prefix", "virtual_tokens": 4})", 0.1},
    {"bottleneck", R"({"kind": "bottleneck", "bottleneck_size": 8})", 0.02}};

class AdaptedFolder : public RolloutFolder {
 public:
  Task of(const std::string& kind, const TriedAdapter& adapter, const char* data, const char* settings) const {
    Task made = task(kind, {{"model", "tuned"}, {"data", data}, {"heldout", data}}, settings);
    give(adapter, made);
    return made;
  }
  static void give(const TriedAdapter& adapter, Task& task) {
    task.settings.set("adapter", *parse_json(adapter.settings)), task.settings.set("precision", "f32");
    task.settings.set("optimizer", *parse_json(format(R"({{"lr": {}, "warmup_steps": 0}})", adapter.lr)));
  }
  // Metrics that have a number of that name.
  std::vector<Value> steps(const std::string& out, const char* with) const {
    std::uint64_t offset = 0;
    std::vector<Value> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find(with) && event.fields.find("grad_norm"))
        found.push_back(event.fields);
    return found;
  }
};

double mean_of(const std::vector<Value>& steps, std::size_t from, std::size_t count, const char* name) {
  double sum = 0;
  for (std::size_t i = from; i < from + count; ++i) sum += steps.at(i).get_number(name);
  return sum / static_cast<double>(count);
}

TEST_CASE("preferences are learnt by what stands before texts or behind layers, and by nothing of the reference") {
  const AdaptedFolder folder;
  for (const TriedAdapter& adapter : tried_adapters) {
    CAPTURE(std::string(adapter.kind));
    Task task = folder.of("align", adapter, "questions",
                          R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 12})");
    folder.run_well(task, adapter.kind);
    const std::vector<Value> steps = folder.steps(adapter.kind, "margin");
    REQUIRE(steps.size() == 12);
    // A fresh bottleneck changes nothing; what is new before a text changes what the model says of it.
    const bool changes = std::abs(steps[0].get_number("loss") - std::numbers::ln2) > 1e-5;
    CHECK(changes == (std::string(adapter.kind) != "bottleneck"));
    CHECK(mean_of(steps, 9, 3, "loss") < mean_of(steps, 0, 3, "loss"));
    CHECK(folder.figure(adapter.kind, "heldout_accuracy") > 0.6);
    const ModelShape shape = load_model_config(folder.at(adapter.kind), AdapterParts::known).value().shape;
    CHECK((shape.virtual_tokens == 4) == changes);
    CHECK((shape.bottleneck.size == 8) != changes);
  }
  // The same bits where the training is stopped and goes on; another method without a reference computes none.
  Task task = folder.of("align", tried_adapters[2], "questions",
                        R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 12})");
  const std::atomic<bool> stop{true};
  REQUIRE_FALSE(folder.run(task, "parts", stop).ok());
  folder.run_well(task, "parts");
  CHECK(folder.weights("parts") == folder.weights("prefix"));
  task.settings.set("method", "simpo"), task.settings.set("length_normalized", true), task.settings.set("steps", 2);
  folder.run_well(task, "simpo");
  // Nothing of the sequence is left for a text.
  task.settings.set("adapter", *parse_json(R"({"kind": "prefix", "virtual_tokens": 64})"));
  CHECK(folder.refusal(task).find("leave no room for a text in sequence_length = 64") != std::string::npos);
}

TEST_CASE("labels are learnt by embeddings before texts; the estimate of the divergence is of texts behind them") {
  const AdaptedFolder folder;
  std::string rows;
  for (int i = 0; i < 32; ++i)
    rows += format("{{\"prompt\": \"which colour is number {}?\", \"completion\": \"{}\", \"label\": {}}}\n", i / 2,
                   i % 2 ? "it is red!" : "it is red.", i % 2 ? "true" : "false");
  REQUIRE(write_file_atomic(folder.at("labels.jsonl"), rows).ok());
  const Task task = folder.of("align", tried_adapters[0], "labels.jsonl",
                              R"({"method": "kto", "sequence_length": 64, "micro_batch_size": 4,
                                  "global_batch_size": 16, "steps": 16})");
  folder.run_well(task, "one");
  const std::vector<Value> one = folder.steps("one", "divergence_estimate");
  REQUIRE(one.size() == 16);
  CHECK(mean_of(one, 13, 3, "loss") < mean_of(one, 0, 3, "loss"));
  CHECK(mean_of(one, 13, 3, "margin") > mean_of(one, 0, 3, "margin"));
  CHECK(one[0].get_number("divergence_estimate") > 1e-3);  // the model with fresh embeddings is not its reference
  const ParallelDims parts = stage_layout(2, 2, 1, 0);
  run_on_ranks(folder, task, "parts", parts);
  const std::vector<Value> ranks = folder.steps("parts", "divergence_estimate");
  REQUIRE(ranks.size() == one.size());
  for (std::size_t i = 0; i < 4; ++i)
    for (const char* name : {"loss", "margin", "divergence_estimate", "grad_norm"}) {
      CAPTURE(std::string(name));
      CHECK(ranks[i].get_number(name) == doctest::Approx(one[i].get_number(name)).epsilon(1e-4).scale(1));
    }
}

// What a served reward model says of an answer.
double served_score(const std::string& folder, const std::string& answer) {
  const std::vector<ChatMessage> messages = {{"user", "which colour is number 5?"}, {"assistant", answer}};
  return AnswerJudge::load(folder, "f32", 1, 0).value()->judge({&messages, 1}).value().front().score;
}

TEST_CASE("reward models with parts beside their weights are measured, served and judge as they were trained") {
  const AdaptedFolder folder;
  Task judged = folder.grpo();
  judged.inputs.push_back({"reward", {folder.at("prefix")}, "", ""});
  judged.settings.set("reward", *parse_json(R"({"kind": "model"})")), judged.settings.set("steps", 1);
  judged.settings.set("sequence_length", 59);  // with what stands before a text, and its last token, 64
  for (const TriedAdapter& adapter : tried_adapters) {
    CAPTURE(std::string(adapter.kind));
    const Task task = folder.of("reward", adapter, "questions",
                                R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 16,
                                    "steps": 20})");
    folder.run_well(task, adapter.kind);
    const std::vector<Value> steps = folder.steps(adapter.kind, "margin");
    REQUIRE(steps.size() == 20);
    CHECK(mean_of(steps, 17, 3, "loss") < mean_of(steps, 0, 3, "loss"));
    CHECK(folder.figure(adapter.kind, "heldout_accuracy_low") > 0.6);
    // The folder by itself says what the training said of its held-out pairs.
    folder.run_well(folder.task("evaluate", {{"model", adapter.kind}, {"data", "questions"}},
                                R"({"tasks": ["reward"], "precision": "f32"})"),
                    "scores");
    CHECK(folder.figure("scores", "reward_accuracy_low") == folder.figure(adapter.kind, "heldout_accuracy_low"));
    CHECK(served_score(folder.at(adapter.kind), "maybe red!") > served_score(folder.at(adapter.kind), "it is red."));
    for (TaskInput& input : judged.inputs)
      if (input.name == "reward") input.paths = {folder.at(adapter.kind)};
    const std::string taught = std::string("taught-") + adapter.kind;
    folder.run_well(judged, taught);
    CHECK(folder.metrics(taught).at(0).get_number("reward_faults") == 0);
    // The output layer stands beside what was trained.
    const auto tensor = [&](const std::string& file, const std::string& name) {
      return std::string(SafetensorsFile::open(folder.at(adapter.kind + file)).value().find(name).value().bytes);
    };
    const bool plain = std::string(adapter.kind) == "bottleneck";
    CHECK(tensor("/adapter/adapter_model.safetensors", plain ? "score.weight" : "base_model.score.weight") ==
          tensor("/model.safetensors", "score.weight"));
    // Nothing else is made of such a model.
    Task more = task;
    more.inputs[0].paths = {folder.at(adapter.kind)};
    CHECK(folder.refusal(more).find("which are known to evaluate, sample and deploy alone") != std::string::npos);
    Task critic = judged;
    critic.settings.set("method", "ppo"), critic.settings.set("ppo", *parse_json(R"({"critic": "reward"})"));
    critic.settings.find("rollout")->set("group_size", 1);
    CHECK(folder.refusal(critic).find("no critic begins with them") != std::string::npos);
  }
}

TEST_CASE("answers are drawn with what stands before texts or behind layers, and teach it") {
  const AdaptedFolder folder;
  for (const TriedAdapter& adapter : tried_adapters) {
    CAPTURE(std::string(adapter.kind));
    const bool is_layers = std::string(adapter.kind) == "bottleneck", is_keys = std::string(adapter.kind) == "prefix";
    const std::size_t count = is_layers || is_keys ? 20 : 2;  // a few embeddings teach so small a model too little
    Task task = folder.grpo();
    AdaptedFolder::give(adapter, task);
    task.settings.set("steps", static_cast<long long>(count)), task.settings.set("beta", 0.001);
    if (is_keys) task.settings.find("reward")->set("pattern", "e");
    Value& rollout = *task.settings.find("rollout");
    rollout.set("clip_low", 1e-4), rollout.set("clip_high", 1e-4);
    folder.run_well(task, adapter.kind);
    const std::vector<Value> steps = folder.metrics(adapter.kind);
    REQUIRE(steps.size() == count);
    for (const Value& step : steps) CHECK(step.get_number("clip_fraction") == 0);  // what drew them is what learns
    CHECK((steps[0].get_number("kl") > 1e-4) == !is_layers);  // the reference is the model without the adapter
    if (count == 20) CHECK(mean_of(steps, 15, 5, "reward") > mean_of(steps, 0, 5, "reward") + 0.05);
  }
}

TEST_CASE("other methods of rollouts learn with such adapters: a critic has no part of them, nor has a teacher") {
  const AdaptedFolder folder;
  Task ppo = folder.grpo();
  AdaptedFolder::give(tried_adapters[0], ppo);
  ppo.settings.set("method", "ppo"), ppo.settings.set("steps", 2);
  ppo.settings.find("rollout")->set("group_size", 1);
  folder.run_well(ppo, "ppo");
  for (const Value& step : folder.metrics("ppo")) CHECK(step.get_number("value_loss") > 0);

  Task distill = folder.distill("tuned");
  AdaptedFolder::give(tried_adapters[2], distill);
  folder.run_well(distill, "distill");
  const std::vector<Value> steps = folder.metrics("distill");
  REQUIRE(steps.size() == 12);
  CHECK(mean_of(steps, 9, 3, "loss") < mean_of(steps, 0, 3, "loss"));

  for (const char* method : {"rloo", "reinforce++"}) {
    Task task = folder.grpo();
    AdaptedFolder::give(tried_adapters[3], task);
    task.settings.set("method", method), task.settings.set("steps", 1);
    folder.run_well(task, method);
    CHECK(std::isfinite(folder.metrics(method).at(0).get_number("loss")));
  }
  // Longer answers than what is left of the sequence.
  Task task = folder.grpo();
  AdaptedFolder::give(tried_adapters[1], task);
  task.settings.find("rollout")->set("max_new_tokens", 60);
  CHECK(folder.refusal(task).find("of which adapter.virtual_tokens = 4 stand before it") != std::string::npos);
}

TEST_CASE("ranks that only draw have what stands before texts, and layers behind others, with the weights") {
  const AdaptedFolder folder;
  for (const TriedAdapter& adapter : {tried_adapters[2], tried_adapters[3]}) {
    CAPTURE(std::string(adapter.kind));
    Task task = folder.grpo();
    AdaptedFolder::give(adapter, task);
    task.settings.set("steps", 3);
    Value& rollout = *task.settings.find("rollout");
    rollout.set("ahead", true), rollout.set("threads", 1);
    const std::string kind = adapter.kind;
    folder.run_well(task, kind + "-thread");
    rollout.set("threads", 0), rollout.set("ranks", 1);
    for (const Status& one : run_in_layout(folder, task, kind + "-rank", stage_layout(1, 1, 1, 0), {.drawing = 1}))
      REQUIRE_MESSAGE(one.ok(), one.error().message());
    CHECK(folder.weights(kind + "-rank") == folder.weights(kind + "-thread"));
  }
}

}  // namespace adapted_stages_test

}  // namespace
}  // namespace longhaul
