#include "worker/protocol/node/reported_times.h"

namespace longhaul {

void note_arrival(std::int64_t now_ns, std::int64_t now_ms, Value& report) {
  report.set("arrived_ns", now_ns);
  report.set("arrived_ms", now_ms);
}

ReportedTimes::ReportedTimes(const Value& report) : arrived_ns_(report.get_integer("arrived_ns")) {
  const std::int64_t there = report.get_integer("told_ms"), here = report.get_integer("arrived_ms");
  if (there > 0 && here > 0) ahead_ms_ = here - there;
}

}  // namespace longhaul
