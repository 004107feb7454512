// Room resiliency/taxonomy
// What kinds of faults there are, how one verdict is reached, and which restart follows.
// fault_class.h has the names, fault_table.h everything known of each; verdict.h chooses among observations.
// log_line.h, log_root.h, xid_class.h and exit_class.h read evidence; restart_tier.h chooses the restart.
// It does not know who has observed a fault: detectors and health lie beside or above it; what the end of a whole job
// means is orchestrator/decide's.
//
// The one table of fault classes: what each is, how bad, what it belongs to, which budget pays for another try, the
// cheapest tier that can cure it, whether it speaks against the host, and what a person should do. `longhaul faults`
// and docs/reference/faults.md print it; tests go through it row by row.
//
// Sources of the judgements: XIDs, NVIDIA's XID catalogue (taxonomy/xid_class.h); exit codes 16, 17 and 93, the
// conventions of Megatron-LM's rerun state machine and of nvidia-resiliency-ext (taxonomy/exit_class.h); states, the
// manual of Slurm (orchestrator/decide/job_end.cc).
#pragma once

#include <array>
#include <cstddef>

#include "resiliency/taxonomy/accusation.h"
#include "resiliency/taxonomy/fault_class.h"
#include "resiliency/taxonomy/fault_scope.h"
#include "resiliency/taxonomy/restart_tier.h"

