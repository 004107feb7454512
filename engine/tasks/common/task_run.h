// What a stage's code is given: the task, this launch, and the tools of this rank. One per process; below main
// everything is passed on from here.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/events/event.h"
#include "contracts/records/launch.h"
#include "contracts/tasks/task.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/ops/gpu.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/tasks/common/available_memory.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

struct TaskRun {
  const Task& task;
  const Launch& launch;
  const Clock& clock;
  const ComputeContext& compute;
  Mesh& mesh;
  CollectiveGroup& group;            // all ranks of the mesh
  EventWriter& events;               // writes on the first rank only
  HeartbeatPage* beat = nullptr;     // may be null
  const std::atomic<bool>& stop;     // SIGTERM came
  Trace* trace = nullptr;            // that of the communicators and of `compute`; may be null
  MemoryAccounts* memory = nullptr;  // of this rank, its communicators' included; may be null
  SchedulerMemory scheduler = {};    // granted to the ranks of this node
  // New communicators between the ranks, of a later epoch than those before, which nobody may use any more: `mesh` and
  // `group` stand for them from then on. All ranks ask for the same. After an error the process has to be started anew.
  // Empty: there is only one rank.
  std::function<Status(std::int64_t epoch)> reconnect = {};
  std::optional<int> exit_code = {};              // of a process whose stage fails; empty: that of its error
  const std::atomic<int>* stop_signal = nullptr;  // the first that raised `stop`; may be null
  Gpu* gpu = nullptr;                             // where `compute` computes; null: on the processor
  // Of a launch with ranks that hold no part of the training and draw answers for it (rollout.ranks): the first rank
  // that trains, and those, in this order; null on all others. The mesh of one that draws is itself alone.
  CollectiveGroup* rollout_ranks = nullptr;

  bool draws() const { return rollout_ranks && !rollout_ranks->is_first(); }
  bool is_first() const { return group.is_first() && !draws(); }
  // A settings struct of the task's kind, read by its field table.
  template <class S>
  Result<S> settings(const FieldTable<S>& table) const {
    return table.parse(task.settings, "stage " + task.stage).with_context("settings");
  }
  void section(const char* name) const {
    if (beat) beat->enter(beat->section(name));
  }
};

// Accounts of a model that stands beside a training on the stage's GPU: MemoryCategory::answers counts all of it. Null
// where the stage has none: nobody counts then.
inline std::unique_ptr<MemoryAccounts> accounts_beside(const TaskRun& run) {
  if (run.gpu == nullptr) return nullptr;
  auto accounts = std::make_unique<MemoryAccounts>();
  accounts->place_on(run.gpu->device());
  if (run.memory != nullptr) accounts->count_in(run.memory->of(MemoryCategory::answers));
  return accounts;
}

// artifact.json: {"figures": {name: value}}, also sent as figure events. First rank only; other ranks do nothing.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
};
Status write_figures(const TaskRun& run, const std::vector<Figure>& figures);

}  // namespace longhaul
