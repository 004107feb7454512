// What was found wrong with the hosts of a stage while it ran: the leads' events `health`, one entry for each host,
// class and device. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/events/event.h"

namespace longhaul {

struct HostWarning {
  std::string host;
  std::string fault_class;  // of resiliency/taxonomy/fault_table.h: "gpu_remap_pending", ...
  std::string device;       // "GPU 1", "/scratch"; "": the host itself
  std::string severity;     // "note" | "warning" | "error" | "fatal"
  std::string what;         // the newest, one sentence
  int times = 0;
  std::int64_t first_ms = 0, last_ms = 0;
};

// Adds what these events say to `warnings`, which stays in the order of the newest finding. Other events say nothing.
void add_host_warnings(const std::vector<Event>& events, std::vector<HostWarning>& warnings);

}  // namespace longhaul
