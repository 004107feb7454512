// A rank that holds no part of the training: it waits for orders, draws with the weights that come with them, judges,
// compares and hands the answers back, until the training has ended. An order to stop is the training's to obey: what
// is under way is drawn to its end, since it is kept with the checkpoint. It beats sections and no steps.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/tasks/common/task_run.h"
#include "engine/tasks/rollout_ranks/rollout_messages.h"
#include "engine/tasks/rollouts/rollout_worker.h"

namespace longhaul {

class DrawingRank {
 public:
  // Borrows the run, which draws().
  explicit DrawingRank(TaskRun& run) : run_(run), ranks_(*run.rollout_ranks) { run_.section("load"); }

  // `team`: the worker's; `shape`: of the weights that come, of which each of its ranks takes its part; `dtype`: that
  // they compute in here; `prompts`: of the tasks. The outcome is the training's where that fails; what fails here is
  // reported to it first.
  Status draw(RolloutWorker& worker, const DrawingTeam& team, const ModelShape& shape, DType dtype,
              const TokenizedPrompts& prompts);
  // Of a rank whose outcome is `mine`: where it never came to draw, that is reported to the training, and its end
  // waited for.
  Status end(Status mine);

 private:
  Result<RolloutOrder> next_order();
  Status reply(const Result<RolloutReply>& mine);
  // Tasks of one batch, for the whole team.
  struct Batch {
    std::vector<RolloutTask> tasks;
    std::vector<int> whose;           // RolloutOrder::ranks
    std::vector<std::size_t> places;  // in the reply, of those that are this rank's
  };
  static std::map<std::size_t, Batch> batches_of(const RolloutOrder& order, const DrawingTeam& team);
  // What is this rank's, a batch of its team at a time. `store`: the weights; on a processor it goes before the last of
  // them is drawn.
  Result<RolloutReply> answer(RolloutWorker& worker, std::map<std::size_t, Batch> batches,
                              std::unique_ptr<ParameterStore> store, DType dtype,
                              const TokenizedPrompts& prompts) const;

  TaskRun& run_;
  CollectiveGroup& ranks_;
  bool has_reported_ = false;
};

}  // namespace longhaul
