// `longhaul-worker health`: one look at this host, for a Slurm prolog, a health check program, or a person.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "resiliency/health/host_health.h"

namespace longhaul {

struct HealthCommand {
  HostHealthOptions options;
  bool json = false;
};
// Words behind "health": --json, --nvml PATH (or "none"), --gpus N, --folder PATH (may be repeated), --idle (no process
// may use a GPU), --check PROGRAM, --deadline SECONDS (of a folder, and of the check). invalid_input: another word.
Result<HealthCommand> parse_health_command(const std::vector<std::string>& words,
                                           std::vector<std::pair<std::string, std::string>> environment);

std::string health_text(const HealthFindings& findings, const std::string& host, std::size_t gpus);
Value health_value(const HealthFindings& findings, const std::string& host, std::size_t gpus);

}  // namespace longhaul
