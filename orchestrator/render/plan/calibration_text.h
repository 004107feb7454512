// What a calibration has shown, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "autotune/calibrate/calibration.h"
#include "base/value/value.h"

namespace longhaul {

// Predicted before, predicted after and measured of every training and part, errors before, after and left out, the
// constants, and what was set aside.
std::string calibration_text(const Calibration& calibration, const std::vector<std::string>& set_aside);
// "mean 41.2 %, largest 80.1 %": of the trainings.
std::string prediction_error_text(const std::vector<CalibratedRun>& runs, double CalibratedRun::* predicted);
Value calibration_value(const Calibration& calibration, const std::vector<std::string>& set_aside);

}  // namespace longhaul
