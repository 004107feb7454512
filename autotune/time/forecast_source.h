// What a forecast is made from: the less somebody measured, the wider its interval (StepTime::sigma).
#pragma once

#include <optional>
#include <string>

#include "autotune/hardware/gpu_type.h"

namespace longhaul {

enum class ForecastSource {
  measured_here,       // steps of this site's trainings, its calibration, or this machine's own processor
  measured_elsewhere,  // constants fitted to trainings that others published of this kind of device
  arithmetic,          // data sheets; shares of the peak borrowed from other devices
};

// As JSON has them.
constexpr const char* to_string(ForecastSource source) {
  switch (source) {
    case ForecastSource::measured_here: return "measured_here";
    case ForecastSource::measured_elsewhere: return "measured_elsewhere";
    case ForecastSource::arithmetic: return "arithmetic";
  }
  return "";
}
// What to_string() wrote; nullopt: anything else.
std::optional<ForecastSource> forecast_source_from(const std::string& name);

// For people: "from what was measured here".
constexpr const char* sentence_of(ForecastSource source) {
  switch (source) {
    case ForecastSource::measured_here: return "from what was measured here";
    case ForecastSource::measured_elsewhere: return "from what others measured of such devices";
    case ForecastSource::arithmetic: return "by arithmetic from data sheets: nothing of such devices was measured";
  }
  return "";
}

// Between which seconds 95 % of such cases lie, by the relative standard error of a forecast.
struct ForecastRange {
  double low = 0, high = 0;
};
constexpr ForecastRange forecast_range(double seconds, double sigma) {
  constexpr double deviations = 1.96;
  return {seconds / (1 + deviations * sigma), seconds * (1 + deviations * sigma)};
}
// "0.5 s (0.42 to 0.6, from what was measured here)"; no bounds without a sigma, and no source where it is not known.
std::string forecast_seconds_text(double seconds, double sigma, std::optional<ForecastSource> source);

// Without anything measured at the site.
constexpr ForecastSource source_of_constants(const GpuType& device) {
  return device.measured ? ForecastSource::measured_elsewhere : ForecastSource::arithmetic;
}

}  // namespace longhaul
