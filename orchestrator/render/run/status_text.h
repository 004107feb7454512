// Room orchestrator/render/run
// What is shown of a run: status, progress, faults, goodput, metrics, lists of runs.
// status_text.h is `longhaul status`; progress_view.h redraws while a run is driven; fault_story.h is `faults`.
// run_story.h and tuning_story.h collect curves and candidates to show; metrics_text.h is Prometheus text.
// It only looks: no file of a run is changed, and nothing is decided here.
//
// A run's status for people.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/render/run/run_story.h"
#include "orchestrator/state/run_status.h"

namespace longhaul {

// "12.3 k", "3.214", "0.00031": short, for tables.
std::string figure_text(double value);
// The stage's figures, most significant first: name and short text.
std::vector<std::pair<std::string, std::string>> figures_of(const StageStatus& stage);
// The stage's figures as "name value, name value", most significant first, at most `count`.
std::string figures_text(const StageStatus& stage, std::size_t count);
// "62 %  310/500 steps  1.2k/s  eta 2m 10s", "" without progress.
std::string progress_text(const StageStatus& stage);
// How long the stage has run, or ran; "" if it has not.
std::string stage_time_text(const StageStatus& stage, std::int64_t now_ms);

// What is known of the trials of a tune or search stage, a row each; of a search with a heading. Empty: there are none.
std::vector<std::vector<std::string>> trial_rows(const StageStatus& stage);

// A table of all stages.
std::string stage_table(const RunStatus& status, std::int64_t now_ms);
// Heading, table, and what to do next.
std::string status_text(const RunStatus& status, std::int64_t now_ms);
// Where a run lies that goes on without this process, and the command that looks at it.
std::string watch_text(const std::string& run_dir);
// The end of `run`: table, answers of the served model, server. Stages that failed with their cause.
std::string run_end_text(const RunStory& story, std::int64_t now_ms);

}  // namespace longhaul
