// Whether ranks that stand still are stuck in collectives: all of them live, each waits in a communicator, and nobody
// whom they could wait for stands outside of one. Then it is no rank's own code that keeps them but what lies between
// them (a message that was lost, a link that is silent), and new communicators may be all that it takes.
//
// It matters who can still be reached. A rank that polls its wait looks for an order to leave at each poll; one that is
// stuck inside a call of the transport hears nothing, and only a new process frees it. Pure.
#pragma once

#include <string>
#include <vector>

#include "resiliency/detect/hang/culprit.h"

namespace longhaul {

struct StuckCollective {
  bool found = false;
  int out_of_reach = -1;  // a rank stuck inside a call of the transport; -1: all poll, so an order reaches them
  std::string where;      // the axes in which they wait: "dp, tp"
};
// `graph`: of these ranks, with their polls filled in (RankObservation::unpolled_ms).
StuckCollective find_stuck_collective(const std::vector<RankObservation>& ranks, const WaitGraph& graph,
                                      const CulpritOptions& options = {});

}  // namespace longhaul
