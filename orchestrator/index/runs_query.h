// What a person asks of many runs, and the answer's rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// "heldout_loss<3.2": a figure of a stage, compared with a number.
struct FigureBound {
  std::string name;
  std::string relation;  // < <= > >= = !=
  double value = 0;
};
// invalid_input: names what is wrong and how one is written.
Result<FigureBound> parse_figure_bound(const std::string& text);

// "2d", "12h" before `now_ms`, or a day or moment in UTC: "2026-11-01", "2026-11-01T12:30". In ms since 1970.
Result<std::int64_t> parse_when(const std::string& text, std::int64_t now_ms);

// Everything that is not asked for is let through.
struct RunsQuery {
  bool stages = false;                // a row for each stage instead of one for each run
  std::vector<std::string> states;    // any of them; of the run, or of the stage where stages are asked for
  std::vector<std::string> names;     // any of them: of the run or its workflow; with * and ?, or how it begins
  std::vector<std::string> of_stage;  // any of them: id or kind of a stage; with * and ?, or all its variants
  std::vector<std::string> models;    // any of them: of a stage; with * and ?, or how it begins
  std::vector<std::int64_t> owners;   // any of these uids
  std::optional<std::int64_t> since_ms, until_ms;  // was not over before the first, had begun before the second
  std::vector<FigureBound> figures;                // all of them, each in some stage of the run (or in this stage)
};

struct RunsRow {
  std::string runs_dir, name, workflow, state, problem;
  std::string stage, kind, stage_state;  // that says most about the run, or that was asked for
  std::string model, job, cause;         // of that stage
  std::int64_t owner_uid = -1;
  std::int64_t created_ms = 0, ended_ms = 0;                       // of the run
  std::int64_t submitted_ms = 0, started_ms = 0, finished_ms = 0;  // of the stage; 0: not yet
  int attempts = 0;                                                // of the stage
  std::int64_t step = -1, steps = 0;
  std::optional<double> loss;
  double node_hours = 0;  // of the run, or of the stage where stages are asked for
  std::string driver, driver_host;
  std::int64_t driver_pid = 0;
  std::uint64_t driver_start_ticks = 0;
  std::vector<std::optional<double>> figures;  // those that were asked for, in that order
};

// Keys by which rows are sorted; further ones are the names of figures that are asked for.
const std::vector<std::string>& sort_keys();
// `key` with a leading '-': the other way round. invalid_input: there is no such key.
Status sort_rows(std::vector<RunsRow>& rows, const std::string& key, const RunsQuery& query);

}  // namespace longhaul
