// Whom a group of ranks that stand still is waiting for.
//
// When one rank of a training stops, within moments all others stand in some collective and look the same. Pages say
// more: who waits, in which communicator, and how many collectives of it each member has started. From that follows who
// waits for whom: a rank in collective n waits for the members that have not started n; one that waits for a message
// waits for its sender; and a rank that is itself waiting only passes the blame on (tp waits for pp waits for ...). The
// ranks where these chains end are the culprits. What the kernel or a silent host says of a process comes first: such a
// rank waits for nobody, whatever its page says.
//
// The alternative, the rank with the smallest counter, names a victim as soon as two axes are involved: the neighbours
// of the culprit on one axis are behind on every other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/detect/hang/rank_observation.h"

namespace longhaul {

struct Culprit {
  int rank = -1;
  std::string host;
  std::string section;
  std::string communicator;  // where others wait for it: the axis ("dp"), "" for none
  std::string reason;        // one sentence, for people
  bool certain = false;      // false: the likeliest, but the pages would also look so otherwise
};

struct CulpritOptions {
  std::int64_t silent_after_ms = 2'000;    // a host not heard of for so long counts as gone, if others are heard
  std::int64_t unpolled_after_ms = 1'500;  // a wait that nobody polls for so long is stuck inside a call
  std::size_t most = 8;                    // named at most
};

// Who waits for whom; entries are indices into the observations.
struct WaitGraph {
  struct Node {
    bool waits = false;   // in a communicator, and able to go on
    bool broken = false;  // process ended, stopped or blocked, host silent, no page, or stuck inside a wait
    bool silent = false;  // broken since its host is
    int end = -1;         // of a node that waits: where its chain of waits ends; -1: nowhere (a cycle, or all wait)
    int waiters = 0;      // of a node where chains end: how many nodes wait for it
    std::string communicator;      // in which they do: the name on the page
    std::uint64_t collective = 0;  // and for which collective of it, from 0
    bool message = false;          // for a message of it instead
  };
  std::vector<Node> nodes;
};
WaitGraph wait_graph(const std::vector<RankObservation>& ranks, const CulpritOptions& options = {});

// Of ranks that stand still, most likely first; empty where nothing is known of any. 16,384 ranks take some 0.1 s.
std::vector<Culprit> find_culprits(const std::vector<RankObservation>& ranks, const CulpritOptions& options = {});
// The same, of a graph that is there already.
std::vector<Culprit> find_culprits(const std::vector<RankObservation>& ranks, const WaitGraph& graph,
                                   const CulpritOptions& options = {});

// "dp@3" -> "dp".
std::string axis_of(const std::string& communicator);

}  // namespace longhaul
