#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/plan/layout_check.h"
#include "contracts/tasks/stage_kinds.h"
#include "engine/core/build_info.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

Status write_figures(const TaskRun& run, const std::vector<Figure>& figures) {
  if (!run.is_first()) return {};
  Value table = Value::make_table();
  for (const Figure& figure : figures) {
    table.set(figure.name, figure.value);
    run.events.figure(figure.name, figure.value, figure.unit);
  }
  Value artifact = Value::make_table();
  artifact.set("figures", std::move(table));
  return write_file_atomic(join_path(run.launch.output_dir, "artifact.json"), to_json_pretty(artifact));
}

namespace {

struct StageEntry {
  const char* kind;
  Status (*run)(TaskRun&);
};

constexpr StageEntry kStages[] = {
#ifdef LONGHAUL_HAVE_CURATE
    {"curate", run_curate},
#endif
    {"tokenize", run_tokenize}, {"pretrain", run_pretrain},   {"sft", run_sft},
    {"align", run_align},       {"reward", run_reward},       {"sample", run_sample},
    {"evaluate", run_evaluate}, {"convert", run_convert},     {"quantize", run_quantize},
    {"deploy", run_deploy},     {"benchmark", run_benchmark},
};

Status check_layout(const TaskRun& run) {
  const ParallelDims& dims = run.launch.dims;
  LH_CHECK(check_layout_available(run.task.kind, dims));
  if (run.draws()) return {};  // it has no part of the layout
  if (dims.world_size() != run.group.size())
    return make_error(ErrorCode::invalid_input, format("layout {} has {} ranks, the launch has {}", dims.to_string(),
                                                       dims.world_size(), run.group.size()));
  return {};
}

}  // namespace

Status run_stage(TaskRun& run) {
  const StageKind* kind = find_stage_kind(run.task.kind);
  if (!kind) return make_error(ErrorCode::invalid_input, "unknown stage kind " + run.task.kind);
  if (run.group.size() > 1 && !kind->parallel)
    return make_error(ErrorCode::unsupported,
                      format("stage kind {} runs on one rank, the launch has {}", run.task.kind, run.group.size()));
  LH_CHECK(check_layout(run));
  for (const StageEntry& stage : kStages)
    if (run.task.kind == stage.kind) {
      LH_CHECK(make_directories(run.launch.output_dir));
      return stage.run(run).with_context("stage " + run.task.stage);
    }
  return make_error(ErrorCode::unsupported, "this build of the engine has no stage kind " + run.task.kind,
                    run.task.kind == "curate" ? "install ICU, gumbo and CLD2, and build again" : "");
}

}  // namespace longhaul
