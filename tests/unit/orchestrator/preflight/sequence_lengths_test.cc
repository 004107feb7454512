// A default length follows the model that a stage begins with; one that is written is held against it.
#include "orchestrator/preflight/sequence_lengths.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace sequence_lengths_test {

// A model of 64 positions, in a folder.
class LengthCase {
 public:
  LengthCase() {
    const std::string folder = join_path(scratch_.path(), "m");
    REQUIRE(make_directories(folder).ok());
    REQUIRE(write_file_atomic(join_path(folder, "config.json"),
                              R"({"model_type": "llama", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 32,
                                  "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64})")
                .ok());
    REQUIRE(write_file_atomic(join_path(scratch_.path(), "d.jsonl"), "{}").ok());
  }

  // A stage that begins with the folder's model, or with that of a pretraining of 32 positions.
  RunPlan plan(const std::string& kind, const std::string& settings, bool of_a_stage = false) {
    WorkflowRequest request;
    request.text = "[workflow]\nname = \"x\"\n";
    if (of_a_stage)
      request.text +=
          "[stage.p]\nkind = \"pretrain\"\ninputs = { tokens = \"d.jsonl\" }\nsequence_length = 32\nmodel = { "
          "max_position_embeddings = 32 }\n";
    request.text += "[stage.a]\nkind = \"" + kind + "\"\ninputs = { model = \"" + (of_a_stage ? "@p" : "m") +
                    "\", data = \"d.jsonl\" }\n" + settings;
    request.path = "w.toml", request.folder = scratch_.path();
    WorkflowOutcome outcome = plan_workflow(request, SystemFileView());
    Diagnostics problems = outcome.diagnostics;
    if (problems.empty()) decide_sequence_lengths(outcome.written, outcome.plan, problems);
    said = problems.render("");
    return std::move(outcome.plan);
  }

  std::string said;

 private:
  testing::Scratch scratch_;
};

TEST_CASE("lengths: a default is no longer than the model takes, and one that is written stays") {
  LengthCase of_folder;
  for (const char* kind : {"sft", "align", "reward"}) {
    CAPTURE(kind);
    CHECK(of_folder.plan(kind, "").find("a")->settings.get_integer("sequence_length") == 64);
    CHECK(of_folder.said == "0 errors");
    CHECK(of_folder.plan(kind, "sequence_length = 48\n").find("a")->settings.get_integer("sequence_length") == 48);
  }
  CHECK(of_folder.plan("sft", "", true).find("a")->settings.get_integer("sequence_length") == 32);
  CHECK(of_folder.said == "0 errors");
}

TEST_CASE("lengths: what is written and longer than the model is refused where it stands") {
  LengthCase of_folder;
  of_folder.plan("sft", "sequence_length = 65\n");
  CHECK(
      of_folder.said ==
      "w.toml:6:19: error: stage.a: sequence_length = 65 is longer than the model's max_position_embeddings = 64; use "
      "at most 64\n1 error");
  of_folder.plan("sft", "sequence_length = 33\n", true);
  CHECK(of_folder.said.find("use at most 32, or raise model.max_position_embeddings where it is trained") !=
        std::string::npos);
  of_folder.plan("evaluate", "tasks = [\"answer_loss\"]\ncontext_length = 100\n");
  CHECK(starts_with(of_folder.said, "w.toml:7:18: error: stage.a: context_length = 100 is longer"));
  of_folder.plan("evaluate", "tasks = [\"answer_loss\"]\n");
  CHECK(of_folder.said == "0 errors");
}

TEST_CASE("lengths: an adapter is held against a model that is there, and has a kind") {
  LengthCase of_folder;
  of_folder.plan("sft", "adapter = { kind = \"lora\", targets = [\"q_proj\"] }\n");
  CHECK(of_folder.said == "0 errors");
  of_folder.plan("sft", "adapter = { kind = \"lora\", targets = [\"wrong\"] }\n");
  CHECK(starts_with(of_folder.said, "w.toml:6:"));
  of_folder.plan("sft", "adapter = { rank = 8 }\n");
  CHECK(of_folder.said.find("adapter.rank is set, and no adapter.kind: all weights would be trained; add kind = "
                            "\"lora\"") != std::string::npos);
}

TEST_CASE("lengths: answers of rollouts that a shorter default leaves no room for are named") {
  LengthCase of_folder;
  of_folder.plan(
      "align",
      "method = \"grpo\"\nrollout = { max_new_tokens = 64 }\nreward = { kind = \"regex\", pattern = \"x\" }\n");
  CHECK(of_folder.said.find("rollout.max_new_tokens = 64 leaves no room for a prompt in the model's "
                            "max_position_embeddings = 64; use for example rollout = { max_new_tokens = 32 }") !=
        std::string::npos);
}

TEST_CASE("lengths: where a shorter default has no room, the message names what stands before every text") {
  LengthCase of_folder;
  of_folder.plan("sft", "adapter = { kind = \"prompt\", virtual_tokens = 64 }\n");
  CHECK(of_folder.said.find("adapter.virtual_tokens = 64 leave no room for a text in the model's "
                            "max_position_embeddings = 64, which count them; use fewer") != std::string::npos);
  of_folder.plan(
      "align",
      "method = \"grpo\"\nrollout = { max_new_tokens = 50 }\nreward = { kind = \"regex\", pattern = \"x\" }\n"
      "adapter = { kind = \"prompt\", virtual_tokens = 16 }\n");
  CHECK(of_folder.said.find("rollout.max_new_tokens = 50 leaves no room for a prompt in the model's "
                            "max_position_embeddings = 64, of which adapter.virtual_tokens = 16 stand before it; use "
                            "for example rollout = { max_new_tokens = 24 }") != std::string::npos);
}

}  // namespace sequence_lengths_test

}  // namespace
}  // namespace longhaul
