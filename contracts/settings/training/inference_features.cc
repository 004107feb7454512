// Rows about what is done with a model that is there: answers, and smaller weights.
#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

// Stages that take a model with what an adapter has left beside its weights.
bool knows_adapters(const EngineCase& c) {
  return c.kind == "deploy" || c.kind == "sample" || c.kind == "evaluate";
}

void add_answers(std::vector<EngineFeature>& rows) {
  const std::string area = "Answers (`deploy`, `evaluate` with prompts)";
  rows.push_back({.area = area,
                  .name = "dense models",
                  .families = {F::llama, F::mistral, F::gpt2},
                  .gpu = runs("steps of one token are replayed as a CUDA graph"),
                  .ask = [](EngineCase& c) { c.kind = "deploy", c.generates = true; }});
  rows.push_back({.area = area,
                  .name = "models with experts",
                  .families = {F::mixtral, F::experts},
                  .gpu = runs("all experts on each GPU; steps of one token are replayed, as above"),
                  .ask = [](EngineCase& c) { c.kind = "deploy", c.generates = true; }});
  rows.push_back(
      {.area = area,
       .name = "embeddings, or keys and values, before every text (`adapter.kind = \"prompt\"`, `\"prefix\"`)",
       .families = {F::llama, F::mistral, F::gpt2},
       .ask = [](EngineCase& c) { c.kind = "deploy", c.generates = true, c.shape.virtual_tokens = 3; }});
  rows.push_back(
      {.area = area,
       .name = "layers behind others (`adapter.kind = \"bottleneck\"`)",
       .families = {F::llama, F::mistral, F::gpt2},
       .ask = [](EngineCase& c) { c.kind = "deploy", c.generates = true, c.shape.bottleneck = {4, true, true}; }});
  rows.push_back(
      {.area = area, .name = "weights in int8", .families = {F::llama, F::mistral}, .ask = [](EngineCase& c) {
         c.kind = "deploy", c.generates = true, c.weights = "int8";
       }});
  rows.push_back({.area = area, .name = "weights in fp8", .families = {F::llama, F::mistral}, .ask = [](EngineCase& c) {
                    c.kind = "deploy", c.generates = true, c.weights = "fp8";
                  }});
  rows.push_back(
      {.area = area, .name = "weights in int4", .families = {F::llama, F::mistral}, .ask = [](EngineCase& c) {
         c.kind = "deploy", c.generates = true, c.weights = "int4";
       }});
}

constexpr const char* answers_in_training =
    "Answers of the model in training (`align` with `grpo`, `rloo`, `reinforce++`, `ppo`, `distill`)";

// Runs on processors, and is refused on GPUs.
void add_drawn_on_processors(std::vector<EngineFeature>& rows, const char* name, std::vector<ModelFamily> families,
                             void (*ask)(EngineCase&), bool (*is_asked)(const EngineCase&),
                             std::string (*refusal)(const EngineCase&), const char* hint,
                             std::vector<std::string> keys) {
  rows.push_back({.area = answers_in_training,
                  .name = name,
                  .families = std::move(families),
                  .gpu = refused,
                  .ask = ask,
                  .is_asked = is_asked,
                  .refusal = refusal,
                  .hint = hint,
                  .keys = std::move(keys)});
}

void add_answers_in_training(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = answers_in_training,
                  .name = "answers of dense models, with a critic beside them (`ppo`), too",
                  .families = {F::llama, F::mistral, F::gpt2},
                  .gpu = runs("by the weights where they lie, with caches in pages that are given back while training"),
                  .ask = [](EngineCase& c) { c.kind = "align", c.draws_answers = true; }});
  rows.push_back({.area = answers_in_training,
                  .name = "answers with an adapter that changes weights",
                  .families = {F::llama, F::gpt2},
                  .gpu = runs("by a copy of the adapted weights, which is given back while training"),
                  .ask = [](EngineCase& c) { c.kind = "align", c.draws_answers = true, c.adapter.kind = "lora"; }});
  rows.push_back({.area = answers_in_training,
                  .name = "answers with `adapter.kind = \"bottleneck\"`",
                  .families = {F::llama},
                  .gpu = runs("by a copy of the weights, as above"),
                  .ask = [](EngineCase& c) {
                    c.kind = "align", c.draws_answers = true;
                    c.adapter.kind = "bottleneck", c.adapter.bottleneck_size = 4;
                  }});
  rows.push_back({.area = answers_in_training,
                  .name = "answers of models with experts, without a critic",
                  .families = {F::mixtral},
                  .gpu = runs("by the weights where they lie, or in layouts by all of them, as above"),
                  .ask = [](EngineCase& c) { c.kind = "align", c.draws_answers = true; }});
  rows.push_back({.area = answers_in_training,
                  .name = "answers with `adapter.kind = \"prompt\"`, `\"p-tuning\"` and `\"prefix\"`",
                  .families = {F::llama},
                  .gpu = runs("by a copy of the weights, as above"),
                  .ask = [](EngineCase& c) {
                    c.kind = "align", c.draws_answers = true;
                    c.adapter.kind = "prompt", c.adapter.virtual_tokens = 4;
                  }});
  add_drawn_on_processors(
      rows, "answers ahead by the ranks that train (`rollout.ahead` without `rollout.ranks`)", {F::llama},
      [](EngineCase& c) { c.kind = "align", c.draws_answers = c.draws_ahead = true; },
      [](const EngineCase& c) { return c.draws_answers && c.draws_ahead && c.rollout_ranks == 0; },
      [](const EngineCase&) {
        return std::string(
            "device = \"gpu\" with rollout.ahead and without rollout.ranks: a GPU does what one thread asks for, so "
            "that nothing would be drawn beside a step");
      },
      "give rollout.ranks, which draw on GPUs of their own, leave rollout.ahead out, or use device = \"cpu\"",
      {"rollout.ahead", "rollout", "device"});
  rows.push_back(
      {.area = answers_in_training,
       .name = "guessed tokens (`rollout.speculate`)",
       .families = {F::llama},
       .gpu = runs("rows of a step beside other answers'; a token is drawn behind each where its logits lie"),
       .ask = [](EngineCase& c) { c.kind = "align", c.draws_answers = c.guesses_tokens = true; }});
}

