// The launcher of a job's agents in other forms: for one host, and without GPUs.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// The launcher of one agent a node (contracts/records/attempt.h: agent_launcher), for one agent on that host alone.
std::vector<std::string> launcher_on(std::vector<std::string> launcher, const std::string& host);

// The same launcher for agents that get none of the job's GPUs (--gres=none): they watch the ranks all the same, and
// look at no GPU. Empty where it asks for none anyway.
std::vector<std::string> launcher_without_gpus(std::vector<std::string> launcher);

}  // namespace longhaul
