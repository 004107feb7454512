// What the end of a process says.
#pragma once

#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

// Codes that programs of others use as well, so they hold for `command` stages too.
inline constexpr int exit_no_retry = 93;           // nvidia-resiliency-ext, --ft-no-restart-exit-code
inline constexpr int exit_rerun_to_compare = 16;   // Megatron-LM, core/rerun_state_machine.py: resume to disambiguate
inline constexpr int exit_failed_validation = 17;  // the same: failed on result validation

// `own_program`: longhaul-engine, whose other codes mean something. A code above 128 is a shell's or a launcher's way
// of reporting a signal.
FaultClass class_of_exit_code(int code, bool own_program);
FaultClass class_of_signal(int signal_number);  // `none` for 0

}  // namespace longhaul
