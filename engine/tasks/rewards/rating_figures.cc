#include "engine/tasks/rewards/rating_figures.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/text.h"
#include "contracts/settings/stages/reward_form.h"
#include "engine/tasks/scores/intervals.h"

namespace longhaul {

namespace {

// Of values y and numbers p.
struct Moments {
  double n = 0, y = 0, p = 0, yy = 0, pp = 0, yp = 0, squared = 0;
  void add(double value, double number) {
    n += 1, y += value, p += number, yy += value * value, pp += number * number, yp += value * number;
    squared += (number - value) * (number - value);
  }
  double variance(double sum, double squares) const { return squares / n - sum / n * (sum / n); }
  double values_variance() const { return std::max(0.0, variance(y, yy)); }
  // Not set where either has no spread beyond rounding.
  std::optional<double> correlation() const {
    const double of_y = variance(y, yy), of_p = variance(p, pp);
    if (n < 2 || of_y <= 1e-12 * (1 + yy / n) || of_p <= 1e-12 * (1 + pp / n)) return std::nullopt;
    return std::clamp((yp / n - y / n * (p / n)) / std::sqrt(of_y * of_p), -1.0, 1.0);
  }
};

struct Share {
  double right = 0, of = 0;
  void add(bool is_right) { right += is_right ? 1 : 0, of += 1; }
  double value() const { return right / of; }
};

void add_share(std::vector<Figure>& figures, const std::string& name, const Share& share) {
  if (share.of == 0) return;
  const Interval interval = wilson_interval(share.right, share.of);
  figures.push_back({name, share.value(), ""});
  figures.push_back({name + "_low", interval.low, ""});
  figures.push_back({name + "_high", interval.high, ""});
}

struct FirstErrors {
  Share wrong, right;  // answers with and without a wrong step
  void add(std::int64_t found, std::int64_t truth) { (truth < 0 ? right : wrong).add(found == truth); }
};

void add_first_errors(std::vector<Figure>& figures, const std::string& name, const std::string& of,
                      const FirstErrors& errors) {
  add_share(figures, name + "wrong_accuracy" + of, errors.wrong);
  add_share(figures, name + "right_accuracy" + of, errors.right);
  if (errors.wrong.of == 0 || errors.right.of == 0) return;
  const double wrong = errors.wrong.value(), right = errors.right.value();
  figures.push_back({name + "first_error_f1" + of, wrong + right > 0 ? 2 * wrong * right / (wrong + right) : 0, ""});
}

}  // namespace

std::vector<Figure> attribute_figures(const RewardForm& form, std::span<const RatedAnswer> answers,
                                      std::span<const std::vector<double>> numbers, const std::string& name) {
  LH_ASSERT(answers.size() == numbers.size(), format("{} numbers of {} answers", numbers.size(), answers.size()));
  std::vector<Figure> figures;
  for (std::size_t a = 0; a < form.attributes.size(); ++a) {
    Moments of;
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (!std::isnan(answers[i].values[a])) of.add(answers[i].values[a], numbers[i][a]);
    const std::string& attribute = form.attributes[a].name;
    figures.push_back({format("{}values_{}", name, attribute), of.n, ""});
    if (of.n == 0) continue;
    figures.push_back({format("{}mse_{}", name, attribute), of.squared / of.n, ""});
    figures.push_back({format("{}mean_only_mse_{}", name, attribute), of.values_variance(), ""});
    const std::optional<double> r = of.correlation();
    if (!r) continue;
    figures.push_back({format("{}pearson_{}", name, attribute), *r, ""});
    if (of.n < 4) continue;
    const double z = std::atanh(std::clamp(*r, -1 + 1e-15, 1 - 1e-15)), half = z_of_95_pct / std::sqrt(of.n - 3);
    figures.push_back({format("{}pearson_{}_low", name, attribute), std::tanh(z - half), ""});
    figures.push_back({format("{}pearson_{}_high", name, attribute), std::tanh(z + half), ""});
  }
  return figures;
}

std::int64_t first_wrong_step(std::span<const double> probabilities) {
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    if (!(probabilities[i] > 0.5)) return static_cast<std::int64_t>(i);
  return -1;
}

std::optional<std::int64_t> first_wrong_label(std::span<const double> labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (std::isnan(labels[i])) return std::nullopt;
    if (labels[i] < 0.5) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::vector<Figure> step_figures(std::span<const RatedAnswer> answers, std::span<const std::vector<double>> numbers,
                                 const std::string& name) {
  LH_ASSERT(answers.size() == numbers.size(), format("{} numbers of {} answers", numbers.size(), answers.size()));
  Share steps;
  FirstErrors all;
  std::map<std::string, FirstErrors> categories;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::vector<double>& labels = answers[i].values;
    const std::vector<double> right = step_probabilities(numbers[i]);
    for (std::size_t s = 0; s < labels.size(); ++s)
      if (!std::isnan(labels[s])) steps.add((right[s] > 0.5) == (labels[s] >= 0.5));
    const auto truth = first_wrong_label(labels);
    if (!truth) continue;
    all.add(first_wrong_step(right), *truth);
    if (!answers[i].category.empty()) categories[answers[i].category].add(first_wrong_step(right), *truth);
  }
  std::vector<Figure> figures;
  add_share(figures, name + "step_accuracy", steps);
  add_first_errors(figures, name, "", all);
  for (const auto& [category, of] : categories) add_first_errors(figures, name, "_" + category, of);
  return figures;
}

}  // namespace longhaul
