// `align` and `reward` as stages of ranks with an emulated GPU each, whose messages go by way of the host: in every
// layout the losses, gradients and held-out figures are those of one rank on the processor. Memory of a device that the
// host touches ends the program.
#include <doctest/doctest.h>

#include "contracts/events/event.h"
#include "engine/comm/staged_communicator.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/long_run.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

// Samples of four; an emulated GPU takes its time.
constexpr const char* of_each_task = R"json("sequence_length": 24, "micro_batch_size": 1, "global_batch_size": 4,
    "precision": "f32", "optimizer": {"lr": 0.01, "warmup_steps": 0, "lr_schedule": "constant"})json";

// A tiny model, and answers of a word, which are compared, good or bad, or have values.
class JudgedFolder : public StageFolder {
 public:
  JudgedFolder() {
    run_well(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    run_well(task("pretrain", {{"tokens", "tokens"}},
                  R"({"sequence_length": 32, "micro_batch_size": 4, "global_batch_size": 4, "steps": 10,
                      "precision": "f32", "optimizer": {"lr": 0.004, "warmup_steps": 0},
                      "model": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
                                "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}})"),
             "base");
    std::string pairs, labels, ratings;
    for (int i = 0; i < 7; ++i) {
      const std::string prompt = format("{}?", i), good = i % 3 == 0 ? "yes, so" : "yes", bad = "no";
      pairs += json_line({{"prompt", prompt}, {"chosen", good}, {"rejected", bad}});
      labels += format("{{\"prompt\": \"{}\", \"completion\": \"{}\", \"label\": {}}}\n", prompt, i % 3 ? good : bad,
                       i % 3 ? "true" : "false");
      ratings += format("{{\"prompt\": \"{}\", \"response\": \"{}\", \"sure\": {}, \"doubt\": {}}}\n", prompt, good,
                        i % 3, 2 - i % 3);
    }
    for (const auto& [name, text] :
         {std::pair{"pairs.jsonl", &pairs}, {"labels.jsonl", &labels}, {"ratings.jsonl", &ratings}})
      REQUIRE(write_file_atomic(at(name), *text).ok());
  }
  Task judged(const char* kind, const std::string& data, const std::string& settings) const {
    return task(kind, {{"model", "base"}, {"data", data}, {"heldout", data}},
                format("{{{}, {}}}", of_each_task, settings));
  }
  // loss, grad_norm and, where there is one, KTO's estimate of each step.
  std::vector<double> curve(const std::string& out) const {
    std::uint64_t offset = 0;
    std::vector<double> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find("grad_norm"))
        for (const char* name : {"loss", "grad_norm", "divergence_estimate"})
          found.push_back(event.fields.get_number(name));
    return found;
  }
};

