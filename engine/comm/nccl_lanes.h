// Which communicator of NCCL an operation goes through (its lane), and how many thread blocks a kernel of it may have.
// Pure: the communicators do as it says (nccl_communicator.cc), and so does the simulated device that shows that no
// order of kernels stops for ever (tests/parallel/gpu/nccl_lanes_test.cc).
//
// A kernel of NCCL holds its multiprocessors until the ranks that it works with have come to theirs. Kernels of several
// communicators that hold all of them keep out the product whose result a neighbour waits for: then both wait for ever.
// So three things hold on every rank:
//   - The blocks of all lanes together fit beside a reserve that NCCL never gets. A lane is a queue (stream), which
//   runs
//     one kernel at a time: whatever is under way, each kernel of NCCL has its place, and a product finds one.
//   - What is left to wait for is order. Ranks start the operations of a lane in one order. Messages that a rank sends
//     and receives at once are one kernel (an exchange), posted behind the product that it sends: of two kernels in one
//     queue the receive would wait for a send that stands behind the neighbour's receive.
//   - There are no more queues than the GPU's connections to the host (CUDA_DEVICE_MAX_CONNECTIONS, 32 at most, which
//     main() asks for): those that share one are worked off in the order in which the host asked.
// How many blocks a lane has does not depend on the layout, so all ranks of a communicator ask for the same number.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/plan/collective_kind.h"

namespace longhaul {

struct NcclLane {
  enum class Kind {
    collectives,  // all of a group
    exchanges,    // of a tag, over a communicator of all its ranks
    messages,     // from one rank to another, of a tag, over a communicator of the two
  };
  Kind kind = Kind::collectives;
  int tag = 0;             // of collectives: 0
  int from = -1, to = -1;  // of messages
  auto operator<=>(const NcclLane&) const = default;
  std::string name() const;  // "" of collectives
};

// Of an operation that `rank` starts; peer and from as in Communicator: `from` is -1 but for an exchange.
NcclLane nccl_lane(CollectiveKind kind, int rank, int peer, int from, int tag);
// Which of the queues that a rank's lanes share an operation goes through; -1: its lane has one of its own. Messages
// that a rank waits for at once, whoever the other one is, share two: those from this rank, and those to it.
inline constexpr int nccl_shared_queues = 2;
int nccl_shared_queue(const NcclLane& lane, int rank);

inline constexpr int nccl_queues_max = 29;  // of all lanes that a rank may have
inline constexpr int connections_max = 32;  // of CUDA; the operations and a checkpoint's copy have one each
inline constexpr int multiprocessors_least = 56;

// Multiprocessors that the lanes leave to everything else.
int reserved_multiprocessors(int multiprocessors);
// At least 1. axis: mesh_axes.h.
int nccl_blocks(int axis, const NcclLane& lane, int multiprocessors);
// Unsupported: not enough of them for all lanes.
Status check_multiprocessors(int multiprocessors);

// Every lane that any layout of a training has, at most.
struct NcclLaneUse {
  int axis = 0;
  NcclLane lane;
};
std::vector<NcclLaneUse> all_nccl_lanes();

}  // namespace longhaul
