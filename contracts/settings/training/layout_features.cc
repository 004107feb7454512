// Rows about how a model and its batch are sharded over ranks.
#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

using Ask = void (*)(EngineCase&);

void add(std::vector<EngineFeature>& rows, const char* area, std::string name, std::vector<ModelFamily> families,
         Ask ask) {
  rows.push_back({.area = area, .name = std::move(name), .families = std::move(families), .ask = ask});
}

// Layouts are for these; other stages that take several ranks make replicas of them.
bool splits(const std::string& kind) {
  return kind == "pretrain" || kind == "sft" || kind == "align" || kind == "reward";
}

bool is_more_than_replicas(const ParallelDims& dims) {
  ParallelDims replicas;
  replicas.dp_replicate = dims.dp_replicate;
  return dims != replicas;
}

void add_data_and_tensor(std::vector<EngineFeature>& rows) {
  const char* area = "Layouts";
  const std::vector<ModelFamily> all = {F::llama, F::gpt2, F::mixtral};
  add(rows, area, "replicas (`dp_replicate`)", all, [](EngineCase& c) { c.dims.dp_replicate = 2; });
  add(rows, area, "ZeRO 1 (`zero = 1`: the optimizer)", dense_and_experts,
      [](EngineCase& c) { c.dims.dp_shard = 2, c.dims.zero = 1; });
  add(rows, area, "ZeRO 2 (and gradients)", dense_and_experts,
      [](EngineCase& c) { c.dims.dp_shard = 2, c.dims.zero = 2; });
  add(rows, area, "ZeRO 3 (and parameters)", all, [](EngineCase& c) { c.dims.dp_shard = 2, c.dims.zero = 3; });
  add(rows, area, "ZeRO in groups of replicas (`dp_replicate` and `dp_shard`)", dense_and_experts,
      [](EngineCase& c) { c.dims.dp_replicate = c.dims.dp_shard = 2, c.dims.zero = 3; });
  add(rows, area, "tensor parallelism (`tp`)", all, [](EngineCase& c) { c.dims.tp = 2; });
  add(rows, area, "sequence parallelism (`tp`, `sp`)", all, [](EngineCase& c) { c.dims.tp = 2, c.dims.sp = true; });
  add(rows, area, "tp, cp and pp together", {F::llama},
      [](EngineCase& c) { c.dims.tp = c.dims.cp = c.dims.pp = 2, c.dims.sp = true; });
}

void add_drawn_answers(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Layouts",
                  .name = "the methods of `align` that draw answers with tp, cp, pp, ep or ZeRO",
                  .families = {F::llama},
                  .gpu = runs("each rank has all weights while it draws, in the stage's precision"),
                  .ask = [](EngineCase& c) { c.kind = "align", c.draws_answers = true, c.dims.tp = 2; }});
}

void add_drawing_layouts(std::vector<EngineFeature>& rows) {
  rows.push_back(
      {.area = "Layouts",
       .name = "answers drawn by parts of the model (`rollout.tp`, `rollout.pp`)",
       .families = {F::llama, F::gpt2, F::mixtral},
       .processor = runs("the parts that a rank trains where both layouts are the same; `rollout.ahead` with "
                         "`rollout.ranks` alone"),
       .gpu = runs("the same; steps are not recorded as graphs"),
       .ask = [](EngineCase& c) {
         c.kind = "align", c.draws_answers = true;
         c.dims.tp = 2, c.rollout_tp = 2;
       }});
}

