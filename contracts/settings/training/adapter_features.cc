// Rows about adapters.
#include <algorithm>

#include "base/text/text.h"
#include "contracts/model/adapter_list.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

using Families = std::vector<ModelFamily>;

// A row that runs on both devices.
struct AdapterRow {
  const char* name;
  Families families;
  const char* note;
  void (*ask)(EngineCase&);
};
// One that is refused on both.
struct RefusedRow {
  const char* name;
  Families families;
  void (*ask)(EngineCase&);
  bool (*is_asked)(const EngineCase&);
  std::string (*refusal)(const EngineCase&);
  const char* hint;
  std::vector<std::string> keys;
};

void add(std::vector<EngineFeature>& rows, const std::vector<AdapterRow>& those) {
  for (const AdapterRow& row : those)
    rows.push_back({.area = "Adapters",
                    .name = row.name,
                    .families = row.families,
                    .processor = runs(row.note),
                    .gpu = runs(row.note),
                    .ask = row.ask});
}

void add(std::vector<EngineFeature>& rows, const RefusedRow& row) {
  rows.push_back({.area = "Adapters",
                  .name = row.name,
                  .families = row.families,
                  .processor = refused,
                  .gpu = refused,
                  .ask = row.ask,
                  .is_asked = row.is_asked,
                  .refusal = row.refusal,
                  .hint = row.hint,
                  .keys = row.keys});
}

// What a case may ask for. Those of `sft`, which every kind of adapter has.
void ask_prompt(EngineCase& c) {
  c.kind = "sft", c.adapter.kind = "prompt", c.adapter.virtual_tokens = 4;
}
void ask_encoder(EngineCase& c) {
  ask_prompt(c), c.adapter.kind = "p-tuning";
}
void ask_prefix(EngineCase& c) {
  ask_prompt(c), c.adapter.kind = "prefix";
}
void ask_bottleneck(EngineCase& c) {
  c.kind = "sft", c.adapter.kind = "bottleneck", c.adapter.bottleneck_size = 4;
}
void ask_zero3(EngineCase& c) {
  c.adapter.kind = "lora", c.dims.dp_shard = 2, c.dims.zero = 3;
}

const std::vector<std::string> kind_keys = {"adapter.kind", "adapter"};

