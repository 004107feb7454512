// Rows about adapters.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/model/adapter_list.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

bool has_adapter(const EngineCase& c) {
  return c.adapter.on();
}

const char* const what_runs = "attention and feed-forward; gradients of their weights are computed, too";
const char* const what_stands_before = "embeddings before every text, by every layout";
const char* const layers_behind = "two small layers behind attention, the feed-forward or both, by every layout";
const char* const keys_before = "keys and values of each layer before every text, by every layout";

// Layers of which ep leaves some ranks without experts that are adapted.
std::vector<int> layers_in_part(const EngineCase& c) {
  if (!has_adapter(c) || !c.shape.is_moe() || c.adapter.targets.empty() || c.dims.ep == 1) return {};
  ModelShape adapted = c.shape;
  adapted.adapter = c.adapter;
  const auto matrices = adapted_matrices(adapted);
  return matrices.ok() ? layers_adapted_in_part(*matrices, c.shape, c.dims.ep) : std::vector<int>();
}

void add_kind(std::vector<EngineFeature>& rows, const char* name, std::vector<ModelFamily> families, const char* note,
              void (*ask)(EngineCase&)) {
  rows.push_back({.area = "Adapters",
                  .name = format("`adapter.kind = \"{}\"`", name),
                  .families = std::move(families),
                  .processor = runs(note),
                  .gpu = runs(note),
                  .ask = ask});
}

void add_prompt_stages(std::vector<EngineFeature>& rows) {
  rows.push_back(
      {.area = "Adapters",
       .name = "`adapter.kind = \"prompt\"`, `\"p-tuning\"` and `\"prefix\"` of `pretrain`",
       .families = {F::llama},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.kind = "pretrain", c.adapter.kind = "prompt", c.adapter.virtual_tokens = 4; },
       .is_asked = [](const EngineCase& c) { return c.adapter.is_prompt() && c.kind == "pretrain"; },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "adapter.kind = \"{}\" of the kind pretrain: what stands before a text is learnt by sft, align and "
                 "reward",
                 c.adapter.kind);
           },
       .hint = "use adapter.kind = \"lora\"",
       .keys = {"adapter.kind", "adapter"}});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"p-tuning\"` with ZeRO 2 and 3",
                  .families = {F::llama},
                  .processor = runs("its encoder is gathered, and its gradients are summed, as a whole"),
                  .gpu = none,
                  .ask = [](EngineCase& c) {
                    c.kind = "sft", c.adapter.kind = "p-tuning", c.adapter.virtual_tokens = 4;
                    c.dims.dp_shard = 2, c.dims.zero = 3;
                  }});
}

void add_prefix_of_experts(std::vector<EngineFeature>& rows) {
  rows.push_back(
      {.area = "Adapters",
       .name = "`adapter.kind = \"prefix\"` of a mixture of experts",
       .families = {F::mixtral},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "prefix", c.adapter.virtual_tokens = 4; },
       .is_asked = [](const EngineCase& c) { return c.adapter.is_prefix() && c.shape.is_moe(); },
       .refusal =
           [](const EngineCase&) {
             return std::string(
                 "adapter.kind = \"prefix\" of a mixture of experts: its router would count positions that have no "
                 "token");
           },
       .hint = "use adapter.kind = \"prompt\" or \"lora\"",
       .keys = {"adapter.kind", "adapter"}});
}

// Of the stages that learn from pairs, labels, ratings and the model's own answers, which are drawn on processors.
void add_kinds_of_align(std::vector<EngineFeature>& rows) {
  const auto add = [&](const char* name, std::vector<ModelFamily> families, void (*ask)(EngineCase&)) {
    rows.push_back({.area = "Adapters",
                    .name = name,
                    .families = std::move(families),
                    .processor = runs("the reference is the model without it; answers are drawn with it"),
                    .gpu = runs("the reference is the model without it"),
                    .ask = ask});
  };
  add("`adapter.kind = \"prompt\"` and `\"p-tuning\"` of `align`", {F::llama, F::gpt2, F::mixtral},
      [](EngineCase& c) { c.kind = "align", c.adapter.kind = "prompt", c.adapter.virtual_tokens = 4; });
  add("`adapter.kind = \"prefix\"` of `align`", {F::llama, F::gpt2},
      [](EngineCase& c) { c.kind = "align", c.adapter.kind = "prefix", c.adapter.virtual_tokens = 4; });
  add("`adapter.kind = \"bottleneck\"` of `align`", {F::llama, F::gpt2},
      [](EngineCase& c) { c.kind = "align", c.adapter.kind = "bottleneck", c.adapter.bottleneck_size = 4; });
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"prompt\"`, `\"p-tuning\"`, `\"prefix\"` and `\"bottleneck\"` of `reward`",
                  .families = {F::llama, F::gpt2},
                  .processor = runs("beside the output layer; read by evaluate, deploy and as a judge"),
                  .gpu = runs("beside the output layer"),
                  .ask = [](EngineCase& c) {
                    c.kind = "reward", c.adapter.kind = "p-tuning", c.adapter.virtual_tokens = 4, c.dims.tp = 2;
                  }});
}

