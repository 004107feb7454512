#include "engine/tasks/stages/stages.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/events/event.h"
#include "contracts/records/manifest.h"
#include "contracts/records/milestone.h"
#include "contracts/tasks/stage_kinds.h"
#include "engine/infer/generate/answer_batch.h"
#include "engine/infer/generate/inference_text_model.h"
#include "engine/interop/safetensors.h"
#include "engine/model/llama.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/text_windows.h"
#include "tests/support/tensorboard_reader.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

using namespace longhaul;

TEST_CASE("text windows score every token exactly once, with enough before it") {
  for (const std::int64_t tokens : {2, 5, 16, 17, 18, 100, 333}) {
    for (const std::int64_t context : {4, 16, 64}) {
      for (const std::int64_t stride : {std::int64_t{1}, context / 2, context}) {
        std::vector<int> scored(static_cast<std::size_t>(tokens), 0);
        for (const TextWindow& w : text_windows(tokens, context, stride)) {
          CHECK(w.end - w.begin <= context + 1);
          CHECK(w.scored_from > w.begin);
          for (std::int64_t t = w.scored_from; t < w.end; ++t) {
            ++scored[static_cast<std::size_t>(t)];
            CHECK(t - w.begin >= std::min(t, context - stride + 1));
          }
        }
        CHECK(scored[0] == 0);
        for (std::size_t t = 1; t < scored.size(); ++t) CHECK(scored[t] == 1);
      }
    }
  }
}

TEST_CASE("from documents to an aligned model: every stage leaves its artifact and gets better at its own thing") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  folder.run_well(folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
  for (const char* file :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    CHECK(file_exists(folder.at("base/") + file));
  CHECK(folder.figure("base", "heldout_loss") < 2.5);  // uniform: 6.0

  const Task sft = folder.task(
      "sft", {{"model", "base"}, {"data", "questions"}, {"heldout", "questions"}},
      R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 6, "precision": "f32", "optimizer": {"lr": 0.003}})");
  folder.run_well(sft, "tuned");
  folder.run_well(
      folder.task(
          "align", {{"model", "tuned"}, {"data", "questions"}},
          R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 3, "precision": "f32", "beta": 0.1, "optimizer": {"lr": 0.001}})"),
      "aligned");
  CHECK(folder.figure("aligned", "loss") < 0.5);

  const char* evaluate =
      R"({"tasks": ["bits_per_byte", "answer_loss", "preference", "multiple_choice"], "precision": "f32", "prompts": ["the cat"], "prompt_tokens": 8})";
  folder.run_well(
      folder.task("evaluate", {{"model", "tuned"}, {"baseline", "base"}, {"tokens", "tokens"}, {"data", "questions"}},
                  evaluate),
      "scores");
  CHECK(folder.figure("scores", "baseline_bits_per_byte") < 1.5);
  CHECK(folder.figure("scores", "answer_loss") < folder.figure("scores", "baseline_answer_loss"));
  CHECK(folder.figure("scores", "choice_accuracy") == 1);
  CHECK(folder.figure("scores", "length_only_accuracy") >= 0.5);
  CHECK(folder.figure("scores", "preference_accuracy") < 0.2);  // tuning taught the other form
  // Both models were asked the same 100 pairs and the one question; what each answered is kept.
  CHECK(folder.figure("scores", "preference_accuracy_difference") ==
        doctest::Approx(folder.figure("scores", "preference_accuracy") -
                        folder.figure("scores", "baseline_preference_accuracy")));
  CHECK(folder.figure("scores", "preference_accuracy_difference_low") <
        folder.figure("scores", "preference_accuracy_difference"));
  CHECK(folder.figure("scores", "preference_pairs_compared") == 100);
  CHECK(folder.figure("scores", "choice_questions_compared") == 1);
  const std::vector<std::string> samples = split(*read_file(folder.at("scores/samples.jsonl")), '\n');
  REQUIRE(samples.size() == 203);  // with what follows the last line
  const Value sample = *parse_json(samples[100]);
  CHECK(sample.get_string("task") == "multiple_choice");
  CHECK(sample.get_integer("line") == 1);
  CHECK(sample.find("log_probabilities")->size() == 2);
  CHECK(parse_json(samples[101])->get_string("model") == "baseline");
  folder.run_well(folder.task("evaluate", {{"model", "aligned"}, {"data", "questions"}},
                              R"({"tasks": ["preference"], "precision": "f32"})"),
                  "scores2");
  CHECK(folder.figure("scores2", "preference_accuracy") > 0.8);

  // Converting to bf16 and back keeps every bit that bf16 has.
  folder.run_well(folder.task("convert", {{"model", "base"}}, R"({"dtype": "bf16"})"), "narrow");
  folder.run_well(folder.task("convert", {{"model", "narrow"}}, R"({"dtype": "f32"})"), "wide");
  folder.run_well(folder.task("convert", {{"model", "wide"}}, R"({"dtype": "bf16"})"), "narrow2");
  CHECK(*read_file(folder.at("narrow/model.safetensors")) == *read_file(folder.at("narrow2/model.safetensors")));
}