void add_judged_texts(std::vector<EngineFeature>& rows) {
  const char* area = "Layouts";
  rows.push_back({.area = area,
                  .name = "`align` and `reward` with tp, pp or ZeRO",
                  .families = {F::llama, F::mixtral},
                  .ask = [](EngineCase& c) { c.kind = "align", c.dims.tp = 2; }});
  add(rows, area, "`align` with ZeRO 3", {F::llama},
      [](EngineCase& c) { c.kind = "align", c.dims.dp_shard = 2, c.dims.zero = 3; });
  add(rows, area, "`align` in a pipeline", {F::llama}, [](EngineCase& c) { c.kind = "align", c.dims.pp = 2; });
  add_drawn_answers(rows);
  add_drawing_layouts(rows);
  add(rows, area, "`reward` with tp and sp", {F::llama, F::gpt2, F::mixtral},
      [](EngineCase& c) { c.kind = "reward", c.dims.tp = 2, c.dims.sp = true; });
  add(rows, area, "`reward` with ZeRO 3", {F::llama},
      [](EngineCase& c) { c.kind = "reward", c.dims.dp_shard = 2, c.dims.zero = 3; });
  add(rows, area, "`reward` in a pipeline", {F::llama, F::mixtral},
      [](EngineCase& c) { c.kind = "reward", c.dims.pp = 2; });
  add(rows, area, "`align` and `reward` with cp, ep or etp", {F::llama, F::mixtral},
      [](EngineCase& c) { c.kind = "align", c.dims.cp = 2; });
  add(rows, area, "`align` with `cp_attention = \"a2a\"`", {F::llama},
      [](EngineCase& c) { c.kind = "align", c.dims.cp = 2, c.cp_attention = "a2a"; });
  add(rows, area, "`align` with experts over replicas (`ep`)", {F::mixtral},
      [](EngineCase& c) { c.kind = "align", c.dims.dp_shard = c.dims.ep = 2; });
  add(rows, area, "`align` with an expert split over ranks (`etp`)", {F::mixtral},
      [](EngineCase& c) { c.kind = "align", c.dims.tp = c.dims.etp = 2, c.dims.sp = true; });
  add(rows, area, "`reward` with cp", {F::llama, F::gpt2, F::mixtral},
      [](EngineCase& c) { c.kind = "reward", c.dims.cp = 2; });
  add(rows, area, "`reward` with experts over the ranks of a micro-batch (`ep`)", {F::mixtral},
      [](EngineCase& c) { c.kind = "reward", c.dims.cp = c.dims.ep = 2; });
}

void add_drawing_ranks(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Layouts",
                  .name = "ranks of `align` that only draw answers (`rollout.ranks`)",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .processor = runs("beside any layout that draws ahead (`rollout.ahead`)"),
                  .gpu = runs("the same, with a GPU each"),
                  .ask = [](EngineCase& c) { c.kind = "align", c.rollout_ranks = 1; }});
}

void add_other_stages(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Layouts",
                  .name = "`evaluate` in any layout but replicas",
                  .families = {F::llama, F::mixtral},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.kind = "evaluate", c.dims.tp = 2; },
                  .is_asked = [](const EngineCase& c) { return !splits(c.kind) && is_more_than_replicas(c.dims); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format("the layout {} needs more than this version can do for {}: replicas",
                                      c.dims.to_string(), c.kind);
                      },
                  .hint = "leave out tp, sp, cp, ep, etp, pp, vp, dp_shard and zero; ranks become replicas",
                  .keys = {"parallel"}});
}

void add_pipelines(std::vector<EngineFeature>& rows) {
  const char* area = "Pipelines";
  add(rows, area, "1F1B (`pp`)", {F::llama, F::gpt2, F::mixtral}, [](EngineCase& c) { c.dims.pp = 2; });
  add(rows, area, "interleaved virtual stages (`vp`)", dense_and_experts,
      [](EngineCase& c) { c.dims.pp = c.dims.vp = 2, c.shape.num_hidden_layers = 4; });
  add(rows, area, "zero bubble (`schedule = \"zb-h1\"`)", dense_and_experts,
      [](EngineCase& c) { c.dims.pp = 2, c.pipeline.schedule = "zb-h1"; });
  add(rows, area, "zero bubble over virtual stages", {F::llama},
      [](EngineCase& c) { c.dims.pp = c.dims.vp = 2, c.shape.num_hidden_layers = 4, c.pipeline.schedule = "zb-h1"; });
  add(rows, area, "stages of unequal numbers of layers (`stage_layers`)", {F::llama},
      [](EngineCase& c) { c.dims.pp = 2, c.shape.num_hidden_layers = 3, c.pipeline.stage_layers = {2, 1}; });
  add(rows, area, "ZeRO 3 beside a pipeline", dense_and_experts,
      [](EngineCase& c) { c.dims.pp = c.dims.dp_shard = 2, c.dims.zero = 3; });
  rows.push_back(
      {.area = area,
       .name = "zero bubble with ZeRO 2 or 3",
       .families = dense_and_experts,
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.dims.pp = c.dims.dp_shard = 2, c.dims.zero = 2, c.pipeline.schedule = "zb-h1"; },
       .is_asked = [](const EngineCase& c) { return c.dims.zero >= 2 && c.pipeline.schedule == "zb-h1"; },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "parallel.zero = {} sums a layer's gradients as soon as they are complete, "
                 "which pipeline.schedule = \"zb-h1\" puts off",
                 c.dims.zero);
           },
       .hint = "use zero = 1, or another schedule",
       .keys = {"pipeline.schedule", "pipeline", "parallel.zero", "parallel"}});
}

