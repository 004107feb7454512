// Whether a host has failed once too often to be worked on.
//
// A lemon does not fail in one way: a rank of it is killed, hours later another hangs, and the training gets further in
// between. So faults on a host are counted whatever they look like, and whatever was saved since:
//   - Those that accuse it for sure (an XID of a lost GPU, a port that is down) count always.
//   - Doubtful ones (a signal, a hang, an NCCL error that names one of its ranks) count too, unless another host has
//     had as many faults of those same classes within the same time: then the host is not what they have in common. Of
//     two hosts with as many none is a lemon until it is ahead.
//   - Others (an error that a program printed, NaN, a full disk, a damaged checkpoint) never count.
// With the second (TierBudgets::lemon_faults) within TierBudgets::lemon_memory_ms it is a lemon. Two of a kind by
// chance cost a spare, not the training: a bug that crashes any rank in native code is, after its second time on one
// host, one of the job once it has come twice on another.
//
// Compared are classes and not causes: one cause is worded otherwise in another section. Pure.
#pragma once

#include <string>
#include <vector>

#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

struct LemonVerdict {
  bool lemon = false;
  // Of a lemon: "its second fault within 43 min: killed, hang"; of a host with as many that were not held against it:
  // "n3 has had as many faults of this kind"; else empty.
  std::string why;
};
// Of the host that `fault` happened on; a fault that accuses nobody makes none a lemon. `history` without `fault`.
LemonVerdict judge_host(const FaultView& fault, const TierHistory& history, const TierBudgets& budgets = {});

}  // namespace longhaul
