// What can be known of a teacher, and of an adapter, before anything is submitted. The disk is made up.
#include "orchestrator/workflow/stage_fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text/text.h"
#include "orchestrator/workflow/planner.h"

namespace longhaul {
namespace {

namespace stage_fit_test {

class ModelFiles final : public FileView {
 public:
  std::map<std::string, std::string> texts;
  Result<std::string> read(const std::string& path) const override {
    const auto found = texts.find(path);
    if (found == texts.end()) return make_error(ErrorCode::not_found, path + " does not exist");
    return found->second;
  }
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    return std::vector<std::string>{pattern};
  }
};

WorkflowOutcome outcome_of(const std::string& text, const ModelFiles& files) {
  WorkflowRequest request;
  request.text = text;
  request.path = "w.toml", request.folder = "/flow";
  request.site.set("name", "here");
  return plan_workflow(request, files);
}

TEST_CASE("a teacher with another tokenizer or vocabulary than the model's is refused where it is named") {
  const auto said = [](const std::string& model, const std::string& teacher) {
    ModelFiles files;
    for (const auto& [name, tokens, size] : {std::tuple{"a", "{}", 300}, {"b", "{ }", 300}, {"c", "{}", 320}}) {
      const std::string folder = std::string("/flow/") + name;
      files.texts[folder + "/tokenizer.json"] = tokens;
      files.texts[folder + "/config.json"] =
          format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8,
                      "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1,
                      "num_key_value_heads": 1, "vocab_size": {}, "max_position_embeddings": 64,
                      "rms_norm_eps": 1e-5}})",
                 size);
    }
    std::string text = "[workflow]\nname = \"w\"\n";
    for (const char* of : {"x", "y"})
      text += format(
          "[stage.tokens_{0}]\nkind = \"tokenize\"\ninputs = {{ corpus = \"{0}\" }}\n"
          "[stage.{0}]\nkind = \"pretrain\"\ninputs = {{ tokens = \"@tokens_{0}\" }}\n"
          "sequence_length = 64\nmodel = {{ hidden_size = 64, num_attention_heads = 4, "
          "num_key_value_heads = 4, max_position_embeddings = 64 }}\n",
          of);
    text += "[stage.tuned]\nkind = \"sft\"\ninputs = { model = \"@x\", data = \"rows.jsonl\" }\n";
    text += format(
        "[stage.small]\nkind = \"align\"\nmethod = \"distill\"\nsequence_length = 64\n"
        "rollout = {{ max_new_tokens = 8 }}\n"
        "inputs = {{ model = \"{}\", teacher = \"{}\", data = \"rows.jsonl\" }}\n",
        model, teacher);
    return outcome_of(text, files).diagnostics.render("");
  };
  CHECK(said("@x", "@tuned") == "0 errors");
  CHECK(said("a", "a") == "0 errors");
  CHECK(said("@x", "a") == "0 errors");  // its tokenizer is not there yet
  const std::string stages = said("@tuned", "@y");
  CHECK(stages.find("w.toml:27:40: error:") == 0);
  CHECK(stages.find("stage.small: the teacher's tokenizer, that of stage.tokens_y, is not the model's, that of "
                    "stage.tokens_x; take a teacher") != std::string::npos);
  CHECK(said("a", "b").find("the teacher's tokenizer, that of /flow/b, is not the model's, that of /flow/a") !=
        std::string::npos);
  CHECK(said("a", "c").find("the teacher has a vocabulary of 320 tokens, and the model one of 300") !=
        std::string::npos);
}

TEST_CASE("an adapter is taken from the training that leaves it, by the folder that it is in") {
  const auto planned = [](const std::string& settings, const std::string& adapter, const std::string& more = "") {
    return outcome_of(
        "[workflow]\nname = \"w\"\n[stage.base]\nkind = \"pretrain\"\ninputs = { tokens = \"/t\" }\n"
        "[stage.tuned]\nkind = \"sft\"\ninputs = { model = \"@base\", data = \"rows.jsonl\" }\n" +
            settings +
            "\n[stage.merged]\nkind = \"convert\"\n"
            "inputs = { model = \"@base\", adapter = \"" +
            adapter + "\" }\n" + more,
        ModelFiles());
  };
  const auto said = [&](const std::string& settings, const std::string& adapter, const std::string& more = "") {
    return planned(settings, adapter, more).diagnostics.render("");
  };
  const std::string lora = "adapter = { kind = \"lora\" }\n";
  const WorkflowOutcome well = planned(lora, "@tuned/adapter");
  CHECK(well.diagnostics.render("") == "0 errors");
  const PlannedStage* merged = well.plan.find("merged");
  REQUIRE(merged);
  const auto taken = std::ranges::find(merged->inputs, "adapter", &PlannedInput::name);
  REQUIRE(taken != merged->inputs.end());
  CHECK(taken->stages == std::vector<std::string>{"tuned"});
  CHECK(taken->within == "adapter");
  CHECK(std::ranges::find(merged->needs, "tuned") != merged->needs.end());
  CHECK(said("steps = 9\nmilestone_every = 3\n" + lora, "@tuned@3/adapter") == "0 errors");
  CHECK(said("matrix = { \"adapter.kind\" = [\"none\", \"lora\"] }\n"
             "best = { metric = \"heldout_loss\", mode = \"min\" }\n",
             "@tuned/adapter") == "0 errors");

  CHECK(said(lora, "@tuned")
            .find("stage.merged: inputs.adapter names the model of stage.tuned, and not its adapter; "
                  "its adapter is the folder adapter of its artifact: \"@tuned/adapter\"") != std::string::npos);
  CHECK(said(lora, "@tuned/config.json").find("names the file config.json of stage.tuned") != std::string::npos);
  CHECK(said("", "@tuned/adapter").find("stage.merged: stage.tuned trains all weights and leaves no adapter") !=
        std::string::npos);
  CHECK(said("adapter = { kind = \"bottleneck\" }\n", "@tuned/adapter")
            .find("stage.merged: the adapter of stage.tuned is a bottleneck, whose layers no weights can take the "
                  "place of; take the model that it leaves") != std::string::npos);
  // Embeddings before a text are known to the stages behind it.
  CHECK(said("adapter = { kind = \"prompt\" }\n", "@tuned/adapter",
             "[stage.small]\nkind = \"quantize\"\ninputs = { model = \"@merged\" }\n")
            .find("stage.small: quantize of a model with 20 embeddings before every text") != std::string::npos);
}

