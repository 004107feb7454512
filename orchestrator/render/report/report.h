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
