// Room worker/doctor
// `longhaul doctor --job` from inside its job: what nodes, network and Slurm really offer.
// job_look.h runs on the first node; node_look.h on every node; pair_checks.h between nodes.
// node_facts.h and slurm_facts.h make sentences of what was seen, without asking anything.
// It knows neither lead nor agent of a training: its job trains nothing.
//
// A doctor's job, from inside: on its first node it asks Slurm, starts one agent a node and the ranks beside them, and
// writes down the facts as they come (contracts/records/doctor.h). Then it waits to be cancelled, so that whoever asked
// sees how long that takes. Every part has a deadline, and what does not come about is a fact as well: the whole is
// over within five minutes.
#pragma once

#include <atomic>
#include <string>

#include "base/error/result.h"
#include "base/process/log.h"
#include "base/system/clock.h"
#include "contracts/records/doctor.h"
#include "worker/launch/rank_arguments.h"

namespace longhaul {

// On the first node. `stop`: set by SIGTERM; it then ends at once.
Status look_at_job(const DoctorOrder& order, const std::string& worker_program, const Variable& variable,
                   const std::atomic<bool>& stop, Clock& clock, Logger& log);

// One process of a step: "agent", "rank", or "stubborn", which ignores SIGTERM for two minutes.
Status look_as(const std::string& role, const DoctorOrder& order, const Variable& variable, Clock& clock);

}  // namespace longhaul
