// The stages around serving: deploy and quantize. The work is done in engine/infer and engine/quantize.
#include "base/process/process.h"
#include "base/text/text.h"
#include "engine/infer/serve/deploy.h"
#include "engine/quantize/quantize.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

Status write_figure_table(const TaskRun& run, const Value& table) {
  std::vector<Figure> figures;
  for (const ValueMember& member : table.as_table()) {
    const bool is_bytes = starts_with(member.key, "bytes_");
    figures.push_back({member.key, member.value.as_number(),
                       is_bytes                        ? "B"
                       : ends_with(member.key, "_pct") ? "%"
                                                       : ""});
  }
  return write_figures(run, figures);
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
           run.events.progress(fraction, 1.0, "of the work");
           if (run.stop) return make_error(ErrorCode::aborted, "asked to stop");
           return {};
         }));
  return write_figure_table(run, figures);
}

Status run_deploy(TaskRun& run) {
  LH_TRY(const DeploySettings settings, run.settings(deploy_fields()));
  DeployInputs inputs;
  inputs.program = own_program_path();
  LH_TRY(inputs.model_folder, run.task.input_path("model"));
  inputs.model_name = run.task.run;
  inputs.output_dir = run.launch.output_dir;
  inputs.state_dir = run.launch.state_dir;
  inputs.threads = run.task.resources.threads;
  run.section("deploy");
  LH_TRY(const Value figures, deploy_model(inputs, settings, run.clock, run.events, run.stop));
  return write_figure_table(run, figures);
}

}  // namespace longhaul
