// Room contracts/figures
// What each figure means that a stage of ours reports: in artifact.json and events `figure` at its end, in events
// `metric` at each step. Start with FigureMeaning; the rows are in figure_table.cc.
// It must not know who computes a figure: the code that does is named by a row, and tests compare what stages report
// with the rows.
//
// docs/reference/figures.md is written from this table, and a `metric` that a workflow names is checked by it before
// anything runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

struct FigureMeaning {
  const char* name;     // of "sent_AXIS_bytes" AXIS stands for the axes of the mesh, CATEGORY for those of rows, of
                        // "TASK.acc" TASK for a task of the user's; such rows have `_stderr`, intervals and differences
  const char* unit;     // "": a number, or a share from 0 to 1
  const char* stages;   // kinds that report it, with blanks between
  const char* when;     // "step", "end", or "step end"
  const char* formula;  // in a sentence, or an equation
  const char* over;     // what it is a mean or a sum over, and what padding and masks do; "": over nothing
  const char* source;   // paper, program or file that defines it; "": this project
  const char* code;     // where it is computed
};
const std::vector<FigureMeaning>& figure_meanings();

// Whether a stage of this kind reports a figure of that name at its end: rows, their intervals (`_low`, `_high`), what
// evaluate says of its baseline (`baseline_`). Of a kind without rows (command) nothing is known: true.
bool reports_at_end(std::string_view kind, std::string_view figure);
// The names of those figures, for messages; without intervals and baselines.
std::vector<std::string> figures_at_end(std::string_view kind);

}  // namespace longhaul
