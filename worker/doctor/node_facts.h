// Facts from what the processes of a doctor's job have seen. Pure.
#pragma once

#include <vector>

#include "base/value/value.h"
#include "contracts/records/doctor.h"

namespace longhaul {

// What one process left: of an agent place, node and pair (worker/doctor/node_look.h, pair_checks.h), of a rank place.
struct DoctorSights {
  std::vector<Value> agents, ranks;     // by node, by rank; those that left something
  bool ranks_done = false;              // all of them met, and their step ended well
  bool beside = false;                  // agents were at work while the ranks were
  std::string ranks_said, agents_said;  // the last line of their steps' output
  bool agent_killed = false;            // one was, by a signal, while the others were at work
  int stood = 0;                        // of the others: still there two seconds later
  double again_s = -1;                  // until another agent was at work on its node; < 0: none came
  std::string again_said;               // the last line of that one's step
  std::string ports;                    // that the agents listened on: the site's, or those of Slurm's srun
};
std::vector<DoctorFact> facts_of_nodes(const DoctorOrder& order, const DoctorSights& sights);

// GPUs that a process can use, by the best witness that it has (look_at_place).
int gpus_seen(const Value& place);

}  // namespace longhaul
