#include "engine/quantize/quantize.h"
#include "engine/tasks/stages.h"

namespace longhaul {

namespace {
std::vector<Figure> figures_of(const Value& table) {
  std::vector<Figure> figures;
  if (table.is_table())
    for (const ValueMember& member : table.as_table())
      if (member.value.is_number()) figures.push_back({member.key, member.value.as_number(), ""});
  return figures;
}
}  // namespace

Status run_quantize(TaskRun& run) {
  LH_TRY(const QuantizeSettings settings, run.settings(quantize_fields()));
  QuantizeInputs inputs;
  LH_TRY(inputs.model_folder, run.task.input_path("model"));
  if (run.task.input("tokens")) {
    LH_TRY(inputs.tokens_folder, run.task.input_path("tokens"));
  }
  inputs.output_dir = run.launch.output_dir;
  run.section("quantize");
  LH_TRY(const Value figures, quantize_model(inputs, settings, run.compute, [&](double fraction) -> Status {
           run.events.progress(fraction, 1.0, "of the model");
           if (run.stop) return make_error(ErrorCode::aborted, "stopped by a signal");
           return {};
         }));
  return write_figures(run, figures_of(figures));
}

}  // namespace longhaul
