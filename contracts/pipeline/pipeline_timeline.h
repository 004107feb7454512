// When does each operation of a pipeline run? All ranks' lists are run together against a cost per operation: each rank
// does its list in order, an operation starts when its rank is free and its input has arrived. It finds lists that
// could never run (a deadlock), gives the tuner a step time, and draws the pictures of docs/contracts.md.
#pragma once

#include <string>
#include <vector>

#include "contracts/pipeline/schedule.h"

namespace longhaul {

// Times of one chunk and one micro-batch; seconds, or any other unit that all share.
struct StageCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double backward = 2;  // both halves in one
};

struct PipelineCosts {
  std::vector<StageCosts> stages = {StageCosts{}};  // one for all, or one per global stage
  double send = 0;                                  // from the end of an operation until its neighbour may use it
};

struct PipelineTimeline {
  struct Entry {
    ScheduleOp op;
    double start = 0, end = 0;
  };
  std::vector<std::vector<Entry>> ranks;  // in the order of the lists
  double makespan = 0;                    // the latest end
  double bubble = 0;                      // share of pp * makespan in which ranks do nothing, [0, 1)
  std::vector<int> slots;                 // per rank: most (micro-batch, chunk) alive at once (schedule_slots)
};

// `ranks`: one list per pipeline rank, over vp chunks. Errors: internal with the rank, when one list is not complete
// and in order by itself (schedule_slots), ranks run different micro-batches, or the operations of several ranks wait
// for each other; that one names the first operation that can never run and follows what each waits for. invalid_input
// for costs that are negative, not finite, or of another number of stages.
Result<PipelineTimeline> run_pipeline(const std::vector<std::vector<ScheduleOp>>& ranks, int vp,
                                      const PipelineCosts& costs);

}  // namespace longhaul