void add_bottleneck_limits(std::vector<EngineFeature>& rows) {
  rows.push_back(
      {.area = "Adapters",
       .name = "`adapter.kind = \"bottleneck\"` of `pretrain`",
       .families = {F::llama},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.kind = "pretrain", c.adapter.kind = "bottleneck"; },
       .is_asked = [](const EngineCase& c) { return c.adapter.is_bottleneck() && c.kind == "pretrain"; },
       .refusal =
           [](const EngineCase&) {
             return std::string(
                 "adapter.kind = \"bottleneck\" of the kind pretrain: layers behind others are learnt by sft, align "
                 "and reward");
           },
       .hint = "use adapter.kind = \"lora\"",
       .keys = {"adapter.kind", "adapter"}});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"bottleneck\"` of a mixture of experts",
                  .families = {F::mixtral},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "bottleneck"; },
                  .is_asked = [](const EngineCase& c) { return c.adapter.is_bottleneck() && c.shape.is_moe(); },
                  .refusal =
                      [](const EngineCase&) {
                        return std::string(
                            "adapter.kind = \"bottleneck\" of a mixture of experts, which is there for dense models "
                            "alone");
                      },
                  .hint = "use adapter.kind = \"lora\" or \"prompt\"",
                  .keys = {"adapter.kind", "adapter"}});
}

void add_base_weights(std::vector<EngineFeature>& rows) {
  const char* const widened = "int8, int4, nf4; widened a block at a time where they are used";
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.base_weights` of fewer bits (QLoRA)",
                  .families = {F::llama, F::mistral, F::gpt2, F::mixtral},
                  .processor = runs(widened),
                  .gpu = runs(widened),
                  .ask = [](EngineCase& c) { c.adapter.kind = "lora", c.adapter.base_weights = "nf4"; }});
}

void add_table(std::vector<EngineFeature>& rows) {
  const char* const with_lora = "with `lora`, of a model whose output is not the same table; by every layout";
  rows.push_back({.area = "Adapters",
                  .name = "an adapter of the table of tokens (`embed_tokens` in `adapter.targets`)",
                  .families = {F::llama, F::mistral, F::mixtral},
                  .processor = runs(with_lora),
                  .gpu = runs(with_lora),
                  .ask = [](EngineCase& c) {
                    c.shape.tie_word_embeddings = false;
                    c.adapter.kind = "lora", c.adapter.targets = {"embed_tokens", "q_proj"}, c.dims.tp = 2;
                  }});
}

void add_saved_modules(std::vector<EngineFeature>& rows) {
  const char* const which = "norms; the table of tokens and the output where they are two; by every layout";
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.modules_to_save`",
                  .families = {F::llama, F::mistral, F::mixtral},
                  .processor = runs(which),
                  .gpu = runs(which),
                  .ask = [](EngineCase& c) {
                    c.shape.tie_word_embeddings = false;
                    c.adapter.kind = "lora", c.dims.tp = 2, c.dims.sp = true;
                    c.adapter.modules_to_save = {"embed_tokens", "lm_head", "norm", "input_layernorm"};
                  }});
}

bool adapts_experts(const EngineCase& c) {
  if (!c.shape.is_moe()) return false;
  ModelShape adapted = c.shape;
  adapted.adapter = c.adapter;
  const auto matrices = adapted_matrices(adapted);
  return matrices.ok() && std::ranges::any_of(*matrices, [](const AdaptedMatrix& m) {
           return m.rank > 0 && (m.matrix.expert >= 0 || m.matrix.name.find(".shared_experts.") != std::string::npos);
         });
}

