// Every kind of operation that a training step starts between ranks, once, each by itself and waited for, before the
// first step. A backend that makes what an operation needs when it is first started (NCCL: communicators, connections,
// their memory) makes it then, while nothing else is under way. In the middle of a step it would wait for the GPU, and
// the GPU for a neighbour that waits for the same communicator.
#pragma once

#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// All ranks of the mesh at once; O(pp) small messages one after the other, and each group's ranks all with all. Errors
// are those of the communicators. `experts`: the model has some; without them their groups are left out.
Status rehearse(Mesh& mesh, bool experts);
// The collectives of a group that is no axis of a mesh, whose ranks are all asked.
Status rehearse(CollectiveGroup& group);

}  // namespace longhaul
