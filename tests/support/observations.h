// What of a fault is seen, as tests write it down (resiliency/taxonomy/verdict.h).
#pragma once

#include <string>

#include "base/text/text.h"
#include "resiliency/taxonomy/exit_class.h"
#include "resiliency/taxonomy/verdict.h"
#include "resiliency/taxonomy/xid_class.h"

namespace longhaul::testing {

inline Observation observe_exit(int rank, const std::string& host, int code, int signal_number, bool own_program,
                                std::int64_t at_ms = 0) {
  const FaultClass fault = signal_number != 0 ? class_of_signal(signal_number) : class_of_exit_code(code, own_program);
  const std::string how = signal_number != 0 ? format("killed by signal {}", signal_number)
                          : code == 0        ? std::string("ended well")
                                             : format("exit code {}", code);
  return {ObservationSource::exit, fault, rank, host, format("rank {} ended: {}", rank, how), at_ms};
}

inline Observation observe_xid(const std::string& host, int device, int xid, std::int64_t at_ms = 0) {
  const XidInfo* info = xid_info(xid);
  return {ObservationSource::health,
          class_of_xid(xid),
          -1,
          host,
          format("GPU {}: XID {} ({})", device, xid, info ? info->meaning : "not in the table"),
          at_ms};
}

inline Observation observe_scheduler(FaultClass fault, std::int64_t at_ms = 0) {
  return {ObservationSource::scheduler, fault, -1, "", format("the scheduler says {}", to_string(fault)), at_ms};
}

inline Observation observe_detector(FaultClass fault, int rank, const std::string& host, const std::string& what,
                                    std::int64_t at_ms = 0) {
  return {ObservationSource::detector, fault, rank, host, what, at_ms};
}

}  // namespace longhaul::testing
