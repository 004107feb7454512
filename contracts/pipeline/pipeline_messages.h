// The point-to-point messages around one operation of a pipeline schedule, so that an executor needs no logic of its
// own: receive, compute, send.
//
// A forward takes the activations of the global stage before and hands its own to the stage after; a backward (or its
// input half) takes the gradient of its output from the stage after and hands the gradient of its input to the stage
// before. The first stage receives no activations and sends no gradient, the last one the other way round; a weight
// gradient neither. Stage c * pp + r is chunk c of rank r, so the last rank's chunk c sends to rank 0's chunk c + 1.
//
// Matching: the communicator delivers messages of one (peer, tag) in the order of their sends. A tag stands for the
// direction, and every schedule of pipeline_schedule.h runs the pairs of micro-batch and chunk in one order on all
// ranks; so each receive meets its own send. There are no more tags than that, because each costs a GPU a communicator
// and a part of its multiprocessors (engine/comm/nccl_lanes.h). Sends must not wait for their receiver (two
// neighbours send to each other before either receives): start them, and wait when the buffer is needed again. Receives
// may be started early, in the order of the operations.
#pragma once

#include <optional>

#include "contracts/pipeline/schedule.h"

namespace longhaul {

struct PipelineMessages {
  struct Peer {
    int pp_rank = 0;
    int tag = 0;  // in [0, 1024), as in engine/comm/communicator.h
    bool operator==(const Peer&) const = default;
  };
  std::optional<Peer> receive;  // before the operation
  std::optional<Peer> send;     // after it
};

// pp >= 1, 1 <= vp <= 512, the operation's chunk in [0, vp).
PipelineMessages pipeline_messages(int pp, int vp, int pp_rank, const ScheduleOp& op);

}  // namespace longhaul
