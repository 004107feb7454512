// What simulated GPUs are to say so that a fault of a GPU happens (tests/support/fake_libraries/fake_nvml.cc plays it).
// A real driver cannot be made to report anything, so these faults are of nodes with simulated GPUs alone.
#pragma once

#include <cstdint>
#include <string>

#include "contracts/settings/job/named_fault.h"

namespace longhaul {

// Lines "SECONDS device N KEY VALUE", with seconds from now. xid: the driver's event, once. ecc_storm: XID 95, an
// uncontained memory error, and then for `lasts` counters that grow: a thousand corrected and eight uncorrected errors
// a second, at most sixty times. "" for other faults.
std::string gpu_fault_lines(const FaultRequest& fault, int device);
// Adds them to the script, with the time in place of the seconds. not_found: there is no such file.
Status append_to_gpu_script(const std::string& path, const std::string& lines, std::int64_t wall_ms);

}  // namespace longhaul
