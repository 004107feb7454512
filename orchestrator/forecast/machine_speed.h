// How fast ranks on this machine's processor are, for forecasts of trainings that run here. `longhaul-engine measure`
// times it once for each way to use the cores, in two seconds; what it found lies in RUNS/.machine, a file for each,
// and stands until the processor, the engine's program or its instruction set is another one. Whoever removes a file
// loses those two seconds.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autotune/hardware/constant_table.h"
#include "contracts/plan/processor_speed.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

inline constexpr const char* machine_folder_name = ".machine";

// Of the plan's trainings and servers on processors, each once.
std::vector<RankUse> processor_uses(const RunPlan& plan, const SiteConfig& site);

// What can be asked of the engine; replaced in tests.
struct MachineProbe {
  std::function<Result<ProcessorIdentity>()> identity;
  std::function<Result<ProcessorSpeed>(const RankUse&)> measure;  // empty: only what was measured before counts
};
// Starts `engine` and waits for it, with a deadline.
MachineProbe probe_with(const std::string& engine);

struct MachineSpeeds {
  std::string constants;          // TOML sections [processor.*] behind the others; "": everything is assumed
  std::vector<std::string> said;  // where the figures come from, and what was set aside; a line each
};

// Where ranks run on this machine, what is not known yet is measured. Where they run elsewhere only files that somebody
// left there are read (SITE-2x1-bf16.json): this machine would say nothing of them. A file that cannot be read, or that
// is of another machine or build, is renamed and named; nothing here keeps a forecast from being made.
MachineSpeeds machine_speeds(const std::string& runs_dir, const SiteConfig& site, const std::vector<RankUse>& uses,
                             const ConstantTable& assumed, const MachineProbe& probe);

}  // namespace longhaul
