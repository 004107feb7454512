#include "autotune/calibrate/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "autotune/time/processor_place.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// All parts together count half as much as all trainings: a step is what a prediction is asked for.
constexpr double parts_share = 0.5;
constexpr double spread_least = 0.02;  // two jobs of the same settings differ, too

struct CalibratedField {
  const char* path;
  double spread, low, high;
};

// Bounds keep a number meaningful; within them a machine may be anything. Shares of what is exposed can exceed 1: the
// model counts the bytes of the training's precision, and processors send sums in f32 and add them up themselves.
constexpr CalibratedField processor_fields[] = {
    {"gpu.cpu-core.gemm_bf16", 0.4, 0.01, 1.2},
    {"gpu.cpu-core.attention", 1.0, 1e-3, 2},
    {"common-cpu.memory_share", 0.8, 1e-3, 2},
    {"common-cpu.kernel_latency", 1.0, 1e-2, 1e4},
    {"common-cpu.micro_batch_overhead", 1.0, 1e-4, 1e3},
    {"common-cpu.step_overhead", 1.0, 1e-3, 1e3},
    {"common-cpu.jitter", 1.0, 1e-4, 2},
    {"common-cpu.link_share", 0.6, 1e-3, 4},
    {"common-cpu.link_latency", 1.5, 1e-2, 1e6},
    {"common-cpu.ring_latency", 1.5, 1e-2, 1e6},
    {"common-cpu.nic_share", 0.6, 1e-3, 4},
    {"common-cpu.nic_latency", 1.5, 1e-2, 1e6},
    {"framework.longhaul-cpu.tensor_exposed", 0.5, 0.02, 20},
    {"framework.longhaul-cpu.data_exposed", 0.5, 0.02, 20},
    {"framework.longhaul-cpu.pipeline_exposed", 0.5, 0.02, 20},
    {"framework.longhaul-cpu.optimizer_traffic", 0.7, 1, 1e4},
};

std::vector<TimedRun> weighted(const SiteMeasurements& measured) {
  std::vector<TimedRun> runs = measured.trainings;
  for (TimedRun part : measured.parts) {
    part.weight =
        parts_share * static_cast<double>(measured.trainings.size()) / static_cast<double>(measured.parts.size());
    runs.push_back(std::move(part));
  }
  return runs;
}

Result<TimeConstants> constants_with(ConstantTable& table, std::span<const MeasuredRate> rates,
                                     const std::string& source) {
  for (const MeasuredRate& rate : rates) LH_CHECK(table.own(rate.path, rate.value, source));
  return make_time_constants(table);
}

// Of the parameters, those that the runs determine to some degree, after a fit with all of them.
std::vector<FitParameter> determined_of(std::span<const FitParameter> parameters, const FitReport& report) {
  std::vector<FitParameter> determined;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (report.left[i] < left_to_know) determined.push_back(parameters[i]);
  return determined;
}

Status leave_one_out(const ConstantTable& begun, std::span<const FitParameter> determined,
                     const SiteMeasurements& measured, Calibration& calibration) {
  for (std::size_t i = 0; i < measured.trainings.size(); ++i) {
    SiteMeasurements others = measured;
    others.trainings.erase(others.trainings.begin() + static_cast<std::ptrdiff_t>(i));
    ConstantTable table = begun;
    LH_TRY(const FitReport report, fit_constants(table, determined, weighted(others), {}));
    LH_TRY(const TimeConstants constants, make_time_constants(table));
    calibration.trainings[i].left_out = measured.trainings[i].predicted(constants);
    calibration.evaluations += report.evaluations;
  }
  return {};
}

double rounded(double value) {
  return std::strtod(format("{:.4g}", value).c_str(), nullptr);
}

}  // namespace

PredictionError prediction_error(const std::vector<CalibratedRun>& runs, double CalibratedRun::* predicted) {
  PredictionError e;
  for (const CalibratedRun& run : runs) {
    const double error = std::abs(run.*predicted / run.measured - 1);
    e.mean += error, e.deviation += error * error, e.largest = std::max(e.largest, error);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, runs.size()));
  e.mean /= n, e.deviation = std::sqrt(e.deviation / n);
  return e;
}

