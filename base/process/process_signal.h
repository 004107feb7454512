// A signal to a process of which a file says its number and when it began.
#pragma once

#include "base/error/result.h"
#include "base/process/process.h"

namespace longhaul {

// To this process and to no other that has its number by now: it is held by pidfd_open(2), looked at, and only then
// signalled (before Linux 5.3 its start time is compared just before). That it has ended is fine.
Status signal_process(const ProcessId& process, int number);

}  // namespace longhaul