TEST_CASE("a GPT-2 model goes the same way; only int8 is refused, before anything is written") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  Task pretrain = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  pretrain.settings.set("model", *parse_json(R"({"architecture": "gpt2", "hidden_size": 48, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "max_position_embeddings": 64})"));
  folder.run_well(pretrain, "base");
  CHECK(folder.figure("base", "heldout_loss") < 2.5);
  const Value config = *parse_json(*read_file(folder.at("base/config.json")));
  CHECK(config.get_string("model_type") == "gpt2");
  CHECK(config.get_integer("n_inner") == 192);
  folder.run_well(
      folder.task(
          "sft", {{"model", "base"}, {"data", "questions"}, {"heldout", "questions"}},
          R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 6, "precision": "f32", "optimizer": {"lr": 0.003}})"),
      "tuned");
  folder.run_well(
      folder.task(
          "evaluate", {{"model", "tuned"}, {"baseline", "base"}, {"tokens", "tokens"}, {"data", "questions"}},
          R"({"tasks": ["bits_per_byte", "answer_loss"], "precision": "bf16", "prompts": ["the cat"], "prompt_tokens": 8})"),
      "scores");
  CHECK(folder.figure("scores", "baseline_bits_per_byte") < 1.5);
  CHECK(folder.figure("scores", "answer_loss") < folder.figure("scores", "baseline_answer_loss"));
  const std::atomic<bool> stop{false};
  const Status refused = folder.run(folder.task("quantize", {{"model", "base"}}, "{}"), "small", stop);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK_FALSE(file_exists(folder.at("small/model.safetensors")));
}

TEST_CASE("asked to stop, a training saves and says so; started again it ends with the same bits") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  const Task pretrain = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  folder.run_well(pretrain, "whole");
  const std::atomic<bool> stop{true};
  const Status stopped = folder.run(pretrain, "parts", stop);
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().code == ErrorCode::aborted);
  CHECK_FALSE(file_exists(folder.at("parts/model.safetensors")));
  CHECK(file_exists(folder.at("parts.state/checkpoints/step-00000001/checkpoint.json")));
  folder.run_well(pretrain, "parts");
  CHECK(*read_file(folder.at("whole/model.safetensors")) == *read_file(folder.at("parts/model.safetensors")));
}

TEST_CASE(
    "with tensorboard = true every metric is a scalar, over a restart too, and the settings of a schedule are "
    "checked") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  Task pretrain = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  pretrain.settings.set("tensorboard", true);
  pretrain.settings.set("steps", 6);
  const std::atomic<bool> stop{true};
  REQUIRE(folder.run(pretrain, "base", stop).error().code == ErrorCode::aborted);
  folder.run_well(pretrain, "base");
  const std::vector<std::string> files = list_directory(folder.at("tensorboard")).value();
  REQUIRE(files.size() == 2);
  std::vector<std::int64_t> losses, heldout, begins;
  for (const std::string& file : files)
    for (const testing::ReadEvent& event : testing::read_event_file(folder.at("tensorboard/" + file))) {
      if (event.session_status == 1) begins.push_back(event.step);
      if (event.tag == "loss") losses.push_back(event.step);
      if (event.tag == "heldout_loss") heldout.push_back(event.step);
    }
  CHECK(begins == std::vector<std::int64_t>{1, 2});
  CHECK(losses == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(heldout == std::vector<std::int64_t>{6});

  pretrain.settings.find("optimizer")->set("rewarm_after", 6);
  const std::atomic<bool> go{false};
  const Status refused = folder.run(pretrain, "other", go);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("optimizer.rewarm_after = 6 leaves nothing of steps = 6") != std::string::npos);
}

