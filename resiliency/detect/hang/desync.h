// Ranks of a group that are all alive and wait for each other for ever, since they started different collectives: one
// left one out, or two started them in another order. A bug of the program, not of a machine: to try again is no cure
// unless the cause was transient.
#pragma once

#include <string>
#include <vector>

#include "resiliency/detect/hang/culprit.h"

namespace longhaul {

struct Desync {
  enum class Kind {
    counts,  // all wait in one communicator, and some have started more collectives of it than others
    order,   // some wait in one communicator, and those who are to come to it wait in another one
  };
  Kind kind = Kind::counts;
  std::vector<std::string> communicators;  // axes
  std::vector<int> behind;                 // counts: ranks that started fewest; order: all that wait in the circle
  std::string text;
};
// Of ranks that stand still; empty where some rank is broken or computes, or where all have come (the transport, then).
std::vector<Desync> find_desyncs(const std::vector<RankObservation>& ranks, const CulpritOptions& options = {});

}  // namespace longhaul