// Whatever else is made of such a model would lose what an adapter has left beside its weights.
void add_prompted(std::vector<EngineFeature>& rows) {
  rows.push_back(
      {.area = "Answers (`deploy`, `evaluate` with prompts)",
       .name =
           "another training, or smaller weights, of a model with embeddings, or keys and values, before every text",
       .families = {F::llama},
       .processor = refused,
       .gpu = none,
       .ask = [](EngineCase& c) { c.kind = "sft", c.shape.virtual_tokens = 3; },
       .is_asked = [](const EngineCase& c) { return c.shape.virtual_tokens > 0 && !knows_adapters(c); },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "{} of a model with {} before every text, which are known to evaluate, sample and deploy "
                 "alone",
                 c.kind, virtual_tokens_text(c.shape));
           },
       .hint = "take the model that it was tuned from",
       .keys = {"inputs.model", "inputs", "kind"}});
  rows.push_back({.area = "Answers (`deploy`, `evaluate` with prompts)",
                  .name = "another training, or smaller weights, of a model with layers behind others",
                  .families = {F::llama},
                  .processor = refused,
                  .gpu = none,
                  .ask = [](EngineCase& c) { c.kind = "sft", c.shape.bottleneck = {4, true, true}; },
                  .is_asked = [](const EngineCase& c) { return c.shape.bottleneck.size > 0 && !knows_adapters(c); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format("{} of a model with {}, which are known to evaluate, sample and deploy alone",
                                      c.kind, bottleneck_text(c.shape));
                      },
                  .hint = "take the model that it was tuned from",
                  .keys = {"inputs.model", "inputs", "kind"}});
}

// `quantize` computes on processors, whatever the model is for.
void add_quantized(std::vector<EngineFeature>& rows) {
  const std::string area = "Smaller weights (`quantize`)";
  rows.push_back({.area = area,
                  .name = "int8, fp8, int4",
                  .families = {F::llama, F::mistral},
                  .gpu = none,
                  .ask = [](EngineCase& c) { c.kind = "quantize", c.weights = "int8"; }});
  rows.push_back({.area = area,
                  .name = "models with experts",
                  .families = {F::mixtral, F::experts},
                  .processor = refused,
                  .gpu = none,
                  .ask = [](EngineCase& c) { c.kind = "quantize", c.weights = "int8"; },
                  .is_asked = [](const EngineCase& c) { return c.kind == "quantize" && c.shape.is_moe(); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format("a mixture of experts, whose {} form is not defined here", c.weights);
                      },
                  .hint = "deploy it as it is",
                  .keys = {"method", "kind"}});
  rows.push_back(
      {.area = area,
       .name = "gpt2",
       .families = {F::gpt2},
       .processor = refused,
       .gpu = none,
       .ask = [](EngineCase& c) { c.kind = "quantize", c.weights = "int8"; },
       .is_asked = [](const EngineCase& c) { return c.kind == "quantize" && c.shape.is_gpt2(); },
       .refusal = [](const EngineCase&) { return std::string("a gpt2 model: its weights are not stored row by row"); },
       .hint = "quantized weights are for models of the Llama family; serve this one in bf16",
       .keys = {"method", "kind"}});
  rows.push_back(
      {.area = area,
       .name = "`embedding = true` with fp8 or int4",
       .families = {F::llama},
       .processor = refused,
       .gpu = none,
       .ask = [](EngineCase& c) { c.kind = "quantize", c.weights = "int4", c.quantized_embedding = true; },
       .is_asked =
           [](const EngineCase& c) { return c.kind == "quantize" && c.quantized_embedding && c.weights != "int8"; },
       .refusal =
           [](const EngineCase& c) {
             return format("embedding = true: {} is for the projections of the blocks", c.weights);
           },
       .hint = "leave embedding out, or take method = \"int8\"",
       .keys = {"embedding"}});
}

}  // namespace
}  // namespace feature_rows

void add_inference_features(std::vector<EngineFeature>& rows) {
  feature_rows::add_answers(rows);
  feature_rows::add_answers_in_training(rows);
  feature_rows::add_prompted(rows);
  feature_rows::add_quantized(rows);
}

}  // namespace longhaul
