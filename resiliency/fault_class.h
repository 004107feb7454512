// What kind of fault ended a job: a small taxonomy that restart decisions are made over. Read off the record of the
// job; the fault injector's own log is never consulted.
#pragma once

#include <string>

#include "contracts/record.h"

namespace longhaul {

enum class FaultClass {
  none,         // ended well
  bad_input,    // the stage refused its input: trying again cannot help
  program,      // ended by itself with another exit code
  crash,        // a signal that a program raises by itself: SEGV, ABRT, BUS, FPE, ILL
  killed,       // SIGKILL from outside: out of memory, an administrator, a lost parent
  interrupted,  // was told to stop (SIGTERM) though nobody here asked: shutdown, preemption
  time_limit,   // passed the stage's own time limit
  disk_full,    // no space or quota left
  lost,         // the lead is gone and left no record: node or lead failure
  not_started,  // the job could not be started at all
  cancelled,    // we asked for it
};
const char* to_string(FaultClass fault);

// Exit codes of longhaul-engine for what it refuses: ErrorCode::invalid_input and ErrorCode::unsupported.
inline constexpr int engine_exit_invalid_input = 3;
inline constexpr int engine_exit_unsupported = 5;

// `own_program` is false for `command` stages, whose exit codes mean nothing to us.
FaultClass classify_end(const JobRecord& record, bool own_program);

}  // namespace longhaul
