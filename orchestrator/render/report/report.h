// Room orchestrator/render/report
// The report of a run as one HTML page and one JSON file, with its drawings.
// report.h writes both; svg.h draws graphs and curves, tuning_svg.h tuning, timeline_svg.cc one step.
// What it says of a run it takes from render/run; it does not know `plan` and computes no status of its own.
//
// The report of a run: report/index.html, one file that needs nothing from outside, and report/report.json with the
// same facts. All text of runs, stages and models is escaped.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/render/run/run_story.h"

namespace longhaul {

std::string report_html(const RunStory& story, std::int64_t now_ms);
Value report_value(const RunStory& story, std::int64_t now_ms);

// Writes both into this folder, made if it is not there, and returns the path of index.html.
Result<std::string> write_report(const RunStory& story, const std::string& folder, std::int64_t now_ms);

// One page without anything from outside, in the style of the report; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body, std::int64_t now_ms);

}  // namespace longhaul
