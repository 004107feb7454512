// Room autotune/calibrate
// The constants of the time model for one site, fitted to what was timed there.
// calibration_plan.h chooses short runs, calibration.h evaluates them, constant_fit.h is the least-squares fit.
// processor_constants.h does the same for ranks on a processor, from two seconds of measurement.
// It neither searches layouts nor starts runs: a calibration is carried out by orchestrator/trials.
//
// The time model's constants of a site from what was timed there: rates that benchmarks show directly, and shares and
// latencies that are fitted to short trainings and to the benchmarks' products and messages together. Pure.
#pragma once

#include <string>
#include <vector>

#include "autotune/calibrate/constant_fit.h"

namespace longhaul {

// A rate as a benchmark shows it: the best that was reached.
struct MeasuredRate {
  std::string path;  // "gpu.cpu-core.peak_bf16"
  double value = 0;  // in the unit of the constants' file
};

struct SiteMeasurements {
  std::vector<TimedRun> trainings;  // steps
  std::vector<TimedRun> parts;      // products and messages
  std::vector<MeasuredRate> rates;
};

struct CalibratedConstant {
  std::string path, unit;
  double before = 0, after = 0;
  double left = 0;       // as FitReport has it; 0: a rate that was measured
  bool unknown = false;  // the runs do not determine it: it stays as it was
};

struct CalibratedRun {
  std::string name;
  double measured = 0, before = 0, after = 0;  // s
  double left_out = 0;                         // s: by constants fitted without it; 0: not a training
};

// Relative errors of predictions, without sign.
struct PredictionError {
  double mean = 0, largest = 0;
  double deviation = 0;  // root of the mean square
};

struct Calibration {
  std::vector<CalibratedConstant> constants;
  std::vector<CalibratedRun> trainings, parts;
  int evaluations = 0;
};
PredictionError prediction_error(const std::vector<CalibratedRun>& runs, double CalibratedRun::* predicted);

// A constant whose standard deviation the runs reduce by less than a fifth is left where it was.
inline constexpr double left_to_know = 0.8;
inline constexpr int trainings_min = 3;

// What a calibration of ranks on processors fits: in [common-cpu], [gpu.cpu-core] and [framework.longhaul-cpu], from
// where `table` has them.
Result<std::vector<FitParameter>> processor_parameters(const ConstantTable& table);

// Leaves in `table` the constants of the site, each with `source`; also the spread of its predictions, which is what
// the trainings show that were left out one by one, and that this device was measured. invalid_input: fewer than
// trainings_min trainings; as fit_constants.
Result<Calibration> calibrate(ConstantTable& table, const SiteMeasurements& measured,
                              std::span<const FitParameter> parameters, const std::string& source);

// A file of constants: what `calibration` has changed, by section, each with unit and source. `head`: lines of comment.
std::string calibrated_constants_text(const ConstantTable& table, const Calibration& calibration,
                                      const std::vector<std::string>& head);

}  // namespace longhaul