TEST_CASE("ranks that draw with parts of a model, or compare with parts of a teacher, divide its heads") {
  const auto said = [](const char* method, const char* layout, int tp) {
    ModelFiles files;
    files.texts["/flow/small/tokenizer.json"] = "{}";
    files.texts["/flow/small/config.json"] =
        R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 12, "intermediate_size": 24,
            "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 3, "vocab_size": 300,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5})";
    const bool taught = method == std::string("distill");
    return outcome_of(
               format("[workflow]\nname = \"w\"\n[stage.x]\nkind = \"pretrain\"\ninputs = {{ tokens = \"/t\" }}\n"
                      "sequence_length = 64\nmodel = {{ hidden_size = 64, num_attention_heads = 4, "
                      "num_key_value_heads = 4, max_position_embeddings = 64 }}\n"
                      "[stage.a]\nkind = \"align\"\nmethod = \"{}\"\nsequence_length = 64\nparallel = {}\n"
                      "rollout = {{ max_new_tokens = 8, tp = {} }}\n{}"
                      "inputs = {{ model = \"@x\", data = \"rows.jsonl\"{} }}\n",
                      method, layout, tp, taught ? "" : "reward = { kind = \"exact\" }\n",
                      taught ? ", teacher = \"small\"" : ""),
               files)
        .diagnostics.render("");
  };
  CHECK(said("grpo", "{ tp = 2 }", 2) == "0 errors");
  const std::string heads = said("grpo", "{ cp = 8 }", 8);
  CHECK_MESSAGE(
      heads.find("stage.a: rollout.tp = 8 does not divide model.num_attention_heads = 4") != std::string::npos, heads);
  const std::string ranks = said("grpo", "{ tp = 2 }", 4);
  CHECK(ranks.find("4 ranks draw together") != std::string::npos);
  CHECK(ranks.find("1 error") != std::string::npos);  // once
  const std::string teacher = said("distill", "{ tp = 2 }", 2);
  CHECK_MESSAGE(teacher.find("stage.a: the teacher: rollout.tp = 2 does not divide model.num_attention_heads = 3") !=
                    std::string::npos,
                teacher);
}

TEST_CASE("a critic begins as no reward model that has something beside its weights") {
  const auto said = [](const char* adapter, const char* critic) {
    return outcome_of(format("[workflow]\nname = \"w\"\n"
                             "[stage.judge]\nkind = \"reward\"\ninputs = {{ model = \"m\", data = \"rows.jsonl\" }}\n"
                             "adapter = {{ kind = \"{}\" }}\n"
                             "[stage.chat]\nkind = \"align\"\nmethod = \"ppo\"\nreward = {{ kind = \"model\" }}\n"
                             "ppo = {{ critic = \"{}\" }}\nrollout = {{ group_size = 1 }}\n"
                             "inputs = {{ model = \"m\", reward = \"@judge\", data = \"rows.jsonl\" }}\n",
                             adapter, critic),
                      ModelFiles())
        .diagnostics.render("");
  };
  CHECK(said("lora", "reward") == "0 errors");
  CHECK(said("prefix", "policy") == "0 errors");
  for (const char* adapter : {"prefix", "bottleneck"})
    CHECK(said(adapter, "reward")
              .find(format("stage.chat: ppo.critic = \"reward\", and stage.judge trains its reward model with "
                           "adapter.kind = \"{}\": no critic begins with what that leaves beside the weights",
                           adapter)) != std::string::npos);
}

}  // namespace stage_fit_test

}  // namespace
}  // namespace longhaul
