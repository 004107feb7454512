#include "orchestrator/slurm_helper/task_variables.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/text.h"

namespace longhaul {

std::string tres_per_task(std::uint32_t cpus, const std::string& gpus) {
  std::vector<std::string> parts;
  if (cpus > 0) parts.push_back(format("cpu={}", cpus));
  if (gpus.empty()) return join(parts, ",");
  for (const std::string& gpu : split(gpus, ',')) {
    const std::size_t colon = gpu.rfind(':');
    parts.push_back(colon == std::string::npos ? "gres/gpu=" + gpu
                                               : format("gres/gpu:{}={}", gpu.substr(0, colon), gpu.substr(colon + 1)));
  }
  return join(parts, ",");
}

std::vector<std::string> launcher_variables(const std::vector<std::string_view>& environment, bool hydra) {
  std::vector<std::string> made;
  const auto value_of = [&](const std::string& name) -> std::optional<std::string_view> {
    for (const std::string_view entry : environment)
      if (starts_with(entry, name + "=")) return entry.substr(name.size() + 1);
    return std::nullopt;
  };
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value_of(name)) made.push_back(name + "=" + value);
  };
  add("OMPI_MCA_plm_slurm_args", "--external-launcher");
  add("PRTE_MCA_plm_slurm_args", "--external-launcher");
  for (const auto& [bootstrap, arguments] :
       {std::pair{"HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXTRA_ARGS"},
        std::pair{"I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"}}) {
    const auto chosen = value_of(bootstrap);
    if (chosen ? *chosen != "slurm" : !hydra) continue;
    add(bootstrap, "slurm");
    add(arguments, "--external-launcher");
  }
  return made;
}

ExportOption parse_export(const std::string& option) {
  ExportOption made;
  made.everything = option.empty() || option == "ALL" || option == "all";
  if (made.everything || option == "NONE") return made;
  for (const std::string& name : split(option, ',')) {
    const std::size_t equals = name.find('=');
    if (name == "ALL") {
      made.all = true;
    } else if (equals != std::string::npos) {
      made.set[name.substr(0, equals)] = name.substr(equals + 1);
    } else if (!name.empty()) {
      made.named.push_back(name + "=");
    }
  }
  return made;
}

bool ExportOption::inherits(const std::string& entry) const {
  if (everything) return true;
  if (set.contains(entry.substr(0, entry.find('=')))) return false;
  if (all || starts_with(entry, "SLURM_") || starts_with(entry, "SPANK_")) return true;
  return std::any_of(named.begin(), named.end(), [&](const std::string& name) { return starts_with(entry, name); });
}

}  // namespace longhaul