void add_dropout(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.dropout`",
                  .families = {F::llama, F::mistral, F::gpt2, F::mixtral},
                  .processor = runs("of `lora`, in training; one mask for every layout"),
                  .ask = [](EngineCase& c) { c.adapter.kind = "lora", c.adapter.dropout = 0.1; }});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.dropout` with `adapter.kind = \"dora\"`",
                  .families = {F::llama},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.adapter.kind = "dora", c.adapter.dropout = 0.1; },
                  .is_asked = [](const EngineCase& c) { return c.adapter.kind == "dora" && c.adapter.dropout > 0; },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "adapter.dropout = {:g} with adapter.kind = \"dora\": nothing is added beside its "
                            "scaled matrices",
                            c.adapter.dropout);
                      },
                  .hint = "leave adapter.dropout out, or use adapter.kind = \"lora\"",
                  .keys = {"adapter.dropout", "adapter.kind", "adapter"}});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.dropout` of experts' matrices",
                  .families = {F::mixtral, F::experts},
                  .processor = refused,
                  .gpu = refused,
                  .ask =
                      [](EngineCase& c) {
                        c.adapter.kind = "lora", c.adapter.dropout = 0.1, c.adapter.targets = {"w1", "w2", "w3"};
                      },
                  .is_asked = [](const EngineCase& c) { return c.adapter.dropout > 0 && adapts_experts(c); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "adapter.dropout = {:g} with experts' matrices in adapter.targets: their rows come "
                            "from many places of a batch, which masks are drawn by",
                            c.adapter.dropout);
                      },
                  .hint = "leave adapter.dropout out, or the experts' matrices",
                  .keys = {"adapter.dropout", "adapter.targets", "adapter"}});
  rows.push_back(
      {.area = "Adapters",
       .name = "`adapter.dropout` with `low_precision`",
       .families = {F::llama},
       .processor = refused,
       .gpu = refused,
       .ask =
           [](EngineCase& c) { c.adapter.kind = "lora", c.adapter.dropout = 0.1, c.low_precision.recipe = "delayed"; },
       .is_asked = [](const EngineCase& c) { return c.adapter.dropout > 0 && c.low_precision.on(); },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "adapter.dropout = {:g} with low_precision.recipe = \"{}\": what is added beside a "
                 "product has no scales",
                 c.adapter.dropout, c.low_precision.recipe);
           },
       .hint = "leave one of them out",
       .keys = {"adapter.dropout", "adapter", "low_precision.recipe", "low_precision"}});
}

void add_layouts(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"ia3\"` of GPT-2",
                  .families = {F::gpt2},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.adapter.kind = "ia3"; },
                  .is_asked = [](const EngineCase& c) { return c.adapter.kind == "ia3" && c.shape.is_gpt2(); },
                  .refusal =
                      [](const EngineCase&) {
                        return std::string(
                            "adapter.kind = \"ia3\" for a GPT-2, whose matrices have biases, which PEFT's "
                            "factors scale, too");
                      },
                  .hint = "use adapter.kind = \"lora\" or \"dora\"",
                  .keys = {"adapter.kind", "adapter"}});
  rows.push_back(
      {.area = "Adapters",
       .name = "adapters of GPT-2 with tp",
       .families = {F::gpt2},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.adapter.kind = "lora", c.dims.tp = 2; },
       .is_asked =
           [](const EngineCase& c) { return c.adapter.changes_weights() && c.shape.is_gpt2() && c.dims.tp > 1; },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "adapter.kind = \"{}\" for a GPT-2 with parallel.tp = {}: q, k and v are one module to PEFT, "
                 "of which a rank would have three parts",
                 c.adapter.kind, c.dims.tp);
           },
       .hint = "use parallel.tp = 1; pp, cp and replicas share the work",
       .keys = {"adapter.kind", "adapter", "parallel.tp", "parallel"}});
  rows.push_back({.area = "Adapters",
                  .name = "adapters of reward models",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .processor = runs("the output layer is trained beside the adapter"),
                  .gpu = runs("the output layer is trained beside the adapter"),
                  .ask = [](EngineCase& c) { c.kind = "reward", c.adapter.kind = "lora", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"dora\"` with tp",
                  .families = {F::llama, F::mixtral},
                  .processor = runs("norms of rows whose columns are split are sums over the group"),
                  .ask = [](EngineCase& c) { c.adapter.kind = "dora", c.dims.tp = 2; }});
  const char* const shared = "the weights that stay as they are are shared, too";
  rows.push_back({.area = "Adapters",
                  .name = "adapters with ZeRO 3",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .processor = runs(shared),
                  .gpu = runs(shared),
                  .ask = [](EngineCase& c) { c.adapter.kind = "lora", c.dims.dp_shard = 2, c.dims.zero = 3; }});
  rows.push_back(
      {.area = "Adapters",
       .name = "`adapter.base_weights` of fewer bits with ZeRO 3",
       .families = {F::llama},
       .processor = refused,
       .gpu = refused,
       .ask =
           [](EngineCase& c) {
             c.adapter.kind = "lora", c.adapter.base_weights = "nf4";
             c.dims.dp_shard = 2, c.dims.zero = 3;
           },
       .is_asked =
           [](const EngineCase& c) { return has_adapter(c) && c.adapter.base_weights != "full" && c.dims.zero == 3; },
       .refusal =
           [](const EngineCase& c) {
             return format("parallel.zero = 3 with adapter.base_weights = \"{}\": codes are not gathered",
                           c.adapter.base_weights);
           },
       .hint = "use zero = 1 or 2, which share what is trained, or adapter.base_weights = \"full\"",
       .keys = {"parallel.zero", "parallel", "adapter.base_weights", "adapter"}});
}

