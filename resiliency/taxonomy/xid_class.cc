#include "resiliency/taxonomy/xid_class.h"

namespace longhaul {

const XidInfo* xid_info(int xid) {
  for (const XidInfo& info : xid_table)
    if (info.xid == xid) return &info;
  return nullptr;
}

FaultClass class_of_xid(int xid) {
  const XidInfo* info = xid_info(xid);
  return info ? info->fault : FaultClass::gpu_event;
}

FaultClass class_of_recovery_action(int action) {
  switch (action) {
    case 0: return FaultClass::none;
    case 1: return FaultClass::gpu_needs_reset;   // GPU_RESET
    case 2: return FaultClass::gpu_needs_reboot;  // NODE_REBOOT
    case 3: return FaultClass::nvlink;            // DRAIN_P2P
    case 4: return FaultClass::gpu_needs_reset;   // DRAIN_AND_RESET
    case 5: return FaultClass::nvlink;            // recover the IMEX domain
    default: return FaultClass::gpu_needs_reset;  // a newer driver's: not healthy, whatever it asks for
  }
}

}  // namespace longhaul
