// How a run is doing and where the time of its trainings went, as metrics in Prometheus' text format (version 0.0.4 of
// the exposition format): what node_exporter's textfile collector reads, so that a site needs no daemon of ours. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/state/run_status.h"
#include "orchestrator/state/stage_goodput.h"

namespace longhaul {

struct MetricFamily {
  std::string name;  // "longhaul_training_elapsed_seconds": the unit last, `_total` behind that of a counter
  std::string type;  // "gauge", "counter"
  std::string help;
  std::vector<std::string> labels;  // beside `run`, which all have
};
// All that metrics_text() writes, in its order. A time is a gauge, not a counter: a fault that is noticed late takes
// back what was counted as training.
const std::vector<MetricFamily>& metric_families();

// Ends with a newline. Of a status that holds nothing but a name no state is printed; the rest of a stage as soon as
// there is something.
std::string metrics_text(const RunStatus& status, const std::vector<StageGoodput>& stages, std::int64_t now_ms);

// "run-2026" -> "longhaul-run-2026.prom"; characters that a file name should not have become '_'.
std::string metrics_file_name(const std::string& run);

}  // namespace longhaul