TEST_CASE("milestones are models of their own, whole, the same after a restart, and change nothing of the training") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  Task plain = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  plain.key = "stage-key";
  Task task = plain;
  task.settings.set(milestone_setting, 15);
  task.settings.find("checkpoint")->set("keep_last", 9);
  folder.run_well(plain, "plain");
  folder.run_well(task, "with");
  CHECK(*read_file(folder.at("with/model.safetensors")) == *read_file(folder.at("plain/model.safetensors")));
  const auto curve = [&](const std::string& out) {
    std::uint64_t offset = 0;
    std::vector<std::pair<std::int64_t, double>> losses;
    const std::vector<Event> all = *read_events(folder.at(out + ".events.jsonl"), offset);
    for (const Event& event : all)
      if (event.kind == "metric")
        losses.emplace_back(event.fields.get_integer("step"), event.fields.get_number("loss"));
    return losses;
  };
  CHECK(curve("with") == curve("plain"));
  CHECK(curve("with").size() >= 60);
  CHECK(!file_exists(folder.at("plain.milestones")));
  CHECK(published_milestones(folder.at("with.milestones")) == std::vector<std::int64_t>{15, 30, 45});
  CHECK(list_directory(folder.at("with.milestones"))->size() == 3);  // nothing half written is left
  const auto manifest_of = [&](int step) { return *read_manifest(folder.at(format("with.milestones/{}", step))); };
  for (const int step : {15, 30, 45}) {
    CHECK(manifest_of(step).key == milestone_key("stage-key", step));
    CHECK(verify_artifact(folder.at(format("with.milestones/{}", step)), manifest_of(step), true).ok());
    CHECK(manifest_of(step).figures.get_number("steps") == step);
    CHECK(manifest_of(step).figures.get_number("loss") == curve("with")[static_cast<std::size_t>(step) - 1].second);
  }
  folder.run_well(folder.task("evaluate", {{"model", "with.milestones/15"}, {"tokens", "tokens"}},
                              R"({"tasks": ["bits_per_byte"], "precision": "f32"})"),
                  "scores");
  CHECK(folder.figure("scores", "bits_per_byte") > 0);

  // From the checkpoint of step 20 on: 30 and 45 come again. What is whole stays as it is, the rest is made anew with
  // the same bits.
  for (const char* step : {"step-00000040", "step-00000060"})
    REQUIRE(remove_tree(folder.at(std::string("with.state/checkpoints/") + step)).ok());
  const Manifest kept = manifest_of(30), lost = manifest_of(45);
  REQUIRE(remove_tree(folder.at("with.milestones/45/model.safetensors")).ok());
  folder.run_well(task, "with");
  CHECK(manifest_of(30).created_ms == kept.created_ms);
  CHECK(manifest_of(45).digest() == lost.digest());
  CHECK(verify_artifact(folder.at("with.milestones/45"), manifest_of(45), true).ok());
  // Those of another key, left by other inputs, are replaced.
  for (const char* step : {"step-00000040", "step-00000060"})
    REQUIRE(remove_tree(folder.at(std::string("with.state/checkpoints/") + step)).ok());
  task.key = "another-key";
  folder.run_well(task, "with");
  CHECK(manifest_of(30).key == milestone_key("another-key", 30));
}

TEST_CASE("tuned and aligned models have milestones, too") {
  StageFolder folder;
  folder.prepare(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  folder.prepare(folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
  const std::string settings =
      R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 5, "milestone_every": 2, "precision": "f32"})";
  folder.run_well(folder.task("sft", {{"model", "base"}, {"data", "questions"}}, settings), "tuned");
  CHECK(published_milestones(folder.at("tuned.milestones")) == std::vector<std::int64_t>{2, 4});
  folder.run_well(folder.task("align", {{"model", "tuned.milestones/4"}, {"data", "questions"}}, settings), "aligned");
  CHECK(published_milestones(folder.at("aligned.milestones")) == std::vector<std::int64_t>{2, 4});
}

