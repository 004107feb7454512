// What kind of fault ended a job: a small taxonomy that restart decisions are made over. Read off the record of the
// job; the fault injector's own log is never consulted.
#pragma once

#include <string>

#include "contracts/record.h"

namespace longhaul {

enum class FaultClass {
  none,             // ended well
  bad_input,        // the stage refused its input: trying again cannot help
  program,          // ended by itself with another exit code
  crash,            // a signal that a program raises by itself: SEGV, ABRT, BUS, FPE, ILL
  killed,           // SIGKILL from outside: out of memory, an administrator, a lost parent
  interrupted,      // was told to stop (SIGTERM) though nobody here asked: shutdown, preemption
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
};
const char* to_string(FaultClass fault);
FaultClass fault_class_of(const std::string& text);  // program, when no class is named so

// Which budget pays for another try, and what has to be different then.
enum class FaultGroup {
  none,            // nothing to try again
  hopeless,        // trying again cannot help
  application,     // the program's own fault, or of unknown cause: the user's `retries`
  infrastructure,  // node, boot, launch: a budget of its own, suspects excluded
  preemption,      // nobody's fault
  wall_time,       // goes on where it stopped, as long as it gets further
  memory,          // not the same way twice
};
FaultGroup group_of(FaultClass fault);

// Exit codes of longhaul-engine for what it refuses: ErrorCode::invalid_input and ErrorCode::unsupported.
inline constexpr int engine_exit_invalid_input = 3;
inline constexpr int engine_exit_unsupported = 5;

// `own_program` is false for `command` stages, whose exit codes mean nothing to us.
FaultClass classify_end(const JobRecord& record, bool own_program);

}  // namespace longhaul
