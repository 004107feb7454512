#include "constant_fit.h"

#include <algorithm>
#include <cmath>

namespace longhaul::bench {
namespace {

constexpr double outlier = 0.06;  // relative errors beyond it count ever less

struct Problem {
  ConstantTable& table;
  std::vector<std::string> names;
  const std::vector<WeightedRuns>& data;
  int evaluations = 0;

  Result<std::vector<double>> residuals(const std::vector<double>& x) {
    ++evaluations;
    for (std::size_t i = 0; i < names.size(); ++i)
      LH_CHECK(table.set(names[i], table.find(names[i])->start * std::exp(x[i]), "fit"));
    LH_TRY(const TimeConstants constants, make_time_constants(table));
    std::vector<double> r;
    for (const WeightedRuns& part : data) {
      for (const PublishedRun& run : part.runs) {
        const double error = std::log(predict(run, constants, false) / run.seconds) / outlier;
        const double flat = std::sqrt(2 * (std::sqrt(1 + error * error) - 1));
        r.push_back(std::copysign(flat * std::sqrt(part.weight), error));
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) r.push_back(x[i] / table.find(names[i])->spread);
    return r;
  }
};

double square(const std::vector<double>& r) {
  double sum = 0;
  for (const double v : r) sum += v * v;
  return sum;
}

// Solves a * x = b, a symmetric and positive definite, by Cholesky; a and b are used up.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k)
      for (std::size_t i = j; i < n; ++i) a[i][j] -= a[i][k] * a[j][k];
    const double root = std::sqrt(std::max(a[j][j], 1e-12));
    for (std::size_t i = j; i < n; ++i) a[i][j] /= root;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

Result<FitReport> fit_constants(ConstantTable& table, const std::vector<WeightedRuns>& data, int iterations) {
  Problem problem{table, table.fitted(), data};
  const std::size_t n = problem.names.size();
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Constant& c = *table.find(problem.names[i]);
    x[i] = std::log(c.value / c.start);
  }
  LH_TRY(std::vector<double> r, problem.residuals(x));
  FitReport report;
  report.before = square(r);
  double damping = 1e-2;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::vector<std::vector<double>> columns(n);
    constexpr double step = 1e-4;
    for (std::size_t i = 0; i < n; ++i) {
      auto moved = x;
      moved[i] += step;
      LH_TRY(columns[i], problem.residuals(moved));
      for (std::size_t k = 0; k < r.size(); ++k) columns[i][k] = (columns[i][k] - r[k]) / step;
    }
    std::vector<std::vector<double>> normal(n, std::vector<double>(n));
    std::vector<double> gradient(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < r.size(); ++k) sum += columns[i][k] * columns[j][k];
        normal[i][j] = normal[j][i] = sum;
      }
      for (std::size_t k = 0; k < r.size(); ++k) gradient[i] -= columns[i][k] * r[k];
    }
    bool better = false;
    double gain = 0;
    for (int attempt = 0; attempt < 6 && !better; ++attempt) {
      auto damped = normal;
      for (std::size_t i = 0; i < n; ++i) damped[i][i] *= 1 + damping;
      const auto move = solve(damped, gradient);
      auto moved = x;
      for (std::size_t i = 0; i < n; ++i) moved[i] += std::clamp(move[i], -0.5, 0.5);
      LH_TRY(auto next, problem.residuals(moved));
      better = square(next) < square(r);
      damping = better ? std::max(damping / 5, 1e-6) : damping * 4;
      if (better) gain = square(r) - square(next), x = moved, r = std::move(next);
    }
    if (!better || gain < 1e-5 * square(r)) break;
  }
  LH_CHECK(problem.residuals(x));  // leaves the table at the best
  report.after = square(r), report.evaluations = problem.evaluations;
  return report;
}

}  // namespace longhaul::bench