Result<std::vector<FitParameter>> processor_parameters(const ConstantTable& table) {
  std::vector<FitParameter> parameters;
  for (const CalibratedField& field : processor_fields) {
    const Constant* now = table.find_or_borrow(field.path);
    if (now == nullptr)
      return make_error(ErrorCode::not_found, format("the constants have no {}", field.path), "restore constants.toml");
    parameters.push_back(
        {field.path, std::clamp(now->value, field.low, field.high), field.spread, field.low, field.high});
  }
  return parameters;
}

Result<Calibration> calibrate(ConstantTable& table, const SiteMeasurements& measured,
                              std::span<const FitParameter> parameters, const std::string& source) {
  if (measured.trainings.size() < trainings_min)
    return make_error(
        ErrorCode::invalid_input,
        format("{} training{} measured: nothing can be fitted to fewer than {}", measured.trainings.size(),
               measured.trainings.size() == 1 ? " was" : "s were", trainings_min),
        "look at what became of the others");
  Calibration calibration;
  const ConstantTable shipped = table;
  LH_TRY(const TimeConstants before, make_time_constants(table));
  for (const MeasuredRate& rate : measured.rates) {
    const Constant* was = table.find_or_borrow(rate.path);
    calibration.constants.push_back({rate.path, was ? was->unit : "", was ? was->value : 0, rounded(rate.value)});
  }
  LH_CHECK(constants_with(table, measured.rates, source));
  for (const FitParameter& p : parameters) LH_CHECK(table.own(p.path, p.start, source));
  const ConstantTable begun = table;
  LH_TRY(const FitReport all, fit_constants(table, parameters, weighted(measured), {}));
  const std::vector<FitParameter> determined = determined_of(parameters, all);
  table = begun;
  LH_TRY(const FitReport report, fit_constants(table, determined, weighted(measured), {}));
  calibration.evaluations = all.evaluations + report.evaluations;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Constant& c = *std::find_if(table.constants().begin(), table.constants().end(),
                                [&](const Constant& one) { return one.path == parameters[i].path; });
    const bool unknown = all.left[i] >= left_to_know;
    c.value = unknown ? c.value : rounded(c.value);
    c.source = unknown ? shipped.find_or_borrow(c.path)->source : source;
    calibration.constants.push_back({c.path, c.unit, parameters[i].start, c.value, all.left[i], unknown});
  }
  for (Constant& c : table.constants())
    for (const MeasuredRate& rate : measured.rates)
      if (c.path == rate.path) c.value = rounded(c.value);
  LH_TRY(const TimeConstants after, make_time_constants(table));
  for (const TimedRun& run : measured.trainings)
    calibration.trainings.push_back({run.name, run.seconds, run.predicted(before), run.predicted(after)});
  for (const TimedRun& run : measured.parts)
    calibration.parts.push_back({run.name, run.seconds, run.predicted(before), run.predicted(after)});
  LH_CHECK(leave_one_out(begun, determined, measured, calibration));
  const double spread =
      rounded(std::max(spread_least, prediction_error(calibration.trainings, &CalibratedRun::left_out).deviation));
  for (const auto& [path, value] : {std::pair<std::string, double>{"common-cpu.spread_seen", spread},
                                    {format("gpu.{}.measured", processor_key), 1.0}}) {
    const Constant* was = table.find_or_borrow(path);
    calibration.constants.push_back({path, was ? was->unit : "", was ? was->value : 0, value});
    LH_CHECK(table.own(path, value, source));
  }
  return calibration;
}

std::string calibrated_constants_text(const ConstantTable& table, const Calibration& calibration,
                                      const std::vector<std::string>& head) {
  std::vector<std::string> lines;
  for (const std::string& line : head) lines.push_back(line.empty() ? "#" : "# " + line);
  std::map<std::string, std::vector<const Constant*>> sections;
  for (const CalibratedConstant& one : calibration.constants)
    if (const Constant* c = table.find(one.path); c != nullptr && !one.unknown)
      sections[c->path.substr(0, c->path.rfind('.'))].push_back(c);
  for (const auto& [section, constants] : sections) {
    lines.push_back(format("\n[{}]", section));
    for (const Constant* c : constants)
      lines.push_back(format("{} = {{ value = {}, unit = \"{}\", source = \"{}\" }}",
                             c->path.substr(c->path.rfind('.') + 1), c->value, c->unit, c->source));
  }
  return join(lines, "\n") + "\n";
}

}  // namespace longhaul
