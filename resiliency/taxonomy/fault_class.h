// What kinds of faults there are. Restart decisions, reports and budgets are made over these names; everything that is
// known of a class (severity, scope, who pays, what cures it) stands in one table, resiliency/taxonomy/fault_table.h.
// The fault injector's own log is never consulted.
#pragma once

#include <string>

#include "contracts/records/record.h"

namespace longhaul {

// Names stand in logs and events, values do not: new classes may be added anywhere.
enum class FaultClass {
  none,             // ended well
  bad_input,        // the stage refused its input: trying again cannot help
  program,          // ended by itself with another exit code
  crash,            // a signal that a program raises by itself: SEGV, ABRT, BUS, FPE, ILL
  killed,           // SIGKILL from outside: out of memory, an administrator, a lost parent
  interrupted,      // was asked to stop (SIGTERM) though nobody here asked: shutdown, preemption
  time_limit,       // passed the stage's own time limit
  disk_full,        // no space or quota left
  lost,             // the lead is gone and left no record: node or lead failure
  not_started,      // the job could not be started at all
  wall_time,        // the job's wall time was over; what keeps checkpoints goes on in the next job
  node_fail,        // the scheduler says that a node of the job failed
  boot_fail,        // a node of the job did not boot
  launch_failed,    // the scheduler could not start the job's script
  preempted,        // another job needed the nodes
  out_of_memory,    // the kernel or the scheduler ended it for its use of memory
  cancelled_there,  // cancelled in the scheduler, not through us: somebody meant it
  cancelled,        // we asked for it
  // What the program says of itself.
  no_retry,           // exit code 93: do not run this again
  rerun_to_compare,   // exit code 16: run again, so that a wrong result can be distinguished from a right one
  failed_validation,  // exit code 17: a result did not pass its validation
  exception,          // ended by an error that it printed
  cannot_execute,     // the program or a library of it is not there
  gpu_program,        // wrong memory access or assertion in a kernel
  checkpoint_unreadable,
  port_in_use,
  ranks_not_started,  // the launcher could not start ranks on a node
  // What the heartbeats say.
  frozen,            // stopped from outside, or waiting for a disk for good
  hang,              // one rank stands still outside of a collective
  stuck_collective,  // ranks wait in a collective that does not end
  desynchronised,    // ranks are in different collectives
  no_progress,       // beats, but no step is completed
  slow_rank,
  loss_nan,
  loss_spike,
  silent_corruption,  // the same computation gave other bits
  // Communication.
  nccl_error,
  nccl_timeout,
  mpi_error,
  connection_lost,  // a peer closed the connection; nearly always the echo of another fault
  host_unreachable,
  agent_lost,
  nic_down,
  nic_flap,
  nvlink,
  nvlink_errors,
  // GPUs.
  gpu_lost,
  gpu_needs_reset,
  gpu_needs_reboot,
  gpu_driver,
  gpu_memory_error,
  gpu_memory_contained,
  gpu_memory_degrading,
  gpu_remap_pending,
  gpu_remap_failed,
  gpu_slowed,
  gpu_in_use,
  gpu_event,
  // Hosts and what they share.
  file_system,
  disk_low,
  shm_full,
  memory_low,
  clock_skew,
  environment,
  site_check,
  slow_host,      // slower than the other hosts when it was measured before the first launch
  health_silent,  // the checks of a host do not come back
};
const char* to_string(FaultClass fault);
FaultClass fault_class_of(const std::string& text);  // program, when no class is named so

// Which budget pays for another try, and what has to be different then.
enum class FaultGroup {
  none,            // nothing to try again
  hopeless,        // trying again cannot help
  application,     // the program's own fault, or of unknown cause: the user's `retries`
  infrastructure,  // node, GPU, network, launch: a budget of its own, suspects excluded
  preemption,      // nobody's fault
  wall_time,       // goes on where it stopped, as long as it gets further
  memory,          // not the same way twice
  validation,      // a result that may be wrong is computed once more, elsewhere where possible
};
const char* to_string(FaultGroup group);
FaultGroup group_of(FaultClass fault);

// Exit codes of longhaul-engine for what it refuses: ErrorCode::invalid_input and ErrorCode::unsupported.
inline constexpr int engine_exit_invalid_input = 3;
inline constexpr int engine_exit_unsupported = 5;

// The class of a whole job's end, read off its record. `own_program` is false for `command` stages, whose exit codes
// mean nothing to us but for those that taxonomy/exit_class.h calls agreed on.
FaultClass classify_end(const JobRecord& record, bool own_program);

}  // namespace longhaul