// `drawing`: ranks beside the layout, which only draw answers.
void run_on_gpus(const JudgedFolder& folder, Task task, const std::string& out, const ParallelDims& dims,
                 int drawing = 0) {
  task.settings.set("device", "gpu"), task.settings.set("communicator", "staged");
  const int ranks = dims.world_size() + drawing;
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  std::vector<Status> status(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Status& said = status[static_cast<std::size_t>(rank)];
      testing::EmulatedGpu gpu;
      MemoryAccounts memory;
      memory.place_on(gpu.device());
      auto communicator = make_staged_communicator(gpu.device(), world.communicator(rank, 1, options));
      const auto parted = LaunchRanks::create(dims, drawing, std::move(communicator), 60'000);
      if (!parted.ok()) return void(said = parted.error());
      Mesh& mesh = (*parted)->mesh();
      Launch launch;
      launch.output_dir = folder.at(out), launch.state_dir = folder.at(out + ".state");
      launch.events_path = folder.at(out + ".events.jsonl"), launch.attempt_key = "key", launch.dims = dims;
      const ComputeContext compute(gpu.device(), gpu.ops());
      EventWriter events(clock, rank == 0 ? launch.events_path : "", rank);
      const std::atomic<bool> stop{false};
      TaskRun run{task, launch, clock, compute, mesh, mesh.world(), events, nullptr, stop};
      run.memory = &memory, run.gpu = &gpu, run.rollout_ranks = (*parted)->rollout_ranks();
      said = run_stage(run);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& one : status) REQUIRE_MESSAGE(one.ok(), (one.ok() ? "" : one.error().message()));
}

// What one rank on the processor does, then each layout on GPUs.
void check_layouts(const JudgedFolder& folder, const std::string& name, const Task& task,
                   const std::vector<ParallelDims>& layouts, const std::vector<const char*>& heldout) {
  CAPTURE(name);
  folder.run_well(task, name);
  const std::vector<double> alone = folder.curve(name);
  REQUIRE(alone.size() >= 6);
  CHECK(alone[1] > 0);
  if (task.settings.get_string("method") == "kto") CHECK(alone.back() > 1e-3);  // there is something to agree on
  for (const ParallelDims& dims : layouts) {
    CAPTURE(dims.to_string());
    const std::string out = name + "-" + replace_all(dims.to_string(), " ", "-") + (dims.sp ? "-sp" : "");
    run_on_gpus(folder, task, out, dims);
    const std::vector<double> spread = folder.curve(out);
    REQUIRE(spread.size() == alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      CAPTURE(i);
      CHECK(spread[i] == doctest::Approx(alone[i]).epsilon(i % 3 == 1 ? 1e-3 : 1e-4).scale(1));  // norms as ever
    }
    for (const char* figure : heldout) {
      CAPTURE(figure);
      CHECK(folder.figure(out, figure) == doctest::Approx(folder.figure(name, figure)).epsilon(1e-4).scale(1));
    }
  }
}

ParallelDims only_tp() {
  ParallelDims dims = stage_layout(2, 1, 1, 0);
  dims.sp = false;
  return dims;
}

// tp with sp, ZeRO 3, a pipeline, cp; the other ones, and those together, in the long test.
std::vector<ParallelDims> layouts_of_gpus() {
  std::vector<ParallelDims> layouts = {stage_layout(2, 1, 1, 0), stage_layout(1, 1, 2, 3), stage_layout(1, 2, 1, 0)};
  layouts.emplace_back().cp = 2;
  if (testing::long_run())
    for (const ParallelDims& more : {only_tp(), stage_layout(1, 1, 2, 1), stage_layout(1, 1, 2, 2),
                                     stage_layout(2, 2, 1, 0), stage_layout(1, 2, 2, 3)})
      layouts.push_back(more);
  return layouts;
}

TEST_CASE("pairs on GPUs in layouts: the reference, losses and gradients of one processor, with an adapter, too") {
  const JudgedFolder folder;
  check_layouts(folder, "dpo", folder.judged("align", "pairs.jsonl", R"("method": "dpo", "steps": 2)"),
                layouts_of_gpus(), {"heldout_loss", "heldout_margin"});
  check_layouts(folder, "orpo",
                folder.judged("align", "pairs.jsonl", R"("method": "orpo", "steps": 2, "length_normalized": true)"),
                {only_tp(), stage_layout(1, 1, 2, 2)}, {"heldout_loss"});
  check_layouts(
      folder, "dpo-lora",
      folder.judged("align", "pairs.jsonl", R"("method": "dpo", "steps": 2, "adapter": {"kind": "lora", "rank": 2})"),
      {stage_layout(2, 1, 1, 0), stage_layout(1, 1, 2, 3)}, {"heldout_loss", "heldout_margin"});
}

TEST_CASE("labels on GPUs in layouts: the estimate of a step is that of one processor") {
  const JudgedFolder folder;
  check_layouts(folder, "kto",
                folder.judged("align", "labels.jsonl", R"("method": "kto", "steps": 3, "undesirable_weight": 0.1)"),
                layouts_of_gpus(), {"heldout_loss", "heldout_margin", "heldout_divergence_estimate"});
}

// Two groups of four short answers a step, half of which a reward likes.
Task drawn_answers(const JudgedFolder& folder, const std::string& more = "") {
  std::string prompts;
  for (int i = 0; i < 6; ++i) prompts += json_line({{"prompt", format("{}?", i)}});
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), prompts).ok());
  Task task = folder.judged("align", "prompts.jsonl",
                            R"("method": "grpo", "beta": 0, "steps": 2,
                               "rollout": {"group_size": 4, "max_new_tokens": 4, "slots": 4},
                               "reward": {"kind": "regex", "pattern": "[aeiou]"})" +
                                more);
  task.settings.set("global_batch_size", 8), task.settings.set("micro_batch_size", 4);
  return task;
}

TEST_CASE("answers on GPUs in layouts: drawn by all weights, and learnt from as on one processor") {
  const JudgedFolder folder;
  std::vector<ParallelDims> layouts = {stage_layout(2, 1, 1, 0), stage_layout(1, 1, 2, 3)};
  if (testing::long_run()) layouts = layouts_of_gpus();
  check_layouts(folder, "grpo", drawn_answers(folder), layouts, {"heldout_accuracy", "heldout_answer_tokens"});
  if (!testing::long_run()) return;
  Task ppo = drawn_answers(folder);
  ppo.settings.set("method", "ppo"), ppo.settings.find("rollout")->set("group_size", 1);
  check_layouts(folder, "ppo", ppo, layouts, {"heldout_accuracy", "heldout_answer_tokens"});
}