void add_contexts(std::vector<EngineFeature>& rows) {
  const char* area = "Context parallelism";
  add(rows, area, "`cp_attention = \"ring\"`", {F::llama, F::mistral, F::gpt2, F::mixtral},
      [](EngineCase& c) { c.dims.cp = 2; });
  add(rows, area, "`cp_attention = \"gather\"`", dense_and_experts,
      [](EngineCase& c) { c.dims.cp = 2, c.cp_attention = "gather"; });
  add(rows, area, "`cp_attention = \"a2a\"`", dense_and_experts,
      [](EngineCase& c) { c.dims.cp = 2, c.cp_attention = "a2a"; });
  rows.push_back({.area = area,
                  .name = "hierarchical: `cp_attention = \"a2a+ring\"`",
                  .families = {F::llama, F::mixtral},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.dims.cp = 4, c.cp_attention = "a2a+ring"; },
                  .is_asked = [](const EngineCase& c) { return c.cp_attention == "a2a+ring"; },
                  .refusal =
                      [](const EngineCase&) {
                        return std::string(
                            "cp_attention = \"a2a+ring\": heads divided within a node and a ring between "
                            "nodes are not there yet");
                      },
                  .hint = "use \"ring\", which hides most of its messages, or \"a2a\" where there are heads enough",
                  .keys = {"cp_attention"}});
  rows.push_back(
      {.area = area,
       .name = "`moe.drop_policy = \"position\"` with cp",
       .families = {F::mixtral},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.dims.cp = 2, c.moe.capacity_factor = 1, c.moe.drop_policy = "position"; },
       .is_asked =
           [](const EngineCase& c) {
             return c.shape.is_moe() && c.moe.capacity_factor > 0 && c.moe.drop_policy == "position" && c.dims.cp > 1;
           },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "moe.drop_policy = \"position\" takes tokens in their order, which parallel.cp = "
                 "{} distributes to ranks in chunks",
                 c.dims.cp);
           },
       .hint = "use drop_policy = \"probability\"",
       .keys = {"moe.drop_policy", "moe"}});
}

void add_experts(std::vector<EngineFeature>& rows) {
  const char* area = "Experts";
  add(rows, area, "experts over replicas (`ep`)", {F::mixtral, F::experts},
      [](EngineCase& c) { c.dims.dp_shard = c.dims.ep = 2; });
  add(rows, area, "experts over the ranks of a micro-batch (`ep` within tp and cp)", {F::mixtral},
      [](EngineCase& c) { c.dims.tp = c.dims.ep = 2, c.dims.sp = true; });
  add(rows, area, "an expert split over ranks (`etp`)", {F::mixtral, F::experts},
      [](EngineCase& c) { c.dims.tp = c.dims.etp = 2, c.dims.sp = true; });
  add(rows, area, "a capacity that drops tokens (`moe.capacity_factor`)", {F::mixtral},
      [](EngineCase& c) { c.moe.capacity_factor = 1; });
  add(rows, area, "`moe.balance = \"sinkhorn\"`", {F::mixtral}, [](EngineCase& c) { c.moe.balance = "sinkhorn"; });
  rows.push_back({.area = area,
                  .name = "`moe.aux_loss = \"hugging_face\"` with pp",
                  .families = {F::mixtral},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.dims.pp = 2, c.moe.aux_loss = "hugging_face"; },
                  .is_asked =
                      [](const EngineCase& c) {
                        return c.shape.is_moe() && c.moe.balance == "aux" && c.moe.aux_loss == "hugging_face" &&
                               c.dims.pp > 1;
                      },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "moe.aux_loss = \"hugging_face\" is taken over all layers at once, parallel.pp = "
                            "{} spreads them",
                            c.dims.pp);
                      },
                  .hint = "use aux_loss = \"megatron\" or pp = 1",
                  .keys = {"moe.aux_loss", "moe"}});
}

}  // namespace
}  // namespace feature_rows

void add_layout_features(std::vector<EngineFeature>& rows) {
  feature_rows::add_data_and_tensor(rows);
  feature_rows::add_judged_texts(rows);
  feature_rows::add_drawing_ranks(rows);
  feature_rows::add_other_stages(rows);
  feature_rows::add_pipelines(rows);
  feature_rows::add_contexts(rows);
  feature_rows::add_experts(rows);
}

}  // namespace longhaul
