// Files and folders that a workflow brings, looked at before anything runs: what a stage would refuse at its start is
// refused here, in the same terms. Bounded, for it happens on login nodes: so many entries of a folder and so many
// bytes of a file, whatever their sizes. What lies beyond is the stage's to judge.
#pragma once

#include <cstddef>
#include <string>

#include "base/error/diagnostics.h"
#include "orchestrator/workflow/layout/written_stages.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// Whether a curate stage reads a file of this name, packed or not.
bool is_document_name(std::string name);

struct RawInputLimits {
  std::size_t entries = 20'000;        // of a folder and all below it
  std::size_t row_bytes = 256 * 1024;  // of a file of rows
  int rows = 20;
};

// Each input of a path is looked at once, however many stages and variants take it:
// - `documents` of curate: a folder holds a file that is read, a file is of a kind that is read;
// - `corpus`: documents.jsonl; `tokens` and what a blend names: tokenizer.json, train.bin, train.idx;
// - models: the weights that config.json is of (whole, as far as names show), tokenizer.json where the stage needs it;
// - rows of sft, align and reward, and questions of evaluate: the first are JSON objects of a known form;
// - `harness` of evaluate: the files of the tasks that it names, whole (contracts/evaluation/task_folder.h).
// What stands behind a command is left alone: that may fill a folder. Errors stand where the user wrote the input.
void check_raw_inputs(const RunPlan& plan, const WrittenStages& written, const RawInputLimits& limits,
                      Diagnostics& diagnostics);

}  // namespace longhaul
