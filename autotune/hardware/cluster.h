// Where a training runs, as the time model sees it: GPUs of one type, joined to domains by fast links and beyond them
// by network cards. Ranks stand in the mesh's order (contracts/layout/parallel_dims.h), so `stride` says how far apart
// the ranks of a group are: 1 within tp, tp within cp.
#pragma once

#include "autotune/hardware/time_constants.h"

namespace longhaul {

struct Cluster {
  GpuType gpu;
  int gpus_per_node = 8;
  int domain = 8;       // GPUs that fast links join; a node, or a rack of NVLink
  double nic_rate = 0;  // bytes/s of a GPU's share of its node's network cards, one direction
};

// What a group of ranks can send at once: bytes/s of one rank, all ranks sending along a ring, and seconds until a
// message's first byte arrives.
struct Link {
  double rate = 0, latency = 0;
  bool fast = true;  // within a domain
};

// Of `ranks` ranks, `stride` apart. Groups that share a domain share its network cards: a group whose ranks are several
// in a domain crosses it once with the cards of all of them.
inline Link group_link(const Cluster& cluster, const CommonConstants& c, int ranks, int stride) {
  const double link = cluster.gpu.link_rate * c.link_share, nic = cluster.nic_rate * c.nic_share;
  if (static_cast<long>(ranks) * stride <= cluster.domain) return {link, c.link_latency, true};
  const int inside = stride < cluster.domain ? cluster.domain / stride : 1;
  const double crossing = nic * inside;
  return {crossing < link ? crossing : link, c.nic_latency, false};
}

// Of an exchange of everybody with everybody: unlike a ring's, what each rank sends to others beyond the domain goes
// through its own share of the cards, and only what stays inside takes the fast links.
inline Link exchange_link(const Cluster& cluster, const CommonConstants& c, int ranks, int stride) {
  const double link = cluster.gpu.link_rate * c.link_share, nic = cluster.nic_rate * c.nic_share;
  if (ranks <= 1 || static_cast<long>(ranks) * stride <= cluster.domain) return {link, c.link_latency, true};
  const int inside = stride < cluster.domain ? cluster.domain / stride : 1;
  const double beyond = static_cast<double>(ranks - inside) / (ranks - 1);  // of what leaves a rank
  const double by_cards = nic / beyond, by_links = beyond < 1 ? link / (1 - beyond) : by_cards;
  return {by_cards < by_links ? by_cards : by_links, c.nic_latency, false};
}

// Between neighbouring stages, whose ranks are `stride` apart.
inline Link neighbour_link(const Cluster& cluster, const CommonConstants& c, int stride, int world) {
  if (2L * stride <= cluster.domain || world <= cluster.domain)
    return {cluster.gpu.link_rate * c.link_share, c.link_latency, true};
  return {cluster.nic_rate * c.nic_share, c.nic_latency, false};
}

}  // namespace longhaul
