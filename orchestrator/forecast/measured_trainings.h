// Step times that tune stages and pretrainings had at a site, kept beside its runs, so that what is predicted there
// later begins with them (autotune/time/measured_correction.h). Each stage leaves one file in RUNS/.measured; nobody
// changes it, and who removes one loses nothing but what it says. A ratio of measured over predicted belongs to the
// constants that predicted, so those of other constants are left out (but for sections [processor.*], machine_speed.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "autotune/trials/trial.h"
#include "base/files/folder_access.h"
#include "base/value/value.h"

namespace longhaul {

inline constexpr const char* measured_folder_name = ".measured";
inline constexpr int measured_max = 100;  // of one kind of device: the newest

struct MeasuredTraining {
  std::string name = {}, device = {};  // the device as LayoutRequest has it
  Likeness like = {};
  double predicted = 0, measured = 0;  // seconds of a step; predicted by constants alone
  std::string run = {}, stage = {};
  std::int64_t at_ms = 0;
};

struct MeasuredTrainings {
  std::vector<MeasuredTraining> trainings;  // newest first
  std::vector<std::string> set_aside;       // files that could not be read, and why
  // For SearchRequest::measured.
  std::vector<MeasuredRatio> of(const std::string& device) const;
  std::string newest_of(const std::string& device) const;  // the run that measured last; "": none
};

// Who measured them, and by which constants they were predicted.
struct MeasuringStage {
  std::string run, stage, site = {};
  std::string constants_text = {};
  std::int64_t at_ms = 0;
};
// `access`: to their folder. No file where there is no training. The same stage and time: the same file.
Status keep_measured(const std::string& runs_dir, const FolderAccess& access, const MeasuringStage& stage,
                     std::vector<MeasuredTraining> trainings);

// Those candidates that have a prediction, a likeness and a measurement. `seconds`: of each, 0 where it was not
// measured.
std::vector<MeasuredTraining> measured_trials(std::span<const Trial> candidates, std::span<const double> seconds,
                                              const std::string& device);

// What was kept of this site by these constants.
MeasuredTrainings load_measured(const std::string& runs_dir, const std::string& site,
                                const std::string& constants_text);

// As a run keeps it.
std::string measured_trainings_text(const MeasuredTrainings& measured);
// Nothing where the file is not there. corrupt: it is no such file.
Result<MeasuredTrainings> read_measured_trainings(const std::string& path);

}  // namespace longhaul
