// Rows about memory, silent corruption and what ranks send to each other.
#include "base/text/text.h"
#include "contracts/settings/training/feature_rows.h"

namespace longhaul {
namespace feature_rows {
namespace {

void add_recompute(std::vector<EngineFeature>& rows, const char* module, std::vector<ModelFamily> families,
                   void (*ask)(EngineCase&)) {
  rows.push_back({.area = "Memory",
                  .name = format("`recompute.modules = [\"{}\"]`", module),
                  .families = std::move(families),
                  .ask = ask});
}

void add_offload(std::vector<EngineFeature>& rows, const char* place, FeatureSupport on_processors,
                 void (*ask)(EngineCase&), bool (*is_asked)(const EngineCase&)) {
  rows.push_back({.area = "Memory",
                  .name = format("`optimizer.offload = \"{}\"`", place),
                  .families = {F::llama},
                  .processor = std::move(on_processors),
                  .gpu = refused,
                  .ask = ask,
                  .is_asked = is_asked,
                  .refusal =
                      [](const EngineCase& c) {
                        return format(
                            "device = \"gpu\" with optimizer.offload = \"{}\": on GPUs the moments stay in "
                            "their memory",
                            c.optimizer.offload);
                      },
                  .hint = "leave offload out; optimizer.moments = \"bf16\" halves them, parallel.zero shares them",
                  .keys = {"optimizer.offload", "device"}});
}

void add_memory(std::vector<EngineFeature>& rows) {
  add_recompute(rows, "norms", {F::llama}, [](EngineCase& c) { c.recompute.modules = {"norms"}; });
  add_recompute(rows, "attention", {F::llama}, [](EngineCase& c) { c.recompute.modules = {"attention"}; });
  add_recompute(rows, "activation", {F::llama}, [](EngineCase& c) { c.recompute.modules = {"activation"}; });
  add_recompute(rows, "feed_forward", dense_and_experts, [](EngineCase& c) { c.recompute.modules = {"feed_forward"}; });
  add_recompute(rows, "block", {F::llama, F::gpt2, F::mixtral}, [](EngineCase& c) { c.recompute.modules = {"block"}; });
  const std::string area = "Memory";
  rows.push_back(
      {.area = area, .name = "`recompute.layers`: of some layers", .families = {F::llama}, .ask = [](EngineCase& c) {
         c.recompute.modules = {"block"}, c.recompute.layers = 1;
       }});
  rows.push_back(
      {.area = area, .name = "`optimizer.moments = \"bf16\"`", .families = {F::llama}, .ask = [](EngineCase& c) {
         c.optimizer.moments = "bf16";
       }});
  rows.push_back({.area = area,
                  .name = "`optimizer.moments = \"mixed\"`, rounded stochastically",
                  .families = {F::llama},
                  .ask = [](EngineCase& c) { c.optimizer.moments = "mixed", c.optimizer.rounding = "stochastic"; }});
  add_offload(
      rows, "host", runs("changes nothing: the moments lie there anyway"),
      [](EngineCase& c) { c.optimizer.offload = "host"; },
      [](const EngineCase& c) { return c.optimizer.offload == "host"; });
  add_offload(
      rows, "node_local", runs("the update waits for the disk where that is slower"),
      [](EngineCase& c) { c.optimizer.offload = "node_local", c.optimizer.offload_dir = "/local/scratch"; },
      [](const EngineCase& c) { return c.optimizer.offload == "node_local"; });
}

bool is_replay(const EngineCase& c) {
  return c.corruption.check == "replay";
}

void add_corruption(std::vector<EngineFeature>& rows) {
  const std::string area = "Silent corruption";
  const std::vector<std::string> keys = {"corruption.check", "corruption", "device"};
  rows.push_back({.area = area,
                  .name = "`corruption.check = \"contributions\"`",
                  .families = dense_and_experts,
                  .ask = [](EngineCase& c) { c.corruption.check = "contributions", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = area,
                  .name = "`corruption.check = \"replay\"`",
                  .families = dense_and_experts,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.corruption.check = "replay", c.dims.dp_replicate = 2; },
                  .is_asked = is_replay,
                  .refusal =
                      [](const EngineCase&) {
                        return std::string(
                            "device = \"gpu\" with corruption.check = \"replay\": micro-batches are "
                            "computed twice on processors only");
                      },
                  .hint = "use corruption.check = \"contributions\" or \"off\"",
                  .keys = keys});
  rows.push_back({.area = area,
                  .name = "replay where experts are sharded over replicas",
                  .families = {F::mixtral, F::experts},
                  .processor = refused,
                  .gpu = refused,
                  .ask = [](EngineCase& c) { c.corruption.check = "replay", c.dims.dp_shard = c.dims.ep = 2; },
                  .is_asked =
                      [](const EngineCase& c) {
                        return is_replay(c) && c.shape.is_moe() && c.dims.ep * c.dims.etp > c.dims.tp * c.dims.cp;
                      },
                  .refusal =
                      [](const EngineCase&) {
                        return std::string(
                            "corruption.check = \"replay\" where experts are sharded over data-parallel "
                            "ranks: a gradient of theirs is made of the micro-batches of several");
                      },
                  .hint = "use corruption.check = \"contributions\", or an ep that fits into tp * cp",
                  .keys = keys});
  rows.push_back(
      {.area = area,
       .name = "replay with `deterministic = false`",
       .families = {F::llama},
       .processor = refused,
       .gpu = refused,
       .ask = [](EngineCase& c) { c.corruption.check = "replay", c.dims.dp_replicate = 2, c.deterministic = false; },
       .is_asked = [](const EngineCase& c) { return is_replay(c) && !c.deterministic; },
       .refusal =
           [](const EngineCase&) { return std::string("corruption.check = \"replay\" with deterministic = false"); },
       .hint = "a replay is compared bit by bit: set deterministic = true, or check contributions only",
       .keys = keys});
}

void add_messages(std::vector<EngineFeature>& rows) {
  const std::string area = "Messages and measurements";
  rows.push_back({.area = area,
                  .name = "nothing beside computation (`overlap`, all of it off)",
                  .families = dense_and_experts,
                  .ask = [](EngineCase& c) {
                    c.overlap = {false, false, false, false, false, false};
                    c.dims.tp = 2, c.dims.sp = true;
                  }});
  rows.push_back({.area = area,
                  .name = "`communicator = \"nccl\"`",
                  .families = {F::llama},
                  .processor = none,
                  .ask = [](EngineCase& c) { c.communicator = "nccl", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = area,
                  .name = "`communicator = \"staged\"`",
                  .families = {F::llama},
                  .processor = none,
                  .gpu = slow("every message goes by way of the host; several ranks may share a GPU"),
                  .ask = [](EngineCase& c) { c.communicator = "staged", c.dims.dp_replicate = 2; }});
  rows.push_back({.area = area,
                  .name = "`attention_backend = \"cudnn\"`",
                  .families = {F::llama},
                  .processor = none,
                  .gpu = runs("a rank without cuDNN is refused when it starts"),
                  .ask = [](EngineCase& c) { c.attention_backend = "cudnn"; }});
  rows.push_back({.area = area,
                  .name = "`trace.kernels`",
                  .families = {F::llama},
                  .processor = none,
                  .gpu = runs("through CUPTI; where it is missing, a warning"),
                  .ask = [](EngineCase& c) { c.kernel_trace = true; }});
}

}  // namespace
}  // namespace feature_rows

void add_practice_features(std::vector<EngineFeature>& rows) {
  feature_rows::add_memory(rows);
  feature_rows::add_corruption(rows);
  feature_rows::add_messages(rows);
}

}  // namespace longhaul
