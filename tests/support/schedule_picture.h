// Pipeline schedules as text, for tests that show what they expect, and for docs/contracts.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "contracts/pipeline/pipeline_timeline.h"

namespace longhaul::testing {

// One line per rank, one column per `unit` of time: an operation's name where it starts, dashes while it goes on, dots
// while the rank waits. Meant for costs that are multiples of `unit`.
inline std::string schedule_picture(const PipelineTimeline& timeline, double unit = 1) {
  std::size_t width = 0;
  for (const auto& entries : timeline.ranks)
    for (const PipelineTimeline::Entry& entry : entries) width = std::max(width, to_string(entry.op).size());
  const auto column = [&](double time) { return static_cast<std::size_t>(std::llround(time / unit)); };
  std::string picture;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    std::vector<std::string> cells(column(timeline.makespan), ".");
    for (const PipelineTimeline::Entry& entry : timeline.ranks[rank])
      for (std::size_t at = column(entry.start); at < column(entry.end); ++at)
        cells[at] = at == column(entry.start) ? to_string(entry.op) : "-";
    std::string line = format("rank {} |", rank);
    for (const std::string& cell : cells) line += format(" {:<{}}", cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    picture += line + "\n";
  }
  return picture;
}

}  // namespace longhaul::testing