TEST_CASE("a milestone that cannot be written ends the training with the reason") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  Task task = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  task.settings.set(milestone_setting, 15);
  // A volume that is not mounted: a definite answer of the file system, unlike errors that are asked about for a
  // minute.
  REQUIRE(::symlink(folder.at("unmounted/volume").c_str(), folder.at("out.milestones").c_str()) == 0);
  const std::atomic<bool> stop{false};
  const Status status = folder.run(task, "out", stop);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message().find("milestone of step 15") != std::string::npos);
}

TEST_CASE("too little memory is said before the first step, and what was planned is what is held") {
  const StageFolder here;
  here.run_well(here.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 300})"), "tokens");
  std::string settings = kStagesPretrain;
  settings.replace(settings.find("\"steps\": 60"), 11, "\"steps\": 4");
  const Task train = here.task("pretrain", {{"tokens", "tokens"}}, settings);

  const std::atomic<bool> stop{false};
  const Status refused = here.run(train, "small", stop, {1, 0, 0});  // one MiB
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  const std::string text = refused.error().message();
  CAPTURE(text);
  for (const char* said : {"too little memory", "1.0 MiB (Slurm's SLURM_MEM_PER_NODE)", "most of it for", "use"})
    CHECK(text.find(said) != std::string::npos);
  const auto events = read_file(here.at("small.events.jsonl"));
  CHECK((!events.ok() || events->find("\"metric\"") == std::string::npos));
  CHECK_FALSE(file_exists(here.at("small") + "/artifact.json"));

  here.run_well(train, "enough");
  std::optional<Value> memory;
  for (const std::string& line : split(*read_file(here.at("enough.events.jsonl")), '\n'))
    if (line.find("planned_bytes") != std::string::npos) memory = *parse_json(line);
  REQUIRE(memory);
  const Value *planned = memory->find("planned"), *held = memory->find("held");
  REQUIRE((planned && held));
  for (const char* category :
       {"master", "gradients", "optimizer", "activations", "logits", "batches", "checkpoint", "weights"}) {
    CAPTURE(category);
    CHECK(planned->get_integer(category) == held->get_integer(category));
  }
  CHECK(here.figure("enough", "memory_held") > 0);
}

TEST_CASE("bad tasks are refused with one clear error") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  const std::atomic<bool> stop{false};
  const auto refused = [&](const Task& task) {
    const Status status = folder.run(task, "out", stop);
    REQUIRE_FALSE(status.ok());
    return status.error();
  };
  CHECK(refused(folder.task("tune", {}, "{}")).code == ErrorCode::unsupported);
  CHECK(refused(folder.task("pretrain", {{"tokens", "nowhere"}}, kStagesPretrain)).code != ErrorCode::internal);
  CHECK(refused(folder.task("pretrain", {{"tokens", "tokens"}}, R"({"global_batch_size": 30, "micro_batch_size": 4})"))
            .code == ErrorCode::invalid_input);
  CHECK(refused(folder.task("pretrain", {{"tokens", "tokens"}}, R"({"sequence_length": 4096})"))
            .message()
            .find("max_position_embeddings") != std::string::npos);
  CHECK(refused(folder.task("evaluate", {{"model", "tokens"}, {"tokens", "tokens"}}, "{}"))
            .message()
            .find("config.json") != std::string::npos);
  Task wide = folder.task("evaluate", {{"model", "tokens"}, {"tokens", "tokens"}}, "{}");
  Launch launch;
  launch.dims.tp = 2;
  launch.output_dir = folder.at("out"), launch.state_dir = folder.at("out.state");
  const SystemClock clock;
  const ComputeContext compute(1);
  Mesh mesh;
  EventWriter events(clock, "", 0);
  TaskRun run{wide, launch, clock, compute, mesh, mesh.world(), events, nullptr, stop};
  const Status status = run_stage(run);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::unsupported);
  CHECK(status.error().message().find("more than this version can do for evaluate: replicas") != std::string::npos);
}

