// What the figures of stages mean: held-out losses by the training's own rules, bits per byte of documents, padding and
// preference losses in mixtures of experts.
#include <doctest/doctest.h>

#include <cmath>

#include "contracts/events/event.h"
#include "engine/tasks/common/heldout_documents.h"
#include "tests/unit/engine/tasks/stages/stage_folder.h"

namespace longhaul {
namespace {

double metric_of_step(const StageFolder& folder, const std::string& out, std::int64_t step, const char* name) {
  std::uint64_t offset = 0;
  const std::vector<Event> all = *read_events(folder.at(out + ".events.jsonl"), offset);
  for (const Event& event : all)
    if (event.kind == "metric" && event.fields.get_integer("step") == step && event.fields.find(name))
      return event.fields.get_number(name);
  FAIL("no metric ", name, " of step ", step, " in ", out);
  return 0;
}

constexpr const char* experts_model =
    R"({"architecture": "mixtral", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256, "num_local_experts": 4, "num_experts_per_tok": 2})";

// One step without an update, of a mixture of experts.
std::string one_step(const std::string& more) {
  return R"({"sequence_length": 128, "micro_batch_size": 2, "global_batch_size": 2, "steps": 1, "precision": "f32",
             "optimizer": {"lr": 0, "warmup_steps": 0})" +
         more + "}";
}

void make_mixture(const StageFolder& folder) {
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  Task pretrain = folder.task("pretrain", {{"tokens", "tokens"}}, one_step(""));
  pretrain.settings.set("model", *parse_json(experts_model));
  folder.run_well(pretrain, "mixture");
}

}  // namespace

TEST_CASE("held-out loss: documents are kept apart as in training, with positions of their own") {
  const StageFolder folder;
  folder.run_well(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  // The same documents on both sides, so that nothing but the rules can differ.
  for (const char* end : {".bin", ".idx"})
    REQUIRE(write_file_atomic(folder.at("tokens/heldout") + end, *read_file(folder.at("tokens/train") + end)).ok());
  const auto figures = [&](bool apart) {
    Task task = folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
    task.settings.set("document_mask", apart), task.settings.set("reset_positions", apart);
    task.settings.set("sequence_length", 256), task.settings.set("steps", 1);
    task.settings.find("model")->set("max_position_embeddings", 256);
    task.settings.find("optimizer")->set("lr", 0.0), task.settings.find("optimizer")->set("warmup_steps", 0);
    task.settings.set("global_batch_size", 40), task.settings.set("micro_batch_size", 8);
    const std::string out = apart ? "apart" : "together";
    folder.run_well(task, out);
    return std::pair(metric_of_step(folder, out, 1, "loss"), folder.figure(out, "heldout_loss"));
  };
  const auto [loss_apart, heldout_apart] = figures(true);
  const auto [loss_together, heldout_together] = figures(false);
  CHECK(loss_apart != loss_together);
  CHECK(heldout_apart != heldout_together);
  CHECK(std::abs(heldout_apart - loss_apart) < 0.01);
  CHECK(std::abs(heldout_together - loss_together) < 0.01);
}

TEST_CASE("bits per byte: a folder of documents has the sum of its documents, each alone") {
  StageFolder folder;
  folder.prepare(folder.task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 400})"), "tokens");
  folder.prepare(folder.task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
  const auto documents = heldout_documents(folder.at("tokens"));
  REQUIRE_MESSAGE(documents.ok(), documents.error().message());
  REQUIRE(documents->size() == 4);
  const auto bits = [&](const std::string& tokens) {
    folder.run_well(folder.task("evaluate", {{"model", "base"}, {"tokens", tokens}},
                                R"({"tasks": ["bits_per_byte"], "precision": "f32"})"),
                    tokens + "-scores");
    return std::pair(folder.figure(tokens + "-scores", "bits_per_byte"),
                     folder.figure(tokens + "-scores", "heldout_bytes"));
  };
  const auto [all_bits, all_bytes] = bits("tokens");
  CHECK(folder.figure("tokens-scores", "heldout_documents") == 4);
  double sum = 0, bytes = 0;
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const std::string one = format("one{}", i);
    REQUIRE(make_directories(folder.at(one)).ok());
    REQUIRE(write_file_atomic(folder.at(one) + "/heldout.txt", (*documents)[i]).ok());  // nothing but a text
    const auto [of_one, its_bytes] = bits(one);
    sum += of_one * its_bytes, bytes += its_bytes;
  }
  CHECK(bytes == all_bytes);
  CHECK(all_bits * all_bytes == doctest::Approx(sum).epsilon(1e-5));

  // A text of one token; one of none is refused by its name.
  REQUIRE(make_directories(folder.at("single")).ok());
  REQUIRE(write_file_atomic(folder.at("single/heldout.txt"), "a").ok());
  const auto [of_single, its_byte] = bits("single");
  CHECK(its_byte == 1);
  CHECK(folder.figure("single-scores", "heldout_tokens") == 1);
  CHECK(folder.figure("single-scores", "perplexity") == doctest::Approx(std::exp2(of_single)).epsilon(1e-6));
  REQUIRE(write_file_atomic(folder.at("single/heldout.txt"), "").ok());
  const auto nothing = heldout_documents(folder.at("single"));
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.error().message().find("heldout.txt is empty: nothing of the corpus was held out") !=
        std::string::npos);

  // Files that do not belong together are no text.
  REQUIRE(write_file_atomic(folder.at("tokens/heldout.txt"), "something else\n").ok());
  const auto other = heldout_documents(folder.at("tokens"));
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message().find("document 1 of") != std::string::npos);
}

