// Files below a tune or search stage's folder, beside the rounds of its trials.
#pragma once

namespace longhaul {

inline constexpr const char* candidates_file_name = "candidates.json";  // found once, in the order of their prediction
// What arithmetic says of them (autotune/search/tuning_forecast.h), with the run's constants. Absent: nothing could be
// predicted.
inline constexpr const char* predictions_file_name = "predictions.json";
inline constexpr const char* trials_file_name = "trials.json";  // as they are known; written by name, replaced

}  // namespace longhaul