// Layers of which ep leaves some ranks without experts that are adapted.
std::vector<int> layers_in_part(const EngineCase& c) {
  if (!c.adapter.on() || !c.shape.is_moe() || c.adapter.targets.empty() || c.dims.ep == 1) return {};
  ModelShape adapted = c.shape;
  adapted.adapter = c.adapter;
  const auto matrices = adapted_matrices(adapted);
  return matrices.ok() ? layers_adapted_in_part(*matrices, c.shape, c.dims.ep) : std::vector<int>();
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

void add_kinds(std::vector<EngineFeature>& rows) {
  const char* const weights = "attention and feed-forward; gradients of their weights are computed, too";
  const char* const before = "embeddings before every text, by every layout";
  const char* const keys = "keys and values of each layer before every text, by every layout";
  const char* const behind = "two small layers behind attention, the feed-forward or both, by every layout";
  const Families all = {F::llama, F::mistral, F::gpt2, F::mixtral};
  add(rows, {{"`adapter.kind = \"lora\"`", all, weights, [](EngineCase& c) { c.adapter.kind = "lora"; }},
             {"`adapter.kind = \"dora\"`",
              {F::llama, F::gpt2, F::mixtral},
              weights,
              [](EngineCase& c) { c.adapter.kind = "dora"; }},
             {"`adapter.kind = \"ia3\"`", {F::llama}, weights, [](EngineCase& c) { c.adapter.kind = "ia3"; }},
             {"`adapter.kind = \"prompt\"`", all, before, ask_prompt},
             {"`adapter.kind = \"p-tuning\"`", all, before, ask_encoder},
             {"`adapter.kind = \"prefix\"`", {F::llama, F::mistral, F::gpt2}, keys, ask_prefix},
             {"`adapter.kind = \"bottleneck\"`", {F::llama, F::mistral, F::gpt2}, behind, ask_bottleneck}});
  add(rows, RefusedRow{"`adapter.kind = \"prompt\"`, `\"p-tuning\"` and `\"prefix\"` of `pretrain`",
                       {F::llama},
                       [](EngineCase& c) { ask_prompt(c), c.kind = "pretrain"; },
                       [](const EngineCase& c) { return c.adapter.is_prompt() && c.kind == "pretrain"; },
                       [](const EngineCase& c) {
                         return format(
                             "adapter.kind = \"{}\" of the kind pretrain: what stands before a text is learnt by sft, "
                             "align and reward",
                             c.adapter.kind);
                       },
                       "use adapter.kind = \"lora\"",
                       kind_keys});
  add(rows, {{"`adapter.kind = \"p-tuning\"` with ZeRO 2 and 3",
              {F::llama},
              "its encoder is gathered, and its gradients are summed, as a whole",
              [](EngineCase& c) { ask_encoder(c), c.dims.dp_shard = 2, c.dims.zero = 3; }}});
}

// Of the stages that learn from pairs, labels, ratings and the model's own answers.
void add_kinds_of_align(std::vector<EngineFeature>& rows) {
  const char* const note = "the reference is the model without it; answers are drawn with it";
  add(rows, {{"`adapter.kind = \"prompt\"` and `\"p-tuning\"` of `align`",
              {F::llama, F::gpt2, F::mixtral},
              note,
              [](EngineCase& c) { ask_prompt(c), c.kind = "align"; }},
             {"`adapter.kind = \"prefix\"` of `align`",
              {F::llama, F::gpt2},
              note,
              [](EngineCase& c) { ask_prefix(c), c.kind = "align"; }},
             {"`adapter.kind = \"bottleneck\"` of `align`",
              {F::llama, F::gpt2},
              note,
              [](EngineCase& c) { ask_bottleneck(c), c.kind = "align"; }},
             {"`adapter.kind = \"prompt\"`, `\"p-tuning\"`, `\"prefix\"` and `\"bottleneck\"` of `reward`",
              {F::llama, F::gpt2},
              "beside the output layer; read by evaluate, deploy and as a judge",
              [](EngineCase& c) { ask_encoder(c), c.kind = "reward", c.dims.tp = 2; }}});
}

void add_limits_of_kinds(std::vector<EngineFeature>& rows) {
  add(rows, RefusedRow{"`adapter.kind = \"bottleneck\"` of `pretrain`",
                       {F::llama},
                       [](EngineCase& c) { ask_bottleneck(c), c.kind = "pretrain"; },
                       [](const EngineCase& c) { return c.adapter.is_bottleneck() && c.kind == "pretrain"; },
                       [](const EngineCase&) {
                         return std::string(
                             "adapter.kind = \"bottleneck\" of the kind pretrain: layers behind others are learnt by "
                             "sft, align and reward");
                       },
                       "use adapter.kind = \"lora\"",
                       kind_keys});
  add(rows, RefusedRow{"`adapter.kind = \"bottleneck\"` of a mixture of experts",
                       {F::mixtral},
                       ask_bottleneck,
                       [](const EngineCase& c) { return c.adapter.is_bottleneck() && c.shape.is_moe(); },
                       [](const EngineCase&) {
                         return std::string(
                             "adapter.kind = \"bottleneck\" of a mixture of experts, which is there for dense models "
                             "alone");
                       },
                       "use adapter.kind = \"lora\" or \"prompt\"",
                       kind_keys});
  add(rows, RefusedRow{"`adapter.kind = \"prefix\"` of a mixture of experts",
                       {F::mixtral},
                       ask_prefix,
                       [](const EngineCase& c) { return c.adapter.is_prefix() && c.shape.is_moe(); },
                       [](const EngineCase&) {
                         return std::string(
                             "adapter.kind = \"prefix\" of a mixture of experts: its router would count positions "
                             "that have no token");
                       },
                       "use adapter.kind = \"prompt\" or \"lora\"",
                       kind_keys});
}

void add_parts(std::vector<EngineFeature>& rows) {
  const Families untied = {F::llama, F::mistral, F::mixtral}, all = {F::llama, F::mistral, F::gpt2, F::mixtral};
  add(rows, {{"`adapter.base_weights` of fewer bits (QLoRA)", all,
              "int8, int4, nf4; widened a block at a time where they are used",
              [](EngineCase& c) { c.adapter.kind = "lora", c.adapter.base_weights = "nf4"; }},
             {"an adapter of the table of tokens (`embed_tokens` in `adapter.targets`)", untied,
              "with `lora`, of a model whose output is not the same table; by every layout",
              [](EngineCase& c) {
                c.shape.tie_word_embeddings = false;
                c.adapter.kind = "lora", c.adapter.targets = {"embed_tokens", "q_proj"}, c.dims.tp = 2;
              }},
             {"`adapter.modules_to_save`", untied,
              "norms; the table of tokens and the output where they are two; by every layout",
              [](EngineCase& c) {
                c.shape.tie_word_embeddings = false;
                c.adapter.kind = "lora", c.dims.tp = 2, c.dims.sp = true;
                c.adapter.modules_to_save = {"embed_tokens", "lm_head", "norm", "input_layernorm"};
              }},
             {"`adapter.dropout`", all, "of `lora`, in training; one mask for every layout",
              [](EngineCase& c) { c.adapter.kind = "lora", c.adapter.dropout = 0.1; }}});
}

void add_limits_of_dropout(std::vector<EngineFeature>& rows) {
  add(rows, RefusedRow{"`adapter.dropout` with `adapter.kind = \"dora\"`",
                       {F::llama},
                       [](EngineCase& c) { c.adapter.kind = "dora", c.adapter.dropout = 0.1; },
                       [](const EngineCase& c) { return c.adapter.kind == "dora" && c.adapter.dropout > 0; },
                       [](const EngineCase& c) {
                         return format(
                             "adapter.dropout = {:g} with adapter.kind = \"dora\": nothing is added beside its "
                             "scaled matrices",
                             c.adapter.dropout);
                       },
                       "leave adapter.dropout out, or use adapter.kind = \"lora\"",
                       {"adapter.dropout", "adapter.kind", "adapter"}});
  add(rows, RefusedRow{"`adapter.dropout` of experts' matrices",
                       {F::mixtral, F::experts},
                       [](EngineCase& c) {
                         c.adapter.kind = "lora", c.adapter.dropout = 0.1, c.adapter.targets = {"w1", "w2", "w3"};
                       },
                       [](const EngineCase& c) { return c.adapter.dropout > 0 && adapts_experts(c); },
                       [](const EngineCase& c) {
                         return format(
                             "adapter.dropout = {:g} with experts' matrices in adapter.targets: their rows come "
                             "from many places of a batch, which masks are drawn by",
                             c.adapter.dropout);
                       },
                       "leave adapter.dropout out, or the experts' matrices",
                       {"adapter.dropout", "adapter.targets", "adapter"}});
  add(rows, RefusedRow{"`adapter.dropout` with `low_precision`",
                       {F::llama},
                       [](EngineCase& c) {
                         c.adapter.kind = "lora", c.adapter.dropout = 0.1, c.low_precision.recipe = "delayed";
                       },
                       [](const EngineCase& c) { return c.adapter.dropout > 0 && c.low_precision.on(); },
                       [](const EngineCase& c) {
                         return format(
                             "adapter.dropout = {:g} with low_precision.recipe = \"{}\": what is added beside a "
                             "product has no scales",
                             c.adapter.dropout, c.low_precision.recipe);
                       },
                       "leave one of them out",
                       {"adapter.dropout", "adapter", "low_precision.recipe", "low_precision"}});
}

void add_limits_of_gpt2(std::vector<EngineFeature>& rows) {
  add(rows, RefusedRow{"`adapter.kind = \"ia3\"` of GPT-2",
                       {F::gpt2},
                       [](EngineCase& c) { c.adapter.kind = "ia3"; },
                       [](const EngineCase& c) { return c.adapter.kind == "ia3" && c.shape.is_gpt2(); },
                       [](const EngineCase&) {
                         return std::string(
                             "adapter.kind = \"ia3\" for a GPT-2, whose matrices have biases, which PEFT's "
                             "factors scale, too");
                       },
                       "use adapter.kind = \"lora\" or \"dora\"",
                       kind_keys});
  add(rows,
      RefusedRow{"adapters of GPT-2 with tp",
                 {F::gpt2},
                 [](EngineCase& c) { c.adapter.kind = "lora", c.dims.tp = 2; },
                 [](const EngineCase& c) { return c.adapter.changes_weights() && c.shape.is_gpt2() && c.dims.tp > 1; },
                 [](const EngineCase& c) {
                   return format(
                       "adapter.kind = \"{}\" for a GPT-2 with parallel.tp = {}: q, k and v are one module to PEFT, "
                       "of which a rank would have three parts",
                       c.adapter.kind, c.dims.tp);
                 },
                 "use parallel.tp = 1; pp, cp and replicas share the work",
                 {"adapter.kind", "adapter", "parallel.tp", "parallel"}});
}

void add_layouts(std::vector<EngineFeature>& rows) {
  add(rows, {{"adapters of reward models",
              {F::llama, F::gpt2, F::mixtral},
              "the output layer is trained beside the adapter",
              [](EngineCase& c) { c.kind = "reward", c.adapter.kind = "lora", c.dims.dp_replicate = 2; }},
             {"`adapter.kind = \"dora\"` with tp",
              {F::llama, F::mixtral},
              "norms of rows whose columns are split are sums over the group",
              [](EngineCase& c) { c.adapter.kind = "dora", c.dims.tp = 2; }},
             {"adapters with ZeRO 3",
              {F::llama, F::gpt2, F::mixtral},
              "the weights that stay as they are are shared, too",
              ask_zero3},
             {"`adapter.base_weights` of fewer bits with ZeRO 3",
              {F::llama},
              "codes and scales are shared, and gathered as they are",
              [](EngineCase& c) { ask_zero3(c), c.adapter.base_weights = "nf4"; }}});
}

void add_adapted_experts(std::vector<EngineFeature>& rows) {
  add(rows, {{"adapters of experts' matrices",
              {F::mixtral, F::experts},
              "where `adapter.targets` names them: `w1`, `w2`, `w3`; of shared experts `gate_proj`, `up_proj`, "
              "`down_proj`",
              [](EngineCase& c) {
                c.adapter.kind = "lora", c.adapter.targets = {"w1", "w2", "w3"};
                if (c.shape.n_shared_experts > 0) c.adapter.targets.push_back("*.shared_experts.*");
              }},
             {"adapters of experts' matrices with ep and etp",
              {F::mixtral},
              "as the experts' own weights; dora's norms are sums over the etp group",
              [](EngineCase& c) {
                c.adapter.kind = "dora", c.adapter.targets = {"w1", "w2", "w3"};
                c.dims.tp = c.dims.dp_replicate = c.dims.ep = c.dims.etp = 2, c.dims.sp = true;
              }}});
  add(rows, RefusedRow{"adapters of the experts of some ranks of ep",
                       {F::mixtral},
                       [](EngineCase& c) {
                         c.adapter.kind = "lora", c.adapter.targets = {"*.experts.0.w1"};
                         c.dims.dp_replicate = c.dims.ep = 2;
                       },
                       [](const EngineCase& c) { return !layers_in_part(c).empty(); },
                       [](const EngineCase& c) {
                         return format(
                             "adapter.targets with parallel.ep = {}: of layer {} some ranks have experts that "
                             "are adapted, and others none",
                             c.dims.ep, layers_in_part(c).front());
                       },
                       "name the same matrices of all experts (\"w1\"), or use ep = 1",
                       {"adapter.targets", "adapter", "parallel.ep", "parallel"}});
}

}  // namespace
}  // namespace feature_rows

void add_adapter_features(std::vector<EngineFeature>& rows) {
  using namespace feature_rows;
  add_kinds(rows);
  add_kinds_of_align(rows);
  add_limits_of_kinds(rows);
  add_parts(rows);
  add_limits_of_dropout(rows);
  add_limits_of_gpt2(rows);
  add_layouts(rows);
  add_adapted_experts(rows);
}

}  // namespace longhaul