TEST_CASE("a preference loss does not balance the experts of a mixture") {
  const StageFolder folder;
  make_mixture(folder);
  std::string pairs;
  for (int i = 0; i < 4; ++i)
    pairs += json_line({{"prompt", "which colour?"},
                        {"chosen", "it is red."},
                        {"rejected", "it is red, or blue, or green, or white, or black, or none of them at all."}});
  REQUIRE(write_file_atomic(folder.at("questions/pairs.jsonl"), pairs).ok());
  const Task task = folder.task("align", {{"model", "mixture"}, {"data", "questions"}}, one_step(R"(, "beta": 0.1)"));
  folder.run_well(task, "aligned");
  CHECK(metric_of_step(folder, "aligned", 1, "aux_loss") == 0);
}

TEST_CASE("padding counts for nothing: rows packed and unpacked have one loss, one gradient, one load of the experts") {
  const StageFolder folder;
  make_mixture(folder);
  const std::string longer = "it is red, or blue, or green, or white, or black, or none of these at all, I should say.";
  REQUIRE(write_file_atomic(
              folder.at("questions/train.jsonl"),
              json_line({{"input", "a?"}, {"output", "b"}}) + json_line({{"input", "which?"}, {"output", longer}}))
              .ok());
  const auto step = [&](const std::string& out, const std::string& more) {
    folder.run_well(folder.task("sft", {{"model", "mixture"}, {"data", "questions"}}, one_step(more)), out);
  };
  const std::string none = R"(, "heldout_fraction": 0)";
  for (const auto& [name, moe] : std::initializer_list<std::pair<std::string, std::string>>{
           {"aux", R"(, "moe": {"balance": "aux", "aux_loss_coef": 0.5, "z_loss_coef": 0.1})"},
           {"sinkhorn", R"(, "moe": {"balance": "sinkhorn"})"},
           {"capacity", R"(, "moe": {"balance": "none", "capacity_factor": 1.0})"}}) {
    CAPTURE(name);
    step(name + "-rows", none + moe);
    step(name + "-packed", none + moe + R"(, "packing": true, "micro_batch_size": 1, "global_batch_size": 1)");
    for (const char* figure : {"loss", "grad_norm", "aux_loss", "expert_load_worst"})
      CHECK_MESSAGE(metric_of_step(folder, name + "-rows", 1, figure) ==
                        doctest::Approx(metric_of_step(folder, name + "-packed", 1, figure)).epsilon(1e-5),
                    figure);
  }
}

}  // namespace longhaul
