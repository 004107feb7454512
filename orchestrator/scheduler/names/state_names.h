// Room orchestrator/scheduler/names
// Slurm's own names and messages as tables, from release 20.11 to 26.05.
// state_names.h has states of jobs, reason_names.h why a job waits, refusals.h why one was not accepted.
// It asks Slurm nothing: text comes in, a meaning goes out, so a new release of Slurm is a row in a table.
//
// Slurm's names for what becomes of a job, from 20.11 to 26.05, as one table. A name that a later release brings means
// that the job is alive: a job that is believed to have ended while Slurm goes on with it is submitted a second time,
// and one that has ended under an unknown name is found out by its record, by accounting, or when Slurm forgets it.
#pragma once

#include <span>
#include <string>

namespace longhaul {

struct SlurmStateName {
  const char* name;  // as squeue, sacct and scontrol write it
  const char* base;  // as SlurmJob::state has it
};
std::span<const SlurmStateName> slurm_state_names();

inline constexpr const char* unknown_slurm_state = "UNKNOWN";

// The base state of "CANCELLED by 0", "COMPLETING", "REQUEUE_HOLD", "OUT_OF_ME+", ...; UNKNOWN for a name that is not
// in the table.
std::string read_slurm_state(const std::string& text);

// Of base states.
bool is_ended_state(const std::string& base);

// The user that cancelled a job, of sacct's "CANCELLED by 1000"; -1: it does not say.
long long canceller_of(const std::string& text);

}  // namespace longhaul