namespace longhaul {

enum class FaultSeverity {
  note,     // for the record
  warning,  // training goes on; somebody should look, or the next restart should avoid the host
  error,    // ends a launch; a restart may cure it
  fatal,    // no restart cures it
};
constexpr const char* to_string(FaultSeverity severity) {
  switch (severity) {
    case FaultSeverity::note: return "note";
    case FaultSeverity::warning: return "warning";
    case FaultSeverity::error: return "error";
    case FaultSeverity::fatal: return "fatal";
  }
  return "unknown";
}

struct FaultInfo {
  FaultClass fault;
  const char* name;  // stands in logs and events: do not rename
  FaultSeverity severity;
  FaultScope scope;
  FaultGroup group;
  RestartTier tier;  // the cheapest that can cure it; history and capabilities may ask for a dearer one
  Accusation accuses;
  const char* meaning;
  const char* remedy;  // for a person
};

namespace fault_table_rows {
using enum FaultSeverity;
using F = FaultClass;
using S = FaultScope;
using G = FaultGroup;
using T = RestartTier;
using A = Accusation;

// clang-format off
inline constexpr FaultInfo rows[] = {
    {F::none, "none", note, S::job, G::none, T::skip, A::never, "ended well", "nothing"},
    {F::bad_input, "bad_input", fatal, S::user, G::hopeless, T::stop, A::never,
     "the stage refused its input or settings", "correct what the message names"},
    {F::program, "program", error, S::user, G::application, T::in_job, A::never,
     "the program ended by itself with an exit code", "read the end of its log: `longhaul logs`"},
    {F::crash, "crash", error, S::rank, G::application, T::in_job, A::doubtful,
     "a signal that a program raises by itself: SEGV, ABRT, BUS, FPE, ILL", "look at the stack in the rank's log"},
    {F::killed, "killed", error, S::rank, G::application, T::in_job, A::doubtful,
     "SIGKILL from outside: an administrator, a lost parent, the kernel", "ask the site who ended it"},
    {F::interrupted, "interrupted", error, S::job, G::application, T::in_job, A::never,
     "asked to stop (SIGTERM, SIGINT, SIGHUP) though nobody here asked", "ask the site who ended it"},
    {F::time_limit, "time_limit", fatal, S::user, G::hopeless, T::stop, A::never,
     "passed the stage's own time limit, or the job's deadline", "raise `time_limit`"},
    {F::disk_full, "disk_full", error, S::job, G::application, T::in_job, A::never,
     "no space or quota left", "make room (`longhaul gc`), or ask for more quota"},
    {F::lost, "lost", error, S::job, G::application, T::new_job, A::never,
     "the lead is gone and left no record", "look at the job in the scheduler"},
    {F::not_started, "not_started", error, S::job, G::application, T::new_job, A::never,
     "the job could not be started at all", "the cause says what the scheduler answered"},
    {F::wall_time, "wall_time", note, S::job, G::wall_time, T::new_job, A::never,
     "the job's wall time is over", "nothing: the next job goes on from the checkpoint"},
    {F::node_fail, "node_fail", error, S::host, G::infrastructure, T::swap, A::sure,
     "the scheduler says that a node failed", "report the node to the site"},
    {F::boot_fail, "boot_fail", error, S::host, G::infrastructure, T::new_job, A::sure,
     "a node of the job did not boot", "report the node to the site"},
    {F::launch_failed, "launch_failed", error, S::host, G::infrastructure, T::new_job, A::sure,
     "the scheduler could not start the job's script", "report the node to the site"},
    {F::preempted, "preempted", note, S::job, G::preemption, T::new_job, A::never,
     "another job needed the nodes", "nothing, or a class of jobs that is not preempted"},
    {F::out_of_memory, "out_of_memory", error, S::host, G::memory, T::new_job, A::sure,
     "ended for its use of memory, on the host or on the GPU", "more nodes, more memory, smaller batches"},
    {F::cancelled_there, "cancelled_there", note, S::user, G::none, T::stop, A::never,
     "cancelled in the scheduler, not through longhaul", "`longhaul resume` tries it again"},
    {F::cancelled, "cancelled", note, S::user, G::none, T::stop, A::never,
     "cancelled through longhaul", "`longhaul resume` goes on"},

    {F::no_retry, "no_retry", fatal, S::user, G::hopeless, T::stop, A::never,
     "exit code 93: the program asks not to be run again", "its log says why"},
    {F::rerun_to_compare, "rerun_to_compare", error, S::gpu, G::validation, T::swap, A::doubtful,
     "exit code 16: a result is doubted, and another run has to show whether it was right", "nothing at the first"},
    {F::failed_validation, "failed_validation", error, S::gpu, G::validation, T::swap, A::doubtful,
     "exit code 17: a result did not pass its validation", "test the GPU of the rank that said so"},
    {F::exception, "exception", error, S::user, G::application, T::in_job, A::never,
     "ended by an error that it printed", "correct the program or what it read; the cause has the text"},
    {F::cannot_execute, "cannot_execute", error, S::user, G::application, T::in_job, A::never,
     "the program, or a library that it needs, is not there", "check path, modules and container"},
    {F::gpu_program, "gpu_program", error, S::rank, G::application, T::in_job, A::doubtful,
     "a wrong memory access or an assertion in a kernel (XID 13, 31, 43)", "run it under compute-sanitizer"},
    {F::checkpoint_unreadable, "checkpoint_unreadable", error, S::job, G::application, T::in_job, A::never,
     "a checkpoint or a shard of it is damaged", "the one before it is tried; look at the file system"},
    {F::port_in_use, "port_in_use", error, S::host, G::infrastructure, T::in_job, A::never,
     "another process listens on the port", "look for processes that an earlier job left"},
    {F::ranks_not_started, "ranks_not_started", error, S::host, G::infrastructure, T::in_job, A::doubtful,
     "the launcher could not start ranks on a node", "look at slurmd, or the launcher's daemon, of the node it names"},

    {F::frozen, "frozen", error, S::rank, G::infrastructure, T::in_job, A::doubtful,
     "a process was stopped, or waits for a disk for good", "look at the process's state on its host"},
    {F::hang, "hang", error, S::rank, G::application, T::in_job, A::doubtful,
     "one rank stands still outside of a collective", "its stack in the dump says where"},
    {F::stuck_collective, "stuck_collective", error, S::job, G::application, T::in_process, A::doubtful,
     "all ranks wait in collectives that do not end, and nobody stands outside of them",
     "look at links and NICs; the stacks say in which call each rank stands"},
    {F::desynchronised, "desynchronised", error, S::rank, G::application, T::in_job, A::never,
     "ranks are in different collectives", "the program's ranks took different branches: compare their stacks"},
    {F::no_progress, "no_progress", error, S::job, G::application, T::in_job, A::never,
     "ranks beat, and no step is completed", "look at the section that they are in"},
    {F::slow_rank, "slow_rank", warning, S::host, G::none, T::swap, A::doubtful,
     "a rank is slower than its peers in sections without communication", "test the host; it is avoided if it stays so"},
    {F::loss_nan, "loss_nan", error, S::job, G::application, T::skip, A::never,
     "the loss is not a number", "lower the learning rate; look at the batch that was skipped"},
    {F::loss_spike, "loss_spike", warning, S::job, G::application, T::skip, A::never,
     "the loss jumped", "look at the batch, if it comes again"},
    {F::silent_corruption, "silent_corruption", error, S::gpu, G::infrastructure, T::swap, A::sure,
     "the same computation gave other bits", "take the GPU out of service and report it"},

    {F::nccl_error, "nccl_error", error, S::link, G::infrastructure, T::in_process, A::doubtful,
     "NCCL reports an error of a network, a device or the system", "look at NICs and links of the host"},
    {F::nccl_timeout, "nccl_timeout", error, S::job, G::application, T::in_process, A::never,
     "a collective passed its deadline: another rank did not come", "look for the rank that is behind"},
    {F::mpi_error, "mpi_error", error, S::job, G::application, T::in_job, A::never,
     "MPI reports an error and ends the ranks", "the cause has MPI's text"},
    {F::connection_lost, "connection_lost", error, S::link, G::infrastructure, T::in_process, A::never,
     "a peer closed the connection; nearly always the echo of another fault", "look for the first fault"},
    {F::host_unreachable, "host_unreachable", error, S::host, G::infrastructure, T::swap, A::sure,
     "nothing is heard of a host any more", "report the node to the site"},
    {F::agent_lost, "agent_lost", warning, S::host, G::none, T::skip, A::never,
     "the agent of a host is gone; its ranks go on", "nothing: it is started again"},
    {F::nic_down, "nic_down", error, S::link, G::infrastructure, T::swap, A::sure,
     "a port that was in use is down", "report the port to the site"},
    {F::nic_flap, "nic_flap", warning, S::link, G::none, T::swap, A::doubtful,
     "a port went down and came back", "report cable or transceiver, if it comes again"},
    {F::nvlink, "nvlink", error, S::link, G::infrastructure, T::swap, A::sure,
     "an NVLink failed (XID 74, 136, 145 to 150, 155, 156, 158)", "check both ends of the link"},
    {F::nvlink_errors, "nvlink_errors", warning, S::link, G::none, T::skip, A::never,
     "an NVLink has many checksum errors, which it corrects", "check both ends of the link, if it comes again"},

    {F::gpu_lost, "gpu_lost", error, S::gpu, G::infrastructure, T::swap, A::sure,
     "a GPU fell off the bus (XID 79), or is not there", "the host needs a cold restart: report it"},
    {F::gpu_needs_reset, "gpu_needs_reset", error, S::gpu, G::infrastructure, T::swap, A::sure,
     "a GPU stopped answering (XID 46, 62, 109, 119, 120, 143)", "reset the GPU; restart the host if that fails"},
    {F::gpu_needs_reboot, "gpu_needs_reboot", error, S::host, G::infrastructure, T::swap, A::sure,
     "the driver asks for a restart of the host", "drain and restart the host"},
    {F::gpu_driver, "gpu_driver", error, S::host, G::infrastructure, T::swap, A::sure,
     "the GPU's driver does not work, or does not match its library", "the site has to finish its driver update"},
    {F::gpu_memory_error, "gpu_memory_error", error, S::gpu, G::infrastructure, T::swap, A::sure,
     "an uncorrectable error of the GPU's memory (XID 48, 95, 140)", "reset the GPU; report it if it comes again"},
    {F::gpu_memory_contained, "gpu_memory_contained", error, S::gpu, G::infrastructure, T::in_job, A::doubtful,
     "an uncorrectable memory error that hit one process only (XID 94)", "nothing at the first"},
    {F::gpu_memory_degrading, "gpu_memory_degrading", warning, S::gpu, G::none, T::skip, A::never,
     "many corrected memory errors (XID 92), many remapped rows, or uncorrected errors of the past", "watch it; report it if it grows"},
    {F::gpu_remap_pending, "gpu_remap_pending", warning, S::gpu, G::none, T::skip, A::never,
     "a memory row is remapped at the next reset of the GPU (XID 63)", "reset the GPU at the next gap"},
    {F::gpu_remap_failed, "gpu_remap_failed", error, S::gpu, G::infrastructure, T::swap, A::sure,
     "a memory row could not be remapped (XID 64)", "the GPU has to be replaced: report it"},
    {F::gpu_slowed, "gpu_slowed", warning, S::gpu, G::none, T::swap, A::doubtful,
     "a GPU's clock is held down: by heat, by power, or without a reason", "check cooling and power of the host"},
    {F::gpu_in_use, "gpu_in_use", warning, S::gpu, G::none, T::in_job, A::doubtful,
     "a process that is not ours uses the GPU", "ask the site to clear what an earlier job left"},
    {F::gpu_event, "gpu_event", note, S::gpu, G::none, T::skip, A::never,
     "something that needs nothing: an event of the driver, also one that is not in our table; power at its limit",
     "nothing"},

    {F::file_system, "file_system", error, S::host, G::infrastructure, T::swap, A::doubtful,
     "a file system does not answer, or answers with errors", "look whether other hosts reach it"},
    {F::disk_low, "disk_low", warning, S::host, G::none, T::skip, A::never,
     "little space or few inodes are left", "make room: `longhaul gc`"},
    {F::shm_full, "shm_full", error, S::host, G::infrastructure, T::in_job, A::doubtful,
     "/dev/shm has no room", "remove what earlier jobs left there"},
    {F::memory_low, "memory_low", warning, S::host, G::none, T::skip, A::never,
     "the host is short of memory", "fewer workers, smaller buffers"},
    {F::clock_skew, "clock_skew", warning, S::host, G::none, T::skip, A::never,
     "the host's clock is off", "the site has to look at its time service"},
    {F::environment, "environment", warning, S::user, G::none, T::skip, A::never,
     "an inherited variable slows down or changes what runs", "unset it, or say in the workflow that it is meant"},
    {F::site_check, "site_check", error, S::host, G::infrastructure, T::swap, A::sure,
     "the site's own check refused the host", "its message says why"},
    {F::slow_host, "slow_host", warning, S::host, G::none, T::swap, A::doubtful,
     "a host was slower than the others before the first launch", "test the host; it is avoided while spares are there"},
    {F::health_silent, "health_silent", warning, S::host, G::none, T::skip, A::never,
     "the checks of a host do not come back", "look at the GPU's driver and the file systems of the host"},
};
// clang-format on

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(rows); ++i)
    if (static_cast<std::size_t>(rows[i].fault) != i) return false;
  return true;
}
static_assert(in_order(), "rows stand in the order of FaultClass, one for each");
}  // namespace fault_table_rows

inline constexpr const auto& fault_table = fault_table_rows::rows;
inline constexpr std::size_t fault_class_count = std::size(fault_table);
static_assert(static_cast<std::size_t>(FaultClass::health_silent) + 1 == fault_class_count, "a class without a row");

constexpr const FaultInfo& info_of(FaultClass fault) {
  return fault_table[static_cast<std::size_t>(fault)];
}

}  // namespace longhaul
