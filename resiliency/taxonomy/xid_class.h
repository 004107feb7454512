// What an XID means: the number by which NVIDIA's driver reports an event of a GPU, in the kernel's log and through
// NVML (nvmlEventTypeXidCriticalError). Numbers and immediate actions are those of NVIDIA's XID catalogue; what follows
// from them here is ours: an application's error is restarted where it is, a device that needs a reset is left.
//
// A bare XID never names the guilty: 13, 31 and 43 are mostly a program's fault and sometimes a device's, so they speak
// against the host only at the second time; 45 follows other errors and is never a cause.
#pragma once

#include "resiliency/taxonomy/fault_class.h"

namespace longhaul {

struct XidInfo {
  int xid;
  FaultClass fault;
  const char* meaning;
  const char* action;  // the catalogue's immediate action
};
inline constexpr XidInfo xid_table[] = {
    {13, FaultClass::gpu_program, "graphics engine exception", "RESTART_APP"},
    {31, FaultClass::gpu_program, "MMU page fault", "RESTART_APP"},
    {43, FaultClass::gpu_program, "GPU stopped processing", "IGNORE"},
    {45, FaultClass::gpu_event, "preemptive removal of a channel; follows another error", "IGNORE"},
    {46, FaultClass::gpu_needs_reset, "GPU timeout", "RESET_GPU"},
    {48, FaultClass::gpu_memory_error, "double-bit ECC error", "WORKFLOW_XID_48"},
    {62, FaultClass::gpu_needs_reset, "internal micro-controller halt", "RESET_GPU"},
    {63, FaultClass::gpu_remap_pending, "row remapping event", "IGNORE"},
    {64, FaultClass::gpu_remap_failed, "row remapping failure", "RESET_GPU"},
    {74, FaultClass::nvlink, "NVLink error", "WORKFLOW_NVLINK"},
    {79, FaultClass::gpu_lost, "GPU has fallen off the bus", "RESTART_BM"},
    {92, FaultClass::gpu_memory_degrading, "high rate of single-bit ECC errors", "IGNORE"},
    {94, FaultClass::gpu_memory_contained, "contained memory error", "RESTART_APP"},
    {95, FaultClass::gpu_memory_error, "uncontained memory error", "RESET_GPU"},
    {109, FaultClass::gpu_needs_reset, "context switch timeout", "RESET_GPU"},
    {119, FaultClass::gpu_needs_reset, "GSP RPC timeout", "RESET_GPU"},
    {120, FaultClass::gpu_needs_reset, "GSP error", "RESET_GPU"},
    {121, FaultClass::gpu_event, "C2C link corrected error", "IGNORE"},
    {136, FaultClass::nvlink, "link training failed", "RESET_GPU"},
    {137, FaultClass::gpu_program, "NVLink access error of a peer's program", "WORKFLOW_XID_137"},
    {140, FaultClass::gpu_memory_error, "unrecovered ECC error", "RESET_GPU"},
    {143, FaultClass::gpu_needs_reset, "GPU initialisation error", "RESET_GPU"},
    {144, FaultClass::nvlink, "NVLink: SAW error", "SUBCODE"},
    {145, FaultClass::nvlink, "NVLink: RLW error", "SUBCODE"},
    {146, FaultClass::nvlink, "NVLink: TLW error", "SUBCODE"},
    {147, FaultClass::nvlink, "NVLink: TREX error", "SUBCODE"},
    {148, FaultClass::nvlink, "NVLink: NVLPW_CTRL error", "SUBCODE"},
    {149, FaultClass::nvlink, "NVLink: NETIR error", "SUBCODE"},
    {150, FaultClass::nvlink, "NVLink: MSE error", "SUBCODE"},
    {154, FaultClass::gpu_event, "recovery action changed; NVML says to which", "READ_RECOVERY_ACTION"},
    {155, FaultClass::nvlink, "NVLink: software-defined error", "RESET_GPU"},
    {156, FaultClass::nvlink, "resource retirement event", "RESET_GPU"},
    {158, FaultClass::nvlink, "NVLink fatal timeout", "RESET_GPU"},
};
const XidInfo* xid_info(int xid);  // nullptr: not in the table
FaultClass class_of_xid(int xid);  // gpu_event for those that are not in the table

// nvmlDeviceGetFieldValues, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (230): what the driver asks for. 0 is `none`.
FaultClass class_of_recovery_action(int action);

}  // namespace longhaul
