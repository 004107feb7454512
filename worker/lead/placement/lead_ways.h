// How agents of other nodes reach a lead: at which ports it may listen, and where its node is for those whose name
// service does not know it.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/settings/job/port_range.h"

namespace longhaul {

// `asked`: contracts/records/attempt.h, ports; `of_slurm`: what its own srun has. invalid_input: no range.
Result<PortRange> ports_to_listen_on(const std::string& asked, const PortRange& of_slurm);

// The addresses of this node, the likeliest first. Where its own name is none of the network, what the scheduler calls
// it by (NodeAddr) comes before those of its devices; that is asked for 5 s at most.
std::vector<std::string> ways_to_node(const std::string& node);
// The value of NodeAddr= in what `scontrol show node NAME --oneliner` prints; "": none.
std::string node_address_of(const std::string& show_node);

}  // namespace longhaul
