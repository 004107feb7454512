#include "resiliency/inject/gpu_script.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

std::string gpu_fault_lines(const FaultRequest& fault, int device) {
  if (fault.name == "xid") return format("0 device {} xid {}\n", device, fault.xid);
  if (fault.name != "ecc_storm") return {};
  constexpr double corrected_per_s = 1000, uncorrected_per_s = 8, steps_max = 60;
  std::string lines = format("0 device {} xid 95\n", device);
  const double steps = std::clamp(std::ceil(fault.lasts.value), 1.0, steps_max);
  const double every_s = fault.lasts.value / steps;
  for (int step = 0; step < static_cast<int>(steps); ++step) {
    const double at_s = every_s * step;
    lines += format("{:.3f} device {} corrected +{:.0f}\n", at_s, device, std::ceil(corrected_per_s * every_s));
    lines += format("{:.3f} device {} uncorrected +{:.0f}\n", at_s, device, std::ceil(uncorrected_per_s * every_s));
  }
  return lines;
}

Status append_to_gpu_script(const std::string& path, const std::string& lines, std::int64_t wall_ms) {
  if (path.empty() || !file_exists(path))
    return make_error(ErrorCode::not_found,
                      "there is no script of simulated GPUs" + (path.empty() ? "" : " at " + path),
                      "FAKE_NVML_SCRIPT names it in job.environment");
  std::string text;
  for (const std::string& line : split(lines, '\n')) {
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    const double at_s = static_cast<double>(wall_ms) * 1e-3 + std::atof(line.substr(0, space).c_str());
    text += format("on {:.3f}{}\n", at_s, line.substr(space));
  }
  return append_file_synced(path, text);
}

}  // namespace longhaul
