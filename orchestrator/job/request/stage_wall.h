// How long a stage on processors will take, and from that the wall time of its job where nobody has set one: a job that
// asks for an hour starts sooner than one that asks for three days, and costs less where something hangs. Pure but for
// the sizes of raw input, which are handed in.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/site/site_config.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// The wall time is the forecast times this, and at least `forecast_wall_min_s`. Rates are those of docs/benchmarks.md,
// of one machine: the factor leaves room for processors and file systems that are several times slower. A job whose
// time is over all the same is tried again with the time of its class.
inline constexpr double forecast_wall_factor = 10;
inline constexpr double forecast_wall_min_s = 3600;
// What such work costs lies between the forecast divided by this and times this: other processors are some times slower
// or quicker than the one that was measured.
inline constexpr double forecast_work_spread = 3;
// In whole quarters of an hour.
double wall_by_forecast(double forecast_s);

// Bytes of files and folders; nullopt: not known, or too many to count.
using RawBytes = std::function<std::optional<double>(const std::vector<std::string>& paths)>;
// Looks at `files_max` files at most.
std::optional<double> bytes_on_disk(const std::vector<std::string>& paths, std::int64_t files_max = 100'000);

// Seconds of a curate, tokenize, convert, quantize, evaluate or deploy stage on processors. nullopt: what it depends on
// is not known before it runs, or it is of another kind. `threads`: that it has.
std::optional<double> processor_seconds(const RunPlan& plan, const PlannedStage& stage, int threads,
                                        const RawBytes& raw_bytes);

// Sets `forecast_s` of the stages on processors that have no time limit, at a site with a scheduler.
void forecast_walls(const SiteConfig& site, const RawBytes& raw_bytes, RunPlan& plan);

}  // namespace longhaul
