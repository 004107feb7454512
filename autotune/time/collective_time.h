// Seconds of collectives over `ranks` ranks, each of which holds `bytes` before (all-reduce, reduce-scatter) or after
// it (all-gather). Bandwidth terms are those of rings (Thakur, Rabenseifner & Gropp 2005, section 4); an all-reduce's
// latency grows with the depth of a tree, that of the others with every hop of the ring, as NCCL does them.
#pragma once

#include <cmath>

#include "autotune/hardware/cluster.h"

namespace longhaul {

inline double all_reduce_time(int ranks, double bytes, const Link& link) {
  if (ranks <= 1) return 0;
  return link.latency * (1 + std::log2(ranks)) + 2 * (ranks - 1.0) / ranks * bytes / link.rate;
}
// Also reduce-scatter.
inline double all_gather_time(int ranks, double bytes, const Link& link, double ring_latency) {
  if (ranks <= 1) return 0;
  return ring_latency * (ranks - 1) + (ranks - 1.0) / ranks * bytes / link.rate;
}
// Every rank holds `bytes` and sends each other rank its share.
inline double all_to_all_time(int ranks, double bytes, const Link& link) {
  if (ranks <= 1) return 0;
  return link.latency * (1 + std::log2(ranks)) + (ranks - 1.0) / ranks * bytes / link.rate;
}

}  // namespace longhaul
