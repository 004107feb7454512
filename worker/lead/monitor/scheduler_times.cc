#include "worker/lead/monitor/scheduler_times.h"

#include <cstdlib>

#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {

SchedulerTimes parse_scheduler_times(const std::string& text) {
  SchedulerTimes times;
  times.srun_ports = slurm_port_range(text);
  for (const std::string& line : split(text, '\n')) {  // "KillWait                = 30 sec"
    const std::size_t sign = line.find('=');
    if (sign == std::string::npos) continue;
    const std::string key = trim(line.substr(0, sign));
    const double seconds = std::atof(trim(line.substr(sign + 1)).c_str());
    if (key == "KillWait") times.kill_wait_s = seconds;
    if (key == "SlurmdTimeout") times.slurmd_timeout_s = seconds;
  }
  return times;
}

Result<SchedulerTimes> scheduler_times(std::int64_t deadline_ms) {
  SpawnSpec scontrol;
  scontrol.argv = {"scontrol", "show", "config"};
  LH_TRY(const RunOutput said, run_captured(std::move(scontrol), deadline_ms));
  if (!said.status.success())
    return make_error(ErrorCode::unavailable, "scontrol: " + said.status.text() + " " + trim(said.err));
  return parse_scheduler_times(said.out);
}

}  // namespace longhaul
