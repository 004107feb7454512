// The weights of a training on their way from the ranks that train to those that draw: whole parameters, one after the
// other, as they compute there; on processors in f32. Nobody holds all of them for that.
#pragma once

#include "engine/core/tensor/compute_context.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// Elements of parameters that go in one message on processors, where there is more than one of them: a rank that waits
// for one on a core that others use, too, gets that core some milliseconds late, once for each message. On devices each
// parameter is a message.
inline constexpr std::int64_t weights_together = 4 << 20;

// Collective over the mesh, each rank of which has its part of the store; with ZeRO 3 it has masters, or on a device is
// connected. `receivers`: on the mesh's first rank the group whose first rank it is; null on the others, and where
// nothing is to be sent after all. `memory` counts what passes by (null: the host). An error is the transport's; where
// it is that to the receivers only the first rank has it, and the others are not left waiting.
Status send_weights(const ComputeContext& context, Mesh& mesh, const ParameterStore& store, CollectiveGroup* receivers,
                    MemoryAccount* memory, std::int64_t together = weights_together);
// On the others of that group, with the same `together`, into the part that the store has of each parameter: masters of
// one that computes in f32, or on a device one that nobody trains.
Status take_weights(const ComputeContext& context, ParameterStore& store, CollectiveGroup& ranks, MemoryAccount* memory,
                    std::int64_t together = weights_together);

}  // namespace longhaul
