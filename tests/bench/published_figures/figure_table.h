// Figures of trainings that others published, each with its source (figures.csv): part of the project, in no fit. What
// a row leaves open is decided by rule, never by row:
//   - an empty micro-batch is the one of 1, 2, 4, 8, empty virtual stages are those of 1 to 8, an empty tp or pp that
//     of 1, 2, 4, 8 that the model finds fastest among those that fit the GPU's memory;
//   - a row whose `layout` is "assumed" has a layout that the source does not state: it is printed and counted apart.
#pragma once

#include <string>
#include <vector>

#include "../autotune/published_runs.h"

namespace longhaul::bench {

// Every figure has one of these; a row without is an error that names its line and all units.
enum class FigureUnit {
  tokens,  // "tokens/s/GPU"
  step,    // "s/step"
  flops,   // "TFLOP/s/GPU of full attention": 6 a weight and 12 * layers * hidden * sequence a token
  days,    // "days": of train_tokens on train_gpus, at the rate a GPU of this row
  times,   // "times": the step's time over that of the row `relative_to`
};
const char* to_string(FigureUnit unit);

struct Figure {
  std::string id, document, relative_to, note;
  PublishedRun run;  // its source is the one to leave out; seconds are the published ones, 0 for ratios
  FigureUnit unit = FigureUnit::tokens;
  double value = 0;
  double train_tokens = 0, train_gpus = 0;
  bool assumed = false;   // the layout
  bool same_run = false;  // as another row in another unit: printed, not counted twice
  bool is_ratio() const { return unit == FigureUnit::times; }
  bool counts() const { return !same_run && relative_to != id; }
  // The figure that a step of so many seconds would be; of ratios, `base` seconds of the other row.
  double in_unit(double seconds, double base) const;
};

// Errors of the whole file together, each with file:line: a row without unit, with an unknown one, a value that is no
// positive number, a GPU or framework that the constants lack, a model that does not resolve, a layout that does not
// divide, a relative_to that is no row.
Result<std::vector<Figure>> read_figures(const std::string& path, const TimeConstants& constants);

}  // namespace longhaul::bench
