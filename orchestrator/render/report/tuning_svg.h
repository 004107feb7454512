// Drawings of tuning as inline SVG: what was predicted and measured, what memory buys, where a step's time goes, and
// when each stage of a pipeline does what. Pure. Colours are classes of tuning_style(); names are escaped here.
#pragma once

#include <string>
#include <vector>

#include "autotune/search/tuning_forecast.h"

namespace longhaul {

struct PredictedMeasured {
  std::string name;
  double predicted = 0, predicted_half = 0;  // s, half the width of the interval
  double measured = 0, measured_half = 0;
  bool won = false;
};
// Both axes have one scale, so that the diagonal is where they agree. Points without both values are left out; "" if
// there is none.
std::string predicted_measured_svg(const std::vector<PredictedMeasured>& points);

struct StepMemory {
  std::string name;
  double seconds = 0, memory = 0;  // s, bytes
  bool measured = false, won = false;
};
// The front of a search as steps, candidates as dots. `memory_limit` 0: none is drawn. "" without any point.
std::string step_memory_svg(const std::vector<FrontPoint>& front, const std::vector<StepMemory>& candidates,
                            double memory_limit);

struct StepBar {
  std::string name;
  StepTime time;
  double measured = 0, measured_half = 0;  // s; 0: it was not
  bool won = false;
};
// One bar per layout from 0 on, its parts in the order of StepPart; a mark where it was measured. "" without bars.
std::string step_parts_svg(const std::vector<StepBar>& bars);
const char* step_part_label(StepPart part);  // "matrix products", "messages of tp"

// The pipeline's schedule of one step as it would run, then gradients and update. Of a long step so many micro-batches
// that a period of its middle is seen; the title says how many. One that is too long even so, or cannot run, gives a
// sentence instead of a picture.
std::string step_timeline_svg(const LayoutForecast& forecast);

// For a page's style sheet; goes with the variables of report.cc.
std::string tuning_style();

// "12.3 ms", "4.56 s".
std::string step_seconds_text(double seconds);

}  // namespace longhaul
