// A calibration as an ordinary run: a workflow of benchmarks and of tune stages, one for each model, whose candidates
// are the trainings to be timed; and what its folders say when it has ended. What is run and what is made of it is
// decided in autotune/calibrate.
#pragma once

#include <string>
#include <vector>

#include "autotune/calibrate/calibration.h"
#include "autotune/calibrate/calibration_plan.h"
#include "orchestrator/site/site_config.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {

// TOML. `corpus`: a folder with documents.jsonl (calibration_documents). Stages come one after the other, so that they
// do not measure each other.
std::string calibration_workflow(const CalibrationPlan& plan, const CalibrationSite& site, const std::string& name,
                                 const std::string& corpus);
// Text enough for a small vocabulary and some steps, always the same.
std::string calibration_documents();

struct CalibrationEvidence {
  SiteMeasurements measured;
  std::vector<std::string> set_aside;  // what was not measured, each with its name and why
};

// `constants`: what the trainings are laid out with; their times do not depend on it.
Result<CalibrationEvidence> read_calibration(const std::string& run_dir, const FrozenRun& run, const SiteConfig& site,
                                             const TimeConstants& constants, const CalibrationSite& asked);

}  // namespace longhaul
