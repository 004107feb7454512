// Rows about models, what they are trained on, and in which precision.
#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

constexpr std::int64_t gpu_head_dim_max = 256;  // engine/ops/cuda/attention/attention_kernels.h: attention_head_dim_max

// Whole blocks of 128 along everything that a product sums over.
void with_blocks(EngineCase& c) {
  ModelShape& s = c.shape;
  s.hidden_size = s.intermediate_size = 128;
  s.num_attention_heads = s.num_key_value_heads = 4, s.head_dim = 32;
}

void add_models(std::vector<EngineFeature>& rows) {
  const std::string area = "Models";
  rows.push_back({.area = area,
                  .name = "pretraining, supervised fine-tuning",
                  .families = {F::llama, F::mistral, F::gpt2, F::mixtral, F::experts},
                  .gpu = runs("experts over several ranks: the host waits for the plan of their rows"),
                  .ask = [](EngineCase&) {}});
  rows.push_back({.area = area,
                  .name = "preference tuning (`align`)",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .ask = [](EngineCase& c) { c.kind = "align", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = area,
                  .name = "reward models (`reward`)",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .ask = [](EngineCase& c) { c.kind = "reward", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = area,
                  .name = "documents kept apart (`document_mask`, packing)",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .gpu = runs("attention by the own kernels, not by cuDNN"),
                  .ask = [](EngineCase& c) { c.document_mask = true; }});
  rows.push_back(
      {.area = area, .name = "`dropout`", .families = {F::llama, F::gpt2, F::mixtral}, .ask = [](EngineCase& c) {
         c.dropout = 0.1;
       }});
  rows.push_back({.area = area,
                  .name = "an output layer of its own (`tie_word_embeddings = false`)",
                  .families = {F::llama, F::mixtral},
                  .ask = [](EngineCase& c) { c.shape.tie_word_embeddings = false; }});
  rows.push_back({.area = area,
                  .name = "heads of no multiple of 8 elements",
                  .families = {F::llama, F::gpt2},
                  .gpu = slow("attention in f32 arithmetic; heads of 64 and 128 elements go through the tensor cores"),
                  .ask = [](EngineCase& c) {
                    c.shape.head_dim = 6, c.shape.num_key_value_heads = c.shape.num_attention_heads = 4;
                    c.shape.hidden_size = 24;
                  }});
  rows.push_back(
      {.area = area,
       .name = "heads of more than 256 elements",
       .families = {F::llama, F::mixtral},
       .gpu = refused,
       .ask =
           [](EngineCase& c) { c.shape.num_attention_heads = c.shape.num_key_value_heads = 1, c.shape.head_dim = 264; },
       .is_asked = [](const EngineCase& c) { return c.shape.head_dim > gpu_head_dim_max; },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "device = \"gpu\" with heads of {} elements: attention on GPUs knows heads of "
                 "at most {}",
                 c.shape.head_dim, gpu_head_dim_max);
           },
       .hint = "use more heads of fewer elements, or device = \"cpu\"",
       .keys = {"model.head_dim", "model.num_attention_heads", "device"}});
}

void add_recipe(std::vector<EngineFeature>& rows, const char* name, void (*ask)(EngineCase&), FeatureSupport on_gpu) {
  rows.push_back({.area = "Precision",
                  .name = format("`low_precision.recipe = \"{}\"`", name),
                  .families = {F::llama, F::gpt2},
                  .processor = slow("emulated: shows what it does to a loss, saves no time and no memory"),
                  .gpu = std::move(on_gpu),
                  .ask = ask});
}

