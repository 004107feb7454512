// `longhaul-worker health`: one look at this host, for a Slurm prolog, a health check program, or a person; or one look
// after the other, for an agent or a lead (worker/protocol/node/health_watch.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"
#include "resiliency/health/host_health.h"

namespace longhaul {

struct HealthCommand {
  HostHealthOptions options;
  bool help = false;  // was asked for, and printed
  bool json = false;
  double watch_s = 0;    // between two looks; 0: one look
  bool measure = false;  // HostFigures before the first look
  bool job_pids =
      false;  // the owner reports on standard input which processes are the job's (worker/protocol/node/job_pids.h)
  std::vector<std::string> clean;  // folders of the node in which earlier jobs may have left something
  std::string state_dir;           // of the training whose copies there are not touched
};
// `arguments`: behind "health"; `--help` lists what there may be. invalid_input names an argument that may not.
Result<HealthCommand> parse_health_command(const std::vector<std::string>& arguments,
                                           std::vector<std::pair<std::string, std::string>> environment);

// Looks again and again: a line of JSON with what is new for each look ({"look": true, "gpus_watched": 4, "findings":
// [...]}; "gpus_hidden" says why none of those that are expected is seen), and one for what the GPU's driver reports in
// between, at once. Once, beside the looks, what earlier jobs have left is removed, and reported as {"removed":
// [{"path", "why", "bytes", "error"}]}. Until `write` says that nobody reads.
void watch_health(const HealthCommand& command, Clock& clock, const std::function<bool(const std::string&)>& write);

std::string health_text(const HealthFindings& findings, const std::string& host, std::size_t gpus);
Value health_value(const HealthFindings& findings, const std::string& host, std::size_t gpus);

}  // namespace longhaul