TEST_CASE("answers on GPUs of a model with experts, and a critic that has experts, too") {
  const JudgedFolder folder;
  folder.run_well(folder.task("pretrain", {{"tokens", "tokens"}},
                              R"({"sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 8, "steps": 4,
                                  "precision": "f32", "optimizer": {"lr": 0.004, "warmup_steps": 2},
                                  "model": {"architecture": "mixtral", "hidden_size": 16, "intermediate_size": 24,
                                            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
                                            "num_local_experts": 2, "num_experts_per_tok": 1,
                                            "max_position_embeddings": 64}})"),
                  "experts");
  Task task = drawn_answers(folder);
  for (TaskInput& input : task.inputs)
    if (input.name == "model") input.paths = {folder.at("experts")};
  task.settings.set("method", "ppo"), task.settings.find("rollout")->set("group_size", 1);
  ParallelDims over_replicas = stage_layout(1, 1, 2, 0);
  over_replicas.ep = 2;
  check_layouts(folder, "experts-ppo", task, {ParallelDims(), over_replicas}, {"heldout_answer_tokens"});
}

TEST_CASE("answers on GPUs in layouts by what an adapter makes of the weights, and by what it puts before texts") {
  const JudgedFolder folder;
  std::vector<std::string> adapters = {R"({"kind": "prefix", "virtual_tokens": 3})"};
  if (testing::long_run()) adapters.push_back(R"({"kind": "lora", "rank": 2})");
  for (const std::string& adapter : adapters)
    check_layouts(folder, parse_json(adapter)->get_string("kind"),
                  drawn_answers(folder, format(R"(, "adapter": {})", adapter)), {stage_layout(2, 1, 1, 0)},
                  {"heldout_answer_tokens"});
}

TEST_CASE("answers on GPUs drawn by ranks that have a part of the model each, as they train it and otherwise") {
  const JudgedFolder folder;
  Task task = drawn_answers(folder);
  task.settings.set("beta", 0.05);  // a reference, in parts, too
  folder.run_well(task, "alone");
  const std::vector<double> alone = folder.curve("alone");
  REQUIRE(alone.size() == 6);
  for (const auto& [tp, pp] : {std::pair{2, 1}, std::pair{1, 2}}) {
    CAPTURE(tp);
    CAPTURE(pp);
    task.settings.find("rollout")->set("tp", tp), task.settings.find("rollout")->set("pp", pp);
    const std::string out = format("drawn-{}-{}", tp, pp);
    run_on_gpus(folder, task, out, stage_layout(2, 1, 1, 0));
    const std::vector<double> together = folder.curve(out);
    REQUIRE(together.size() == alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i)
      CHECK(together[i] == doctest::Approx(alone[i]).epsilon(i % 3 == 1 ? 1e-3 : 1e-4).scale(1));
    CHECK(folder.figure(out, "heldout_answer_tokens") == folder.figure("alone", "heldout_answer_tokens"));
  }
}

TEST_CASE("answers ahead by ranks with GPUs of their own are those that a processor draws beside its steps") {
  const JudgedFolder folder;
  Task task = drawn_answers(folder);
  task.settings.set("steps", 3), task.settings.find("rollout")->set("ahead", true);
  folder.run_well(task, "ahead");
  const std::vector<double> alone = folder.curve("ahead");
  REQUIRE(alone.size() == 9);
  CHECK(alone[7] > 0);
  Value& rollout = *task.settings.find("rollout");
  const auto check_apart = [&](const ParallelDims& trains, int ranks, int tp) {
    CAPTURE(tp);
    const std::string out = format("apart-{}", tp);
    rollout.set("ranks", ranks), rollout.set("tp", tp);
    run_on_gpus(folder, task, out, trains, ranks);
    const std::vector<double> apart = folder.curve(out);
    REQUIRE(apart.size() == 9);
    for (std::size_t i = 0; i < alone.size(); ++i)
      CHECK(apart[i] == doctest::Approx(alone[i]).epsilon(i % 3 == 1 ? 1e-3 : 1e-4).scale(1));
  };
  rollout.set("speculate", "ngram");
  check_apart(ParallelDims(), 1, 1);
  rollout.set("speculate", "none");
  check_apart(stage_layout(1, 1, 2, 3), 2, 2);  // two of them, with weights that others share
}

TEST_CASE("reward models on GPUs in layouts: a head of one number and of two, beside an adapter, too") {
  const JudgedFolder folder;
  const Task pairs = folder.judged("reward", "pairs.jsonl", R"("method": "bradley-terry", "steps": 2)");
  check_layouts(folder, "pairs", pairs, layouts_of_gpus(), {"heldout_loss", "heldout_accuracy"});
  check_layouts(folder, "attributes",
                folder.judged("reward", "ratings.jsonl",
                              R"("method": "attributes", "steps": 2, "attribute": {"sure": {"weight": 1},
                                 "doubt": {"weight": -0.5}})"),
                {stage_layout(2, 1, 1, 0)}, {"heldout_loss"});
  Task adapted = pairs;
  adapted.settings.set("adapter", *parse_json(R"({"kind": "lora", "rank": 2})"));
  check_layouts(folder, "adapted", adapted, {stage_layout(1, 1, 2, 2), stage_layout(2, 1, 1, 0)},
                {"heldout_loss", "heldout_accuracy"});
}

}  // namespace
}  // namespace longhaul
