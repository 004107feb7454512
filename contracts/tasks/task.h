// Room contracts/tasks
// task.toml, which says what one stage is to do, and the list of all kinds of stage.
// Start with stage_kinds.h for a new kind of stage; task.h is one resolved stage, and makes its key.
// task_settings.h says which settings take part in the key.
// It knows no attempt and no launch: a task is the same however often and wherever it is started.
//
// task.toml: what one stage is to do, fully resolved and immutable. Written by the controller, read by the worker and
// the engine; readable, and re-runnable by hand: `longhaul-engine run --task task.toml --launch launch.toml`.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"

namespace longhaul {

struct TaskInput {
  std::string name;                // "corpus"
  std::vector<std::string> paths;  // absolute: one artifact folder, or raw files and folders
  std::string stage;               // the stage that made the artifact, "" for raw input
  std::string digest;              // of the artifact's manifest, or of path, size and time of raw files
};

struct TaskResources {
  int ranks = 1;    // processes
  int threads = 1;  // per rank
  int nodes = 1;
};

struct Task {
  static constexpr int format = 1;
  std::string run;  // name of the run
  std::string stage;
  std::string variant;  // "" or the matrix combination ("lr=1e-5,lora_rank=16")
  std::string kind;
  int kind_version = 1;
  std::string key;  // digest that names the result: equal keys, equal artifacts
  TaskResources resources;
  ParallelDims dims;
  std::vector<TaskInput> inputs;
  Value settings;  // every field of the kind, defaults filled in

  const TaskInput* input(std::string_view name) const;
  // The single path of an input; an error that names the stage and the input otherwise.
  Result<std::string> input_path(std::string_view name) const;
};

Value task_to_value(const Task& task);
Result<Task> task_from_value(const Value& value);
Result<Task> read_task(const std::string& path);
Status write_task(const std::string& path, const Task& task);

// The key: settings without speed-only fields, kind and its version, inputs by digest; no path takes part.
std::string task_key(const Task& task);

}  // namespace longhaul