TEST_CASE("an adapter of experts that lie on several ranks, merged by convert, is the model that its stage left") {
  const StageFolder folder;
  Task pretrain = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
  pretrain.settings.set("steps", 2);
  for (const auto& [key, number] : {std::pair{"num_local_experts", 4}, {"num_experts_per_tok", 2}})
    pretrain.settings.find("model")->set(key, number);
  pretrain.settings.find("model")->set("architecture", "mixtral");
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
  folder.run_well(pretrain, "base");
  ParallelDims dims;
  dims.dp_replicate = dims.ep = 2;
  run_on_ranks(folder,
               folder.task("sft", {{"model", "base"}, {"data", "questions"}},
                           R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 2,
                               "precision": "f32", "optimizer": {"lr": 0.01, "warmup_steps": 0},
                               "adapter": {"kind": "lora", "rank": 2, "targets": ["w1", "w2", "w3"],
                                           "ranks": {"w2": 3}, "alphas": {"*.experts.1.w1": 5},
                                           "modules_to_save": ["norm", "input_layernorm"]}})"),
               "tuned", dims);
  const std::string left = *read_file(folder.at("tuned/model.safetensors"));
  const std::string dtype = left.find("\"BF16\"") < left.find("\"F32\"") ? "bf16" : "f32";
  folder.run_well(
      folder.task("convert", {{"model", "base"}, {"adapter", "tuned/adapter"}}, format(R"({{"dtype": "{}"}})", dtype)),
      "merged");
  CHECK(folder.figure("merged", "merged_tensors") == 2 * 4 * 3 + 3);
  CHECK(*read_file(folder.at("merged/model.safetensors")) == left);
  CHECK(*read_file(folder.at("base/model.safetensors")) != left);
  const std::atomic<bool> stop{false};
  const Status lost = folder.run(
      folder.task("convert", {{"model", "merged"}, {"adapter", "tuned/adapter"}}, R"({"unmerge": true})"), "out", stop);
  REQUIRE(!lost.ok());  // norms were trained beside it
  CHECK(lost.error().message().find("(all of it was replaced)") != std::string::npos);
}

TEST_CASE("preferences are learnt in layouts with tp, pp and ZeRO as by one rank, with an adapter, too") {
  StageFolder folder;
  folder.prepare(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
  folder.prepare(folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
  Task task = folder.task("align", {{"model", "base"}, {"data", "questions"}, {"heldout", "questions"}},
                          R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 3,
                              "precision": "f32", "optimizer": {"lr": 0.001, "warmup_steps": 0}})");
  const auto metrics = [&](const std::string& out) {
    std::uint64_t offset = 0;
    std::vector<Value> found;
    for (const std::vector<Event> all = *read_events(folder.at(out + ".events.jsonl"), offset);
         const Event& event : all)
      if (event.kind == "metric" && event.fields.find("margin")) found.push_back(event.fields);
    return found;
  };
  for (const char* adapter : {R"({"kind": "none"})", R"({"kind": "lora", "rank": 4})"}) {
    task.settings.set("adapter", *parse_json(adapter));
    const std::string one = format("one-{}", adapter[10]);
    folder.run_well(task, one);
    const std::vector<Value> alone = metrics(one);
    REQUIRE(alone.size() == 3);
    std::vector<ParallelDims> layouts = {stage_layout(1, 2, 2, 2)};
    if (adapter[10] == 'n') layouts = {stage_layout(1, 1, 2, 3), stage_layout(2, 1, 2, 1)};
    for (const ParallelDims& dims : layouts) {
      CAPTURE(dims.to_string());
      CAPTURE(adapter);
      const std::string out = one + replace_all(dims.to_string(), " ", "-");
      run_on_ranks(folder, task, out, dims);
      const std::vector<Value> steps = metrics(out);
      REQUIRE(steps.size() == 3);
      for (std::size_t i = 0; i < 3; ++i)
        for (const char* name : {"loss", "accuracy", "margin", "grad_norm"}) {
          CAPTURE(name);
          if (i == 0 && std::string(name) == "accuracy") continue;  // the model is its reference: rounding decides
          CHECK(steps[i].get_number(name) == doctest::Approx(alone[i].get_number(name)).epsilon(1e-5).scale(1));
        }
      CHECK(folder.figure(out, "heldout_loss") == doctest::Approx(folder.figure(one, "heldout_loss")).epsilon(1e-5));
    }
  }
}

namespace {

// The likeliest tokens behind the ids, by the model as training computes it, from the beginning for each token.
std::vector<std::int32_t> continued_by_training(const std::string& folder, std::vector<std::int32_t> ids,
                                                std::size_t count) {
  const ComputeContext context(1);
  const HfConfig config = load_model_config(folder, AdapterParts::known).value();
  ParameterStore store(config.shape, DType::f32);
  REQUIRE(load_model_weights(context, folder, store).ok());
  LlamaOptions options;
  options.tokens_max = 64, options.training = false;
  Llama model(store, options);
  std::vector<std::int32_t> made;
  std::vector<float> logits(static_cast<std::size_t>(config.shape.vocab_size));
  for (std::size_t i = 0; i < count; ++i) {
    MicroBatch batch;
    batch.sequences = 1, batch.length = static_cast<std::int64_t>(ids.size());
    const std::vector<std::int32_t> targets(ids.size(), no_target);
    batch.ids = ids, batch.targets = targets;
    REQUIRE(model.check(batch).ok());
    model.forward(context, 0, batch);
    model.logits(context, 0, batch.length - 1, batch.length, View(logits.data(), Shape{1, config.shape.vocab_size}));
    made.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    ids.push_back(made.back());
  }
  return made;
}

// The same by what deploy and sample generate with, which say nothing of what stands before a text.
std::vector<std::int32_t> continued_by_serving(const std::string& folder, const std::vector<std::int32_t>& ids,
                                               std::size_t count) {
  InferenceTextModelOptions options;
  options.precision = "f32", options.threads = 1;
  const std::unique_ptr<TextModel> model = load_inference_text_model(folder, options).value();
  AnswerRequest request{ids, {}};
  request.sampling.temperature = 0;
  AnswerBatchOptions how;
  how.max_tokens = static_cast<std::int64_t>(count);
  const SystemClock clock;
  return generate_answers(*model, clock, {&request, 1}, how).value().front().tokens;
}

// What a stage says of a model that it does not take.
std::string refused_by(const StageFolder& folder, const std::string& model, const std::string& kind,
                       const char* settings) {
  const std::atomic<bool> goes_on{false};
  const Task task = folder.task(kind, {{"model", model}, {"data", "questions"}, {"tokens", "tokens"}}, settings);
  const Status status = folder.run(task, "refused-" + kind, goes_on);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::unsupported);
  return status.error().message();
}

}  // namespace

