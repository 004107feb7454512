#include "worker/launch/gpu_places.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// "Device Minor: \t 3" of the driver's file; "" where it has no such line.
std::string line_of(const std::string& information, const std::string& name) {
  for (const std::string& line : split(information, '\n'))
    if (starts_with(line, name + ":")) return trim(line.substr(name.size() + 1));
  return {};
}

std::string first_line(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() ? trim(text->substr(0, text->find('\n'))) : std::string();
}

}  // namespace

std::vector<GpuPlace> openable_gpus(const std::string& root) {
  std::vector<GpuPlace> gpus;
  const std::string folder = root + "/proc/driver/nvidia/gpus";
  const auto addresses = list_directory(folder);
  for (const std::string& address : addresses.ok() ? *addresses : std::vector<std::string>()) {
    const auto information = read_file(join_path(folder, address + "/information"));
    if (!information.ok()) continue;
    const std::string device = format("{}/dev/nvidia{}", root, line_of(*information, "Device Minor"));
    if (::access(device.c_str(), R_OK | W_OK) != 0) continue;  // its control group keeps the step from it
    GpuPlace gpu{address, line_of(*information, "GPU UUID"), -1, {}};
    const std::string at_bus = format("{}/sys/bus/pci/devices/{}", root, address);
    gpu.cpus = read_cpu_numbers(first_line(at_bus + "/local_cpulist"));
    const std::string node = first_line(at_bus + "/numa_node");
    (void)std::from_chars(node.data(), node.data() + node.size(), gpu.numa_node);
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const GpuPlace& a, const GpuPlace& b) { return a.address < b.address; });
  return gpus;
}

std::vector<GpuPlace> visible_gpus(const std::vector<GpuPlace>& gpus, const std::string& visible_devices) {
  if (trim(visible_devices).empty()) return gpus;
  std::vector<GpuPlace> visible;
  for (const std::string& part : split(visible_devices, ',')) {
    const std::string place = trim(part);
    const bool is_number =
        !place.empty() && place.find_first_not_of("0123456789") == std::string::npos && place.size() < 6;
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const GpuPlace& gpu) {
      if (is_number) return &gpu - gpus.data() == std::stol(place);
      return starts_with(place, "GPU-") && starts_with(gpu.uuid, place);
    });
    if (found == gpus.end()) return {};
    visible.push_back(*found);
  }
  return visible;
}

}  // namespace longhaul
