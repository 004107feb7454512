#include "orchestrator/forecast/written_layout.h"

#include <utility>

#include "autotune/search/search_space.h"

namespace longhaul {
namespace {

const Value* group_of(const Value& settings, const char* group) {
  const Value* table = settings.find(group);
  return table && table->is_table() ? table : nullptr;
}

std::string text_in(const Value& settings, const char* group, const char* key, const char* otherwise) {
  const Value* table = group_of(settings, group);
  return table ? table->get_string(key, otherwise) : otherwise;
}

// The search assigns layers automatically and takes the smallest group: what the settings say otherwise gives way, but
// for layers that were assigned by hand to as many stages.
void write_pipeline(const Value& settings, const TrainingLayout& layout, Value& written) {
  const ParallelDims& dims = layout.dims;
  Value pipeline = Value::make_table();
  if (dims.pp > 1)
    pipeline.set("schedule", to_string(layout.schedule));
  else if (text_in(settings, "pipeline", "schedule", "auto") != "auto")
    pipeline.set("schedule", "auto");
  if (const Value* own = group_of(settings, "pipeline")) {
    if (own->get_integer("group") != 0) pipeline.set("group", 0);
    const Value* by_hand = own->find("stage_layers");
    if (by_hand && by_hand->is_array() && by_hand->size() > 0 &&
        static_cast<std::int64_t>(by_hand->size()) != std::int64_t{dims.pp} * dims.vp)
      pipeline.set("stage_layers", Value::make_array());
  }
  if (pipeline.size() > 0) written.set("pipeline", std::move(pipeline));
}

void write_recompute(const Value& settings, const Recompute& again, Value& written) {
  Value modules = Value::make_array();
  for (const auto& [wanted, name] : {std::pair{again.norms, "norms"}, std::pair{again.attention, "attention"},
                                     std::pair{again.activation, "activation"},
                                     std::pair{again.feed_forward, "feed_forward"}, std::pair{again.block, "block"}})
    if (wanted) modules.push_back(name);
  const Value* own = group_of(settings, "recompute");
  const Value* own_modules = own ? own->find("modules") : nullptr;
  const bool own_some = own_modules && own_modules->is_array() && own_modules->size() > 0;
  if (!again.any() && !own_some) return;
  Value& recompute = written.set("recompute", Value::make_table());
  recompute.set("modules", std::move(modules));
  const std::int64_t own_layers = own ? own->get_integer("layers") : 0, layers = again.any() ? again.layers : 0;
  if (layers != own_layers) recompute.set("layers", static_cast<long long>(layers));
}

void write_offload(const Value& settings, bool offload_moments, Value& written) {
  const bool own = text_in(settings, "optimizer", "offload", "none") != "none";
  if (offload_moments == own) return;
  Value& optimizer = written.set("optimizer", Value::make_table());
  optimizer.set("offload", offload_moments ? "host" : "none");
  if (!text_in(settings, "optimizer", "offload_dir", "").empty()) optimizer.set("offload_dir", "");
}

}  // namespace

Value written_layout(const TrainingLayout& layout) {
  Value written = written_over(Value::make_table(), layout, true);
  EngineCase asked;
  take_layout(layout, asked);
  if (asked.precision != EngineCase().precision) written.set("precision", asked.precision);
  if (asked.low_precision.on())
    written.set("low_precision", Value::make_table()).set("recipe", asked.low_precision.recipe);
  return written;
}

Value written_over(const Value& settings, const TrainingLayout& layout, bool decides_offload) {
  Value written = Value::make_table();
  Value parallel = changed_part(parallel_dims_fields().to_value(layout.dims), parallel_dims_fields().to_value({}));
  if (parallel.is_null()) parallel.set("dp_replicate", layout.dims.dp_replicate);
  written.set("parallel", std::move(parallel));
  written.set("micro_batch_size", layout.micro_batch_size);
  write_pipeline(settings, layout, written);
  write_recompute(settings, layout.recompute, written);
  if (decides_offload) write_offload(settings, layout.offload_moments, written);
  return written;
}

}  // namespace longhaul
