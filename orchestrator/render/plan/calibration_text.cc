#include "orchestrator/render/plan/calibration_text.h"

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"

namespace longhaul {
namespace {

std::string part_seconds_text(double seconds) {
  if (seconds >= 1) return format("{:.3f} s", seconds);
  return seconds >= 1e-3 ? format("{:.3f} ms", 1e3 * seconds) : format("{:.2f} us", 1e6 * seconds);
}
std::string relative_error_text(double predicted, double measured) {
  return format("{:+.1f} %", 100 * (predicted / measured - 1));
}

std::string calibrated_runs_table(const std::vector<CalibratedRun>& runs, bool left_out) {
  std::vector<std::vector<std::string>> rows = {{"measured", "before", "error", "after", "error"}};
  if (left_out) rows.front().emplace_back("left out");
  rows.front().emplace_back(left_out ? "training" : "part");
  for (const CalibratedRun& run : runs) {
    std::vector<std::string> row = {part_seconds_text(run.measured), part_seconds_text(run.before),
                                    relative_error_text(run.before, run.measured), part_seconds_text(run.after),
                                    relative_error_text(run.after, run.measured)};
    if (left_out) row.push_back(relative_error_text(run.left_out, run.measured));
    row.push_back(run.name);
    rows.push_back(std::move(row));
  }
  return text_table(rows);
}

std::string calibrated_constants_table(const Calibration& calibration) {
  std::vector<std::vector<std::string>> rows = {{"constant", "before", "after", "unit", ""}};
  for (const CalibratedConstant& c : calibration.constants) {
    std::string how = c.left > 0 ? format("fitted; the runs leave {:.0f} % of its spread", 100 * c.left) : "measured";
    if (c.unknown) how = "stays: these runs do not determine it";
    rows.push_back({c.path, format("{:.4g}", c.before), c.unknown ? "" : format("{:.4g}", c.after), c.unit, how});
  }
  return text_table(rows);
}

Value calibrated_runs_value(const std::vector<CalibratedRun>& runs) {
  Value list = Value::make_array();
  for (const CalibratedRun& run : runs) {
    Value entry = Value::make_table();
    entry.set("name", run.name), entry.set("measured", run.measured);
    entry.set("before", run.before), entry.set("after", run.after);
    if (run.left_out > 0) entry.set("left_out", run.left_out);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string prediction_error_text(const std::vector<CalibratedRun>& runs, double CalibratedRun::* predicted) {
  const PredictionError error = prediction_error(runs, predicted);
  return format("mean {:.1f} %, largest {:.1f} %", 100 * error.mean, 100 * error.largest);
}

std::string calibration_text(const Calibration& calibration, const std::vector<std::string>& set_aside) {
  std::string text =
      "steps of trainings, measured and predicted\n" + calibrated_runs_table(calibration.trainings, true);
  text += "\nproducts and messages\n" + calibrated_runs_table(calibration.parts, false);
  text += "\nconstants of the time model\n" + calibrated_constants_table(calibration);
  text += format("\nerror of the trainings: before {}; after {}\n  each by constants fitted without it: {}\n",
                 prediction_error_text(calibration.trainings, &CalibratedRun::before),
                 prediction_error_text(calibration.trainings, &CalibratedRun::after),
                 prediction_error_text(calibration.trainings, &CalibratedRun::left_out));
  if (!set_aside.empty()) text += "\nset aside\n";
  for (const std::string& one : set_aside) text += "  " + one + "\n";
  return text;
}

Value calibration_value(const Calibration& calibration, const std::vector<std::string>& set_aside) {
  Value document = Value::make_table();
  document.set("trainings", calibrated_runs_value(calibration.trainings));
  document.set("parts", calibrated_runs_value(calibration.parts));
  Value& constants = document.set("constants", Value::make_array());
  for (const CalibratedConstant& c : calibration.constants) {
    Value entry = Value::make_table();
    entry.set("path", c.path), entry.set("unit", c.unit), entry.set("before", c.before), entry.set("after", c.after);
    entry.set("left", c.left), entry.set("unknown", c.unknown);
    constants.push_back(std::move(entry));
  }
  Value& aside = document.set("set_aside", Value::make_array());
  for (const std::string& one : set_aside) aside.push_back(one);
  return document;
}

}  // namespace longhaul
