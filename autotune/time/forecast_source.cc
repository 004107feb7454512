#include "autotune/time/forecast_source.h"

#include "base/text/text.h"

namespace longhaul {

std::optional<ForecastSource> forecast_source_from(const std::string& name) {
  for (const ForecastSource one :
       {ForecastSource::measured_here, ForecastSource::measured_elsewhere, ForecastSource::arithmetic})
    if (name == to_string(one)) return one;
  return std::nullopt;
}

std::string forecast_seconds_text(double seconds, double sigma, std::optional<ForecastSource> source) {
  std::vector<std::string> parts;
  const ForecastRange range = forecast_range(seconds, sigma);
  if (sigma > 0) parts.push_back(format("{:.3g} to {:.3g}", range.low, range.high));
  if (source) parts.emplace_back(sentence_of(*source));
  return format("{:.4g} s", seconds) + (parts.empty() ? std::string() : " (" + join(parts, ", ") + ")");
}

}  // namespace longhaul
