// Which hosts exchange with which before a job's first launch, and what that says of each host's network. Pure.
//
// Every host sends to a few others at increasing distances in a ring, all hosts at once: the traffic of a ring
// all-reduce, with more than one partner for each host. Of a pair that is slow one alone cannot know which end is at
// fault; a host that is slow with all of its partners, in one direction or in both, is.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace longhaul {

// By host: to whom it sends, in this order; at most three others, at distances 1, 2 and 4.
std::map<std::string, std::vector<std::string>> exchange_partners(const std::vector<std::string>& hosts);

struct HostTransfer {
  std::string from, to;
  double mb_per_s = 0;  // 1e6 bytes/s; 0: not within its deadline
};
// By host, the slower of its two directions, each as good as it was with any partner. Only hosts of which both
// directions were tried.
std::map<std::string, double> network_figures(const std::vector<HostTransfer>& transfers);

}  // namespace longhaul
