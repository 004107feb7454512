#include "autotune/calibrate/constant_fit.h"

#include <algorithm>
#include <cmath>

#include "autotune/calibrate/least_squares.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// x: logarithms of the parameters over their starts. Residuals: one for each run, then one for each parameter.
class FitProblem {
 public:
  FitProblem(ConstantTable& table, std::span<const FitParameter> parameters, std::span<const TimedRun> runs,
             double noise)
      : table_(table), parameters_(parameters), runs_(runs), noise_(noise) {}

  Result<std::vector<double>> residuals(const std::vector<double>& x) {
    ++evaluations;
    for (std::size_t i = 0; i < x.size(); ++i)
      LH_CHECK(table_.set(parameters_[i].path, parameters_[i].start * std::exp(x[i]), "fit"));
    LH_TRY(const TimeConstants constants, make_time_constants(table_));
    std::vector<double> r;
    r.reserve(runs_.size() + x.size());
    for (const TimedRun& run : runs_) {
      const double predicted = run.predicted(constants);
      if (!(predicted > 0) || !std::isfinite(predicted))
        return make_error(ErrorCode::invalid_input, "the time model has no time for " + run.name);
      const double error = std::log(predicted / run.seconds) / noise_;
      const double flat = std::sqrt(2 * (std::sqrt(1 + error * error) - 1));
      r.push_back(std::copysign(flat * std::sqrt(run.weight), error));
    }
    for (std::size_t i = 0; i < x.size(); ++i) r.push_back(x[i] / parameters_[i].spread);
    return r;
  }

  // d residuals / d x, a column for each parameter; forward differences.
  Result<JacobianColumns> slopes(const std::vector<double>& x, const std::vector<double>& r) {
    constexpr double step = 1e-4;
    JacobianColumns columns(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto moved = x;
      moved[i] += step;
      LH_TRY(columns[i], residuals(moved));
      for (std::size_t k = 0; k < r.size(); ++k) columns[i][k] = (columns[i][k] - r[k]) / step;
    }
    return columns;
  }

  double within(std::size_t i, double x) const {
    const FitParameter& p = parameters_[i];
    const double low = p.low > 0 ? std::log(p.low / p.start) : -std::numeric_limits<double>::infinity();
    return std::clamp(x, low, std::log(p.high / p.start));
  }

  int evaluations = 0;

 private:
  ConstantTable& table_;
  std::span<const FitParameter> parameters_;
  std::span<const TimedRun> runs_;
  double noise_;
};

double square(const std::vector<double>& r) {
  double sum = 0;
  for (const double v : r) sum += v * v;
  return sum;
}

// What the runs leave of each parameter's spread; the residuals are in units of their noise.
std::vector<double> spread_left(const JacobianColumns& columns, std::span<const FitParameter> parameters) {
  std::vector<double> left = standard_deviations(columns);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] /= parameters[i].spread;
  return left;
}

// One step downhill with as much damping as it needs; false where there is none.
Result<bool> descend(FitProblem& problem, std::vector<double>& x, std::vector<double>& r, double& damping) {
  LH_TRY(const JacobianColumns columns, problem.slopes(x, r));
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::vector<double> move = damped_step(columns, r, damping);
    auto moved = x;
    for (std::size_t i = 0; i < x.size(); ++i) moved[i] = problem.within(i, x[i] + std::clamp(move[i], -0.5, 0.5));
    LH_TRY(auto next, problem.residuals(moved));
    const double gain = square(r) - square(next);
    damping = gain > 0 ? std::max(damping / 5, 1e-6) : damping * 4;
    if (gain <= 0) continue;
    x = moved, r = std::move(next);
    return gain >= 1e-5 * square(r);
  }
  return false;
}

Status check_fit(const ConstantTable& table, std::span<const FitParameter> parameters, std::span<const TimedRun> runs) {
  for (const FitParameter& p : parameters) {
    const Constant* constant = table.find(p.path);
    if (constant == nullptr) return make_error(ErrorCode::not_found, "the time model has no constant " + p.path);
    if (!(constant->value > 0 && p.start > 0 && p.spread > 0 && p.low >= 0 && p.high > p.low))
      return make_error(ErrorCode::invalid_input,
                        p.path + " cannot be fitted: its value, start and spread are positive",
                        "the fit works on their logarithms");
  }
  for (const TimedRun& run : runs)
    if (!(run.seconds > 0) || !std::isfinite(run.seconds) || !(run.weight > 0) || !run.predicted)
      return make_error(ErrorCode::invalid_input, run.name + " has no time that a fit could use");
  return {};
}

}  // namespace

Result<FitReport> fit_constants(ConstantTable& table, std::span<const FitParameter> parameters,
                                std::span<const TimedRun> runs, const FitOptions& options) {
  LH_CHECK(check_fit(table, parameters, runs));
  FitProblem problem(table, parameters, runs, options.noise);
  std::vector<double> x(parameters.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = problem.within(i, std::log(table.find(parameters[i].path)->value / parameters[i].start));
  LH_TRY(std::vector<double> r, problem.residuals(x));
  FitReport report;
  report.before = square(r);
  double damping = 1e-2;
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    LH_TRY(const bool further, descend(problem, x, r, damping));
    if (!further) break;
  }
  LH_TRY(const JacobianColumns columns, problem.slopes(x, r));
  report.left = spread_left(columns, parameters);
  LH_CHECK(problem.residuals(x));  // leaves the table at the best
  report.after = square(r), report.evaluations = problem.evaluations;
  return report;
}

}  // namespace longhaul
