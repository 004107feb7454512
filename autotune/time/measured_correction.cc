#include "autotune/time/measured_correction.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/text.h"

namespace longhaul {
namespace {

// How far the common factor may be from 1, as a standard deviation of its logarithm: nothing is known of it.
constexpr double common_sigma = 2;

}  // namespace

Likeness likeness_of(const TrainingTask& task, const TrainingLayout& layout) {
  const ParallelDims& d = layout.dims;
  const Recompute& r = layout.recompute;
  Likeness like;
  like.kind = format("tp{} {} cp{} ep{} etp{} zero{} {} {}{}{}{}{}{}", d.tp, d.sp, d.cp, d.ep, d.etp, d.zero,
                     to_string(layout.precision), r.block, r.attention, r.feed_forward, r.activation, r.norms,
                     layout.offload_moments);
  const auto octaves = [](double value) { return std::log2(std::max(value, 1.0)); };
  const double tokens = static_cast<double>(task.sequence_length * layout.micro_batch_size) / d.cp;
  like.at = {octaves(static_cast<double>(task.shape.hidden_size)),
             octaves(tokens) / 1.3,
             octaves(d.pp) / 2.5,
             octaves(static_cast<double>(task.shape.num_hidden_layers)) / 2.5,
             octaves(d.dp()) / 3,
             octaves(static_cast<double>(layout.micro_batches(task))) / 4.5};
  return like;
}

double alike(const Likeness& a, const Likeness& b) {
  if (a.kind.empty() || a.kind != b.kind || a.at.size() != b.at.size()) return 0;
  double squares = 0;
  for (std::size_t i = 0; i < a.at.size(); ++i) squares += (a.at[i] - b.at[i]) * (a.at[i] - b.at[i]);
  return std::exp(-squares / 2);
}

MeasuredCorrection::MeasuredCorrection(std::vector<MeasuredRatio> seen, double sigma, double repeat_sigma)
    : seen_(std::move(seen)), sigma_(sigma), triangle_(seen_.size()), weights_(seen_.size()) {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    std::vector<double>& row = triangle_[i];
    row.resize(i + 1);
    for (std::size_t j = 0; j <= i; ++j) {
      double left = covariance(seen_[i].like, seen_[j].like);
      if (i == j) left = common_sigma * common_sigma + sigma_ * sigma_ + std::max(repeat_sigma * repeat_sigma, 1e-8);
      for (std::size_t k = 0; k < j; ++k) left -= row[k] * triangle_[j][k];
      row[j] = i == j ? std::sqrt(std::max(left, 1e-12)) : left / triangle_[j][j];
    }
    weights_[i] = seen_[i].log_ratio;
    for (std::size_t k = 0; k < i; ++k) weights_[i] -= row[k] * weights_[k];
    weights_[i] /= row[i];
  }
  for (std::size_t i = seen_.size(); i-- > 0;) {
    for (std::size_t k = i + 1; k < seen_.size(); ++k) weights_[i] -= triangle_[k][i] * weights_[k];
    weights_[i] /= triangle_[i][i];
  }
}

double MeasuredCorrection::covariance(const Likeness& a, const Likeness& b) const {
  return common_sigma * common_sigma + sigma_ * sigma_ * alike(a, b);
}

double MeasuredCorrection::factor(const Likeness& like) const {
  double mean = 0;
  for (std::size_t i = 0; i < seen_.size(); ++i) mean += covariance(like, seen_[i].like) * weights_[i];
  return std::exp(mean);
}

MeasuredCorrection::Factor MeasuredCorrection::at(const Likeness& like) const {
  if (seen_.empty()) return {1, sigma_};
  double explained = 0;
  std::vector<double> solved(seen_.size());
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    solved[i] = covariance(like, seen_[i].like);
    for (std::size_t k = 0; k < i; ++k) solved[i] -= triangle_[i][k] * solved[k];
    solved[i] /= triangle_[i][i];
    explained += solved[i] * solved[i];
  }
  const double left = common_sigma * common_sigma + sigma_ * sigma_ - explained;
  return {factor(like), std::sqrt(std::max(left, 0.0))};
}

StepTime corrected(StepTime time, const MeasuredCorrection::Factor& by) {
  for (double& part : time.parts) part *= by.factor;
  time.correction *= by.factor, time.sigma = by.sigma;
  return time;
}

}  // namespace longhaul