void add_precisions(std::vector<EngineFeature>& rows) {
  const std::string area = "Precision";
  rows.push_back({.area = area,
                  .name = "`precision = \"bf16\"`",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .processor = runs("at the speed of f32 where no instruction multiplies it"),
                  .ask = [](EngineCase& c) { c.precision = "bf16"; }});
  rows.push_back({.area = area,
                  .name = "`precision = \"f32\"`",
                  .families = {F::llama, F::gpt2, F::mixtral},
                  .gpu = slow("attention and products of experts in f32 arithmetic; no TF32"),
                  .ask = [](EngineCase& c) { c.precision = "f32"; }});
  const auto per_tensor = runs("Hopper, Ada and Blackwell multiply it, others emulate it");
  add_recipe(rows, "delayed", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "delayed"; }, per_tensor);
  add_recipe(rows, "current", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "current"; }, per_tensor);
  add_recipe(
      rows, "blockwise", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "blockwise"; },
      runs("Hopper with CUDA 12.9 or newer multiplies it, others emulate it"));
  add_recipe(
      rows, "mxfp8", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "mxfp8"; },
      runs("Blackwell with CUDA 12.8 or newer multiplies it, others emulate it"));
  add_recipe(
      rows, "mxfp6", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "mxfp6"; },
      slow("emulated on every GPU"));
  add_recipe(
      rows, "mxfp4", [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "mxfp4"; },
      slow("emulated on every GPU"));
  rows.push_back({.area = area,
                  .name = "`low_precision` for models with experts",
                  .families = {F::mixtral, F::experts},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.low_precision.recipe = "delayed"; },
                  .is_asked = [](const EngineCase& c) { return c.low_precision.on() && c.shape.is_moe(); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "low_precision.recipe = \"{}\" for a model with experts, whose products are not "
                            "computed in these formats yet",
                            c.low_precision.recipe);
                      },
                  .hint = "set recipe = \"none\"",
                  .keys = {"low_precision.recipe", "low_precision"}});
  rows.push_back(
      {.area = area,
       .name = "`recipe = \"current\"` with tp or cp",
       .families = {F::llama, F::gpt2},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "current", c.dims.tp = 2; },
       .is_asked =
           [](const EngineCase& c) { return c.low_precision.recipe == "current" && (c.dims.tp > 1 || c.dims.cp > 1); },
       .refusal =
           [](const EngineCase& c) {
             return format(
                 "low_precision.recipe = \"current\" takes a scale from a whole tensor, of which "
                 "parallel.tp = {} and cp = {} leave each rank a part",
                 c.dims.tp, c.dims.cp);
           },
       .hint = "use \"delayed\", whose scales all ranks agree on between steps, a recipe with blocks, or "
               "tp = cp = 1",
       .keys = {"low_precision.recipe", "low_precision"}});
  rows.push_back({.area = area,
                  .name = "recipes with blocks, cp, and sequences whose parts are no whole blocks",
                  .families = {F::llama, F::gpt2},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { with_blocks(c), c.low_precision.recipe = "mxfp8", c.dims.cp = 2; },
                  .is_asked =
                      [](const EngineCase& c) {
                        if (!c.low_precision.in_blocks() || c.dims.cp < 2) return false;
                        const std::int64_t part = 2 * c.dims.cp * c.low_precision.block();
                        return c.sequence_length == 0 || c.sequence_length % part != 0;
                      },
                  .refusal =
                      [](const EngineCase& c) {
                        const std::int64_t block = c.low_precision.block();
                        return format(
                            "low_precision.recipe = \"{}\" with parallel.cp = {} needs sequences of one "
                            "length, a multiple of 2 * cp * {} = {}{}",
                            c.low_precision.recipe, c.dims.cp, block, 2 * c.dims.cp * block,
                            c.sequence_length > 0 ? format(", not {}", c.sequence_length) : "");
                      },
                  .hint = "use such a sequence_length, cp = 1, or recipe = \"delayed\"",
                  .keys = {"low_precision.recipe", "low_precision"}});
}

}  // namespace
}  // namespace feature_rows

void add_model_features(std::vector<EngineFeature>& rows) {
  feature_rows::add_models(rows);
  feature_rows::add_precisions(rows);
}

}  // namespace longhaul