TEST_CASE("a prompt is learnt in front of texts; the model that it leaves is measured and served with it alone") {
  StageFolder folder;
  folder.prepare(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
  folder.prepare(folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
  Task sft = folder.task("sft", {{"model", "base"}, {"data", "questions"}, {"heldout", "questions"}},
                         R"({"sequence_length": 56, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 8,
                             "precision": "f32", "adapter": {"kind": "prompt", "virtual_tokens": 8},
                             "optimizer": {"lr": 0.1, "weight_decay": 0.0}})");
  folder.run_well(sft, "tuned");
  const std::string bytes = *read_file(folder.at("tuned/model.safetensors"));
  const std::atomic<bool> stop{true};  // and goes on from where it was asked to stop
  REQUIRE_FALSE(folder.run(sft, "parts", stop).ok());
  folder.run_well(sft, "parts");
  CHECK(*read_file(folder.at("parts/model.safetensors")) == bytes);

  folder.run_well(folder.task("evaluate", {{"model", "tuned"}, {"baseline", "base"}, {"data", "questions"}},
                              R"({"tasks": ["answer_loss"], "precision": "f32", "prompts": ["the cat"]})"),
                  "scores");
  const double tuned = folder.figure("scores", "answer_loss"), base = folder.figure("scores", "baseline_answer_loss");
  MESSAGE("answer_loss of the base ", base, ", with 8 embeddings before every text ", tuned);
  CHECK(tuned < base - 0.3);
  CHECK(folder.figure("tuned", "heldout_loss") == doctest::Approx(tuned).epsilon(1e-5));

  std::vector<std::int32_t> text = {5, 90, 33, 12, 60};
  const std::vector<std::int32_t> served = continued_by_serving(folder.at("tuned"), text, 12);
  std::vector<std::int32_t> behind = {320, 321, 322, 323, 324, 325, 326, 327};
  behind.insert(behind.end(), text.begin(), text.end());
  CHECK(continued_by_training(folder.at("tuned"), behind, served.size()) == served);
  CHECK(continued_by_training(folder.at("tuned"), text, served.size()) != served);

  for (const auto& [kind, settings] : {std::pair{"sft", R"({"steps": 1})"},
                                       {"align", R"({"steps": 1})"},
                                       {"pretrain", R"({"steps": 1})"},
                                       {"quantize", R"({"method": "int8"})"},
                                       {"convert", "{}"}}) {
    CAPTURE(kind);
    CHECK(refused_by(folder, "tuned", kind, settings).find("8 embeddings") != std::string::npos);
  }

  // A stage of a pipeline that is not the first has nothing to train.
  sft.settings.set("epochs", 2), sft.settings.set("checkpoint", *parse_json(R"({"every_steps": 5})"));
  folder.run_well(sft, "short");
  const ParallelDims pipeline = stage_layout(1, 2, 1, 0);
  run_on_ranks(folder, sft, "pipeline", pipeline);
  CHECK(folder.figure("pipeline", "heldout_loss") ==
        doctest::Approx(folder.figure("short", "heldout_loss")).epsilon(1e-5));

  // PEFT's files, put before the base again, are the same model.
  folder.run_well(folder.task("convert", {{"model", "base"}, {"adapter", "tuned/adapter"}}, "{}"), "put");
  const SafetensorsFile put = SafetensorsFile::open(folder.at("put/model.safetensors")).value();
  const SafetensorsFile left = SafetensorsFile::open(folder.at("tuned/model.safetensors")).value();
  for (const auto& [name, tensor] : left.tensors()) CHECK(put.find(name)->bytes == tensor.bytes);

  // Keys and values of each layer in place of the embeddings.
  sft.settings.set("epochs", 8);
  sft.settings.set("adapter", *parse_json(R"({"kind": "prefix", "virtual_tokens": 8})"));
  folder.run_well(sft, "keys");
  folder.run_well(folder.task("evaluate", {{"model", "keys"}, {"data", "questions"}},
                              R"({"tasks": ["answer_loss"], "precision": "f32"})"),
                  "scores-keys");
  const double keys = folder.figure("scores-keys", "answer_loss");
  MESSAGE("with 8 keys and values of each layer before every text ", keys);
  CHECK(keys < base - 0.3);
  CHECK(folder.figure("keys", "heldout_loss") == doctest::Approx(keys).epsilon(1e-5));
  const std::vector<std::int32_t> by_keys = continued_by_serving(folder.at("keys"), text, 12);
  CHECK(continued_by_training(folder.at("keys"), behind, by_keys.size()) == by_keys);
  CHECK(refused_by(folder, "keys", "quantize", R"({"method": "int8"})").find("8 keys and values") != std::string::npos);
  folder.run_well(folder.task("convert", {{"model", "base"}, {"adapter", "keys/adapter"}}, "{}"), "put-keys");
  CHECK(*read_file(folder.at("put-keys/model.safetensors")) == *read_file(folder.at("keys/model.safetensors")));

  // Layers behind those of the model in place of what stands before a text.
  sft.settings.set("adapter", *parse_json(R"({"kind": "bottleneck", "bottleneck_size": 16})"));
  sft.settings.set("optimizer", *parse_json(R"({"lr": 0.01, "weight_decay": 0.0})"));
  folder.run_well(sft, "behind");
  folder.run_well(folder.task("evaluate", {{"model", "behind"}, {"data", "questions"}},
                              R"({"tasks": ["answer_loss"], "precision": "f32"})"),
                  "scores-behind");
  const double by_layers = folder.figure("scores-behind", "answer_loss");
  MESSAGE("with bottlenecks of 16 behind each half ", by_layers);
  CHECK(by_layers < base - 0.3);
  CHECK(folder.figure("behind", "heldout_loss") == doctest::Approx(by_layers).epsilon(1e-5));
  const std::vector<std::int32_t> of_layers = continued_by_serving(folder.at("behind"), text, 12);
  CHECK(continued_by_training(folder.at("behind"), text, of_layers.size()) == of_layers);
  for (const auto& [kind, settings] :
       {std::pair{"sft", R"({"steps": 1})"}, {"quantize", R"({"method": "int8"})"}, {"convert", "{}"}}) {
    CAPTURE(kind);
    CHECK(refused_by(folder, "behind", kind, settings).find("bottlenecks of 16 after attention and feed_forward") !=
          std::string::npos);
  }
}
