#include "base/process.h"
#include "engine/infer/deploy.h"
#include "engine/tasks/stages.h"

namespace longhaul {

Status run_deploy(TaskRun& run) {
  LH_TRY(const DeploySettings settings, run.settings(deploy_fields()));
  DeployInputs inputs;
  inputs.program = own_program_path();
  LH_TRY(inputs.model_folder, run.task.input_path("model"));
  inputs.model_name = run.task.run;
  inputs.output_dir = run.launch.output_dir;
  inputs.state_dir = run.launch.state_dir;
  inputs.threads = run.compute.threads();
  run.section("deploy");
  LH_TRY(const Value figures, deploy_model(inputs, settings, run.clock, run.events, run.stop));
  std::vector<Figure> list;
  for (const ValueMember& member : figures.as_table())
    if (member.value.is_number()) list.push_back({member.key, member.value.as_number(), ""});
  return write_figures(run, list);
}

}  // namespace longhaul
