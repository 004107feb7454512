// The few functions and structures of NVIDIA's management library that are used, in its public binary interface (the
// driver's nvml.h). Own declarations: neither headers nor the library are needed to build, and a host without a GPU
// runs the same program. Names end in those of the library.
#pragma once

namespace longhaul::nvml {

using Return = int;
inline constexpr Return success = 0, not_supported = 3, insufficient_size = 7, timeout = 10, gpu_is_lost = 15;

using Device = struct DeviceHandle*;
using EventSet = struct EventSetHandle*;

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct FieldValue {  // nvmlFieldValue_t
  unsigned field_id, scope_id;
  long long timestamp_us, latency_us;
  int value_type;
  Return result;
  union {
    double number;
    int signed_int;
    unsigned unsigned_int;
    unsigned long unsigned_long;
    unsigned long long unsigned_long_long;
    signed long long signed_long_long;
    unsigned short unsigned_short;
  } value;
};
struct Utilization {  // nvmlUtilization_t: per cent of the last sampling period
  unsigned gpu, memory;
};
enum ValueType { type_double, type_uint, type_ulong, type_ulonglong, type_slonglong, type_sint, type_ushort };
struct ProcessInfo {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct EventData {  // nvmlEventData_t of nvmlEventSetWait_v2
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(FieldValue) == 40 && sizeof(ProcessInfo) == 24 &&
              sizeof(EventData) == 32);

inline constexpr unsigned field_nvlink_crc_flit = 38, field_nvlink_crc = 45, field_nvlink_replay = 52,
                          field_nvlink_recovery = 59, field_recovery_action = 230;
inline constexpr unsigned long long event_double_bit_ecc = 0x2, event_xid = 0x8;

}  // namespace longhaul::nvml
