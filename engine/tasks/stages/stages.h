// Room engine/tasks/stages
// One function for each kind of stage that the engine runs, each in a file of its own.
// stages.h lists them; run_stage.cc chooses by the task's kind. Start with pretrain_stage.cc.
// It publishes nothing: a stage fills its output folder, and the lead publishes that.
//
// The stages that this program can run: one function per kind, each in a file of its own. They fill launch.output_dir;
// the lead publishes it.
#pragma once

#include "engine/tasks/common/task_run.h"

namespace longhaul {

Status run_curate(TaskRun& run);
Status run_tokenize(TaskRun& run);
Status run_pretrain(TaskRun& run);
Status run_sft(TaskRun& run);
Status run_align(TaskRun& run);
Status run_reward(TaskRun& run);
Status run_sample(TaskRun& run);
Status run_evaluate(TaskRun& run);
Status run_convert(TaskRun& run);
Status run_quantize(TaskRun& run);
Status run_deploy(TaskRun& run);
Status run_benchmark(TaskRun& run);

// By task.kind. Refuses kinds that this build or version has not, layouts that it cannot do, and several ranks for a
// kind that knows only one.
Status run_stage(TaskRun& run);

}  // namespace longhaul