void add_adapted_experts(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Adapters",
                  .name = "adapters of experts' matrices",
                  .families = {F::mixtral, F::experts},
                  .processor = runs("where `adapter.targets` names them: `w1`, `w2`, `w3`; of shared experts "
                                    "`gate_proj`, `up_proj`, `down_proj`"),
                  .ask = [](EngineCase& c) {
                    c.adapter.kind = "lora", c.adapter.targets = {"w1", "w2", "w3"};
                    if (c.shape.n_shared_experts > 0) c.adapter.targets.push_back("*.shared_experts.*");
                  }});
  rows.push_back({.area = "Adapters",
                  .name = "adapters of experts' matrices with ep and etp",
                  .families = {F::mixtral},
                  .processor = runs("as the experts' own weights; dora's norms are sums over the etp group"),
                  .gpu = none,
                  .ask = [](EngineCase& c) {
                    c.adapter.kind = "dora", c.adapter.targets = {"w1", "w2", "w3"};
                    c.dims.tp = c.dims.dp_replicate = c.dims.ep = c.dims.etp = 2, c.dims.sp = true;
                  }});
  rows.push_back({.area = "Adapters",
                  .name = "adapters of the experts of some ranks of ep",
                  .families = {F::mixtral},
                  .processor = refused,
                  .gpu = refused,
                  .ask =
                      [](EngineCase& c) {
                        c.adapter.kind = "lora", c.adapter.targets = {"*.experts.0.w1"};
                        c.dims.dp_replicate = c.dims.ep = 2;
                      },
                  .is_asked = [](const EngineCase& c) { return !layers_in_part(c).empty(); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "adapter.targets with parallel.ep = {}: of layer {} some ranks have experts that "
                            "are adapted, and others none",
                            c.dims.ep, layers_in_part(c).front());
                      },
                  .hint = "name the same matrices of all experts (\"w1\"), or use ep = 1",
                  .keys = {"adapter.targets", "adapter", "parallel.ep", "parallel"}});
}

}  // namespace
}  // namespace feature_rows

void add_adapter_features(std::vector<EngineFeature>& rows) {
  using namespace feature_rows;
  add_kind(rows, "lora", {F::llama, F::mistral, F::gpt2, F::mixtral}, what_runs,
           [](EngineCase& c) { c.adapter.kind = "lora"; });
  add_kind(rows, "dora", {F::llama, F::gpt2, F::mixtral}, what_runs, [](EngineCase& c) { c.adapter.kind = "dora"; });
  add_kind(rows, "ia3", {F::llama}, what_runs, [](EngineCase& c) { c.adapter.kind = "ia3"; });
  add_kind(rows, "prompt", {F::llama, F::mistral, F::gpt2, F::mixtral}, what_stands_before,
           [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "prompt", c.adapter.virtual_tokens = 4; });
  add_kind(rows, "p-tuning", {F::llama, F::mistral, F::gpt2, F::mixtral}, what_stands_before,
           [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "p-tuning", c.adapter.virtual_tokens = 4; });
  add_kind(rows, "prefix", {F::llama, F::mistral, F::gpt2}, keys_before,
           [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "prefix", c.adapter.virtual_tokens = 4; });
  add_kind(rows, "bottleneck", {F::llama, F::mistral, F::gpt2}, layers_behind,
           [](EngineCase& c) { c.kind = "sft", c.adapter.kind = "bottleneck", c.adapter.bottleneck_size = 4; });
  add_prompt_stages(rows);
  add_kinds_of_align(rows);
  add_bottleneck_limits(rows);
  add_prefix_of_experts(rows);
  add_base_weights(rows);
  add_table(rows);
  add_saved_modules(rows);
  add_dropout(rows);
  add_layouts(rows);
  add_adapted_experts(rows);
}

}  // namespace longhaul
