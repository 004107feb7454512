// What the engine would refuse is refused when a workflow is read, with the text of the one table; what it runs is not.
#include "orchestrator/workflow/layout/feature_check.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/training/feature_table.h"
#include "orchestrator/workflow/layout/layout_check.h"
#include "orchestrator/workflow/planner.h"
#include "tests/support/plain_files.h"

namespace longhaul {
namespace {

namespace feature_check_test {

template <class Settings>
void take_shared(const EngineCase& c, Settings& s) {
  s.device = c.gpu ? "gpu" : "cpu", s.precision = c.precision;
  s.adapter = c.adapter, s.cp_attention = c.cp_attention;
  s.optimizer = c.optimizer, s.corruption = c.corruption, s.attention_backend = c.attention_backend;
  s.sequence_length = 16, s.micro_batch_size = 2, s.global_batch_size = 4 * c.dims.dp();
}

// The settings of a stage that asks for the case.
Value settings_of(const EngineCase& c) {
  if (c.kind == "align") {
    AlignSettings s;
    take_shared(c, s);
    s.rollout.ranks = c.rollout_ranks, s.rollout.tp = c.rollout_tp, s.rollout.pp = c.rollout_pp;
    s.rollout.ahead = c.draws_ahead, s.rollout.speculate = c.guesses_tokens ? "ngram" : "none";
    if (c.draws_answers) s.method = "grpo";
    return align_fields().to_value(s);
  }
  if (c.kind == "reward") {
    RewardModelSettings s;
    take_shared(c, s);
    return reward_model_fields().to_value(s);
  }
  if (c.kind == "deploy") {
    DeploySettings s;
    s.device = c.gpu ? "gpu" : "cpu";
    return deploy_fields().to_value(s);
  }
  if (c.kind == "quantize") {
    QuantizeSettings s;
    s.method = c.weights, s.embedding = c.quantized_embedding;
    return quantize_fields().to_value(s);
  }
  if (c.kind == "sft") {
    SftSettings s;
    take_shared(c, s);
    return sft_fields().to_value(s);
  }
  PretrainSettings s;
  take_shared(c, s);
  s.model = c.shape, s.moe = c.moe, s.pipeline = c.pipeline, s.recompute = c.recompute;
  s.low_precision = c.low_precision, s.overlap = c.overlap;
  s.deterministic = c.deterministic, s.document_mask = c.document_mask, s.dropout = c.dropout;
  s.communicator = c.communicator, s.trace.kernels = c.kernel_trace;
  return pretrain_fields().to_value(s);
}

Diagnostics said_of(const EngineCase& c) {
  Diagnostics said;
  const Value settings = settings_of(c), written = Value::make_table();
  if (c.kind == "pretrain")
    check_layout("x", *find_stage_kind(c.kind), settings, written, c.dims, {}, said);
  else
    check_features("x", engine_case_of_stage(c.kind, settings, c.shape, c.dims).value(), written, {}, said);
  return said;
}

TEST_CASE("every row of the table of features: the planner refuses what the engine refuses, with the same words") {
  int accepted = 0, refused = 0;
  for (const EngineFeature& row : engine_features())
    for (const bool gpu : {false, true})
      for (const ModelFamily family : row.families) {
        if (row.on(gpu).state == FeatureState::none) continue;
        const EngineCase c = engine_case_for(row, family, gpu);
        CAPTURE(row.name);
        CAPTURE(to_string(family));
        CAPTURE(gpu);
        const Diagnostics said = said_of(c);
        if (row.on(gpu).state != FeatureState::refused) {
          CHECK_MESSAGE(said.empty(), said.render(""));
          ++accepted;
          continue;
        }
        const std::string text = "stage.x: " + row.refusal(c);
        CHECK_MESSAGE(std::ranges::count(said.errors(), text, &Error::what) == 1, said.render(""));
        CHECK(engine_refuses(c));
        ++refused;
      }
  MESSAGE(accepted << " rows accepted, " << refused << " refused");
  CHECK(accepted > 150);
  CHECK(refused > 40);
}

TEST_CASE("what another stage than a pretraining asks for is checked with its layout") {
  std::size_t refused = 0;
  for (const EngineFeature& row : engine_features())
    for (const ModelFamily family : row.families) {
      if (row.on(true).state != FeatureState::refused) continue;
      const EngineCase c = engine_case_for(row, family, true);
      const Value settings = settings_of(c), written = Value::make_table();
      const auto asked = engine_case_of_stage(c.kind, settings, {}, c.dims);
      if (c.kind == "pretrain" || !asked) continue;
      CAPTURE(row.name);
      Diagnostics of_features, of_layout;
      check_features("x", *asked, written, {}, of_features);
      check_layout("x", *find_stage_kind(c.kind), settings, written, c.dims, {}, of_layout);
      for (const Error& one : of_features.errors())
        CHECK(std::ranges::count(of_layout.errors(), one.what, &Error::what) == 1);
      refused += of_features.errors().size();
    }
  CHECK(refused > 0);
}

TEST_CASE("layers that the stages of a pipeline do not add up to are refused once the model is known") {
  PretrainSettings s;
  s.model.num_hidden_layers = 4;
  s.pipeline.stage_layers = {3, 2};
  s.sequence_length = 16, s.micro_batch_size = 1, s.global_batch_size = 2;
  ParallelDims dims;
  dims.pp = 2;
  Diagnostics said;
  check_layout("x", *find_stage_kind("pretrain"), pretrain_fields().to_value(s), Value::make_table(), dims, {}, said);
  const std::string text = "stage.x: " + resolve_stages(4, 2, 1, s.pipeline.stages()).error().what;
  CHECK_MESSAGE(std::ranges::count(said.errors(), text, &Error::what) == 1, said.render(""));
}

TEST_CASE("answers are drawn by deploy and sample, and by evaluate where it has prompts") {
  const auto generates = [](const char* kind, const char* settings) {
    const Value value = parse_json(settings, "settings").value();
    return engine_case_of_stage(kind, value, {}, ParallelDims())->generates;
  };
  const char* prompts = R"({"prompts": ["a.jsonl"]})";
  CHECK(generates("deploy", "{}"));
  CHECK(generates("sample", "{}"));
  CHECK(generates("evaluate", prompts));
  for (const char* none : {"{}", R"({"prompts": []})", R"({"prompts": "a.jsonl"})"})
    CHECK_FALSE(generates("evaluate", none));
  CHECK_FALSE(generates("quantize", prompts));
}

std::string problems_of(const std::string& stages) {
  WorkflowRequest request;
  request.text =
      "[workflow]\nname = \"w\"\n[stage.model]\nkind = \"pretrain\"\ninputs = { tokens = \"/t\" }\n" + stages;
  request.path = "w.toml", request.folder = "/flow";
  request.site.set("name", "here");
  const Diagnostics found = plan_workflow(request, testing::PlainFiles()).diagnostics;
  return found.empty() ? "" : found.render("");
}

TEST_CASE(
    "a model that an earlier stage makes is known to the stages behind it: the key that they wrote is pointed at") {
  const std::string experts = "model = { architecture = \"mixtral\" }\n";
  const std::string tuned = "[stage.tuned]\nkind = \"sft\"\ninputs = { model = \"@model\", data = \"/d\" }\n";
  CHECK(problems_of(experts + tuned).empty());
  CHECK(problems_of(experts + tuned + "low_precision = { recipe = \"delayed\" }\n")
            .find("w.toml:10:28: error: stage.tuned: low_precision.recipe = \"delayed\" for a model with experts") !=
        std::string::npos);
  CHECK(problems_of(tuned + "ranks = 3\nglobal_batch_size = 48\nparallel = { tp = 3 }\n")
            .find("parallel.tp = 3 does not divide model.num_attention_heads = 4") != std::string::npos);
  for (const char* kind : {"align", "reward"}) {
    const std::string post = replace_all(tuned, "\"sft\"", format("\"{}\"", kind)) + "device = \"cpu\"\n";
    CHECK(problems_of(post + "ranks = 4\nparallel = { tp = 2, pp = 2, sp = true }\n").empty());
    CHECK(problems_of(post + "ranks = 3\nglobal_batch_size = 48\nparallel = { tp = 3 }\n")
              .find("parallel.tp = 3 does not divide model.num_attention_heads = 4") != std::string::npos);
    const std::string shared = post + "ranks = 2\nparallel = { cp = 2 }\n";
    CHECK(problems_of(shared).empty());
    CHECK(problems_of(shared + "cp_attention = \"a2a+ring\"\n").find("heads divided within a node") !=
          std::string::npos);
  }
  const std::string odd = "sequence_length = 15\nmicro_batch_size = 1\nranks = 2\nparallel = { tp = 2, sp = true }\n";
  const std::string judged = replace_all(tuned, "\"sft\"", "\"reward\"") + odd;
  CHECK(problems_of(judged).empty());  // two answers of 15 tokens
  CHECK(problems_of(judged + "method = \"process\"\n").find("with parallel.sp, parallel.tp = 2 does not divide") !=
        std::string::npos);
  const std::string served = "[stage.served]\nkind = \"deploy\"\ninputs = { model = \"@model\" }\ndevice = \"gpu\"\n";
  CHECK(problems_of(served).empty());
  CHECK(problems_of(experts + served).empty());
  const std::string prompted = tuned + "adapter = { kind = \"prompt\" }\n";
  CHECK(problems_of(prompted).empty());
  const std::string again = replace_all(replace_all(tuned, "@model", "@tuned"), "stage.tuned", "stage.again");
  CHECK(problems_of(prompted + again).find("stage.again: sft of a model with 20 embeddings before every text") !=
        std::string::npos);
  CHECK(problems_of(replace_all(prompted, "prompt", "prefix") + again)
            .find("stage.again: sft of a model with 20 keys and values of each layer before every text") !=
        std::string::npos);
  CHECK(problems_of(prompted + replace_all(served, "@model", "@tuned")).empty());
  CHECK(problems_of(replace_all(prompted, "\"sft\"", "\"align\"")).empty());
  const std::string behind = replace_all(prompted, "prompt", "bottleneck");
  CHECK(problems_of(behind).empty());
  CHECK(problems_of(behind + again)
            .find("stage.again: sft of a model with bottlenecks of 64 after attention and feed_forward") !=
        std::string::npos);
  CHECK(problems_of(behind + replace_all(served, "@model", "@tuned")).empty());
  CHECK(problems_of(experts + behind).find("adapter.kind = \"bottleneck\" of a mixture of experts") !=
        std::string::npos);
  CHECK(problems_of(replace_all(behind, "\"sft\"", "\"align\"")).empty());
  const std::string small = "[stage.small]\nkind = \"quantize\"\ninputs = { model = \"@model\" }\n";
  CHECK(problems_of(small).empty());
  CHECK(problems_of("model = { architecture = \"gpt2\" }\n" + small)
            .find("stage.small: a gpt2 model: its weights are not stored row by row") != std::string::npos);
}

}  // namespace feature_check_test

}  // namespace
}  // namespace longhaul
