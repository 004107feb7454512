// Rows about adapters.
#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

bool has_adapter(const EngineCase& c) {
  return c.adapter.on();
}

const char* const what_runs = "attention and dense feed-forward; gradients of their weights are computed, too";

void add_kind(std::vector<EngineFeature>& rows, const char* name, std::vector<ModelFamily> families,
              FeatureSupport on_gpu, void (*ask)(EngineCase&), bool (*is_asked)(const EngineCase&)) {
  rows.push_back({.area = "Adapters",
                  .name = format("`adapter.kind = \"{}\"`", name),
                  .families = std::move(families),
                  .processor = runs(what_runs),
                  .gpu = std::move(on_gpu),
                  .ask = ask,
                  .is_asked = is_asked,
                  .refusal =
                      [](const EngineCase& c) {
                        return format("device = \"gpu\" with adapter.kind = \"{}\", which is trained on processors",
                                      c.adapter.kind);
                      },
                  .hint = "use adapter.kind = \"lora\", train all weights, or use device = \"cpu\"",
                  .keys = {"adapter.kind", "adapter", "device"}});
}

void add_layouts(std::vector<EngineFeature>& rows) {
  rows.push_back({.area = "Adapters",
                  .name = "adapters of GPT-2",
                  .families = {F::gpt2},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.adapter.kind = "lora"; },
                  .is_asked = [](const EngineCase& c) { return has_adapter(c) && c.shape.is_gpt2(); },
                  .refusal =
                      [](const EngineCase& c) {
                        return format("adapter.kind = \"{}\" for a GPT-2, whose q, k and v are one module to PEFT",
                                      c.adapter.kind);
                      },
                  .hint = "leave adapter out, which trains all weights",
                  .keys = {"adapter.kind", "adapter"}});
  rows.push_back({.area = "Adapters",
                  .name = "adapters of reward models",
                  .families = {F::llama},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.kind = "reward", c.adapter.kind = "lora"; },
                  .is_asked = [](const EngineCase& c) { return has_adapter(c) && c.kind == "reward"; },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "adapter.kind = \"{}\" of a reward model, whose output layer is new and has to be trained "
                            "beside the adapter: that is not part of this version",
                            c.adapter.kind);
                      },
                  .hint = "leave adapter out, which trains all weights",
                  .keys = {"adapter.kind", "adapter"}});
  rows.push_back({.area = "Adapters",
                  .name = "`adapter.kind = \"dora\"` with tp",
                  .families = {F::llama},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.adapter.kind = "dora", c.dims.tp = 2; },
                  .is_asked = [](const EngineCase& c) { return c.adapter.kind == "dora" && c.dims.tp > 1; },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "adapter.kind = \"dora\" needs whole rows of weights, of which parallel.tp = {} "
                            "leaves a rank a part",
                            c.dims.tp);
                      },
                  .hint = "use adapter.kind = \"lora\", or parallel.tp = 1",
                  .keys = {"adapter.kind", "adapter", "parallel.tp", "parallel"}});
  rows.push_back({.area = "Adapters",
                  .name = "adapters with ZeRO 3",
                  .families = {F::llama},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.adapter.kind = "lora", c.dims.dp_shard = 2, c.dims.zero = 3; },
                  .is_asked = [](const EngineCase& c) { return has_adapter(c) && c.dims.zero == 3; },
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "parallel.zero = 3 with adapter.kind = \"{}\": the weights that stay as they are "
                            "lie whole on every replica",
                            c.adapter.kind);
                      },
                  .hint = "use zero = 1 or 2, which share what is trained; tp and pp share the model",
                  .keys = {"parallel.zero", "parallel", "adapter.kind"}});
}

}  // namespace
}  // namespace feature_rows

void add_adapter_features(std::vector<EngineFeature>& rows) {
  using namespace feature_rows;
  add_kind(
      rows, "lora", {F::llama, F::mistral, F::mixtral}, runs(what_runs), [](EngineCase& c) { c.adapter.kind = "lora"; },
      [](const EngineCase& c) { return c.adapter.kind == "lora"; });
  add_kind(
      rows, "dora", {F::llama, F::mixtral}, refused, [](EngineCase& c) { c.adapter.kind = "dora"; },
      [](const EngineCase& c) { return c.adapter.kind == "dora"; });
  add_kind(
      rows, "ia3", {F::llama}, refused, [](EngineCase& c) { c.adapter.kind = "ia3"; },
      [](const EngineCase& c) { return c.adapter.kind == "ia3"; });
  add_layouts(rows);
}

}  // namespace longhaul
