#include "engine/data/samples/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text/text.h"

namespace longhaul {
namespace {

// The sum as numpy takes it, in pairs (Higham 1993), so that normalized weights have the same bits.
double pairwise_sum(const double* values, std::size_t n) {
  if (n < 8) return std::accumulate(values, values + n, 0.0);
  if (n > 128) {
    const std::size_t half = n / 2 - n / 2 % 8;
    return pairwise_sum(values, half) + pairwise_sum(values + half, n - half);
  }
  double r[8];
  std::copy(values, values + 8, r);
  for (std::size_t i = 8; i + 8 <= n; i += 8)
    for (std::size_t j = 0; j < 8; ++j) r[j] += values[i + j];
  const double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  return std::accumulate(values + n / 8 * 8, values + n, sum);
}

}  // namespace

std::vector<double> normalized_weights(std::vector<double> weights) {
  const double sum = pairwise_sum(weights.data(), weights.size());
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::int64_t megatron_part_samples(std::int64_t samples, double normalized_weight) {
  const double share = std::ceil(static_cast<double>(samples) * normalized_weight);
  return static_cast<std::int64_t>(std::ceil(share * 1.005));
}

Result<BlendOrder> BlendOrder::create(const std::vector<double>& weights) {
  if (weights.empty()) return make_error(ErrorCode::invalid_input, "a blend of nothing");
  for (const double weight : weights)
    if (!(weight > 0) || !std::isfinite(weight))
      return make_error(ErrorCode::invalid_input, format("blend weight {:g} is not positive", weight),
                        "leave out what is not to be read");
  BlendOrder order;
  // Twice, as in Megatron-LM; the second changes a last bit now and then.
  order.weights_ = normalized_weights(normalized_weights(weights));
  order.known_ = std::make_unique<Known>();
  order.known_->last.taken.assign(weights.size(), 0);
  order.known_->marks[0] = order.known_->last.taken;
  return order;
}

// Compiled without fused multiply-add (engine/CMakeLists.txt): the comparison depends on the product's rounding.
std::size_t BlendOrder::step() const {
  BlendState& state = known_->last;
  const double k = std::max(static_cast<double>(state.next), 1.0);
  std::size_t chosen = 0;
  double furthest = -INFINITY;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double behind = weights_[i] * k - static_cast<double>(state.taken[i]);
    if (behind > furthest) furthest = behind, chosen = i;
  }
  ++state.taken[chosen];
  if (++state.next % blend_mark_every == 0) known_->marks.emplace(state.next, state.taken);
  return chosen;
}

const BlendState& BlendOrder::move_to(std::int64_t k) const {
  BlendState& last = known_->last;
  const auto mark = std::prev(known_->marks.upper_bound(k));
  if (last.next > k || last.next < mark->first) last = {mark->first, mark->second};
  while (last.next < k) step();
  return last;
}

BlendOrder::Choice BlendOrder::at(std::int64_t k) const {
  LH_ASSERT(k >= 0, format("sample {}", k));
  const std::lock_guard lock(known_->mutex);
  const BlendState& state = move_to(k);
  const std::size_t chosen = step();
  return {chosen, state.taken[chosen] - 1};
}

BlendState BlendOrder::state(std::int64_t k) const {
  LH_ASSERT(k >= 0, format("sample {}", k));
  const std::lock_guard lock(known_->mutex);
  return move_to(k);
}

Status BlendOrder::resume(const BlendState& state) {
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorCode::corrupt, format("the state of a blend at sample {} {}", state.next, why),
                      "it was saved with other data or weights");
  };
  if (state.taken.size() != weights_.size())
    return refuse(format("has {} sources, here are {}", state.taken.size(), weights_.size()));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const std::int64_t taken = state.taken[i];
    // The rule never lets a source run ahead by more than one sample, so none falls behind by more than all others'
    // one.
    const double behind = weights_[i] * static_cast<double>(state.next) - static_cast<double>(taken);
    if (taken < 0 || taken > state.next || std::abs(behind) > static_cast<double>(weights_.size()))
      return refuse(format("has {} samples of source {}, whose share is {:g}", taken, i, weights_[i]));
    sum += taken;
  }
  if (state.next < 0 || sum != state.next) return refuse(format("counts {} samples", sum));
  const std::lock_guard lock(known_->mutex);
  known_->marks[state.next] = state.taken;
  return {};
}

Result<BlendedSource> BlendedSource::create(std::vector<BlendPart> parts, BlendPolicy policy, std::int64_t samples) {
  std::vector<double> weights;
  for (const BlendPart& part : parts) {
    LH_ASSERT(part.source != nullptr, part.name);
    weights.push_back(part.weight);
  }
  LH_TRY(BlendOrder order, BlendOrder::create(weights));
  BlendedSource blend(std::move(parts), std::move(order));
  bool ends = policy == BlendPolicy::exhaust;
  for (const BlendPart& part : blend.parts_) {
    if (part.source->sequence_length() != blend.sequence_length())
      return make_error(ErrorCode::invalid_input,
                        format("{} has a sequence_length of {}, {} of {}", part.name, part.source->sequence_length(),
                               blend.parts_.front().name, blend.sequence_length()));
    if (part.source->samples_per_epoch() < 1)
      return make_error(ErrorCode::invalid_input, format("{} is shorter than one sample", part.name));
    blend.samples_per_epoch_ += part.source->samples_per_epoch();
    ends |= part.source->size() != endless;
  }
  if (!ends) return blend;
  if (samples == endless)
    return make_error(ErrorCode::invalid_input, "how many samples the training takes must be known for this blend");
  blend.size_ = samples;
  const BlendState at_end = blend.order_.state(samples);
  for (std::size_t i = 0; i < blend.parts_.size(); ++i) {
    const BlendPart& part = blend.parts_[i];
    const std::int64_t has =
        std::min(part.source->size(),
                 policy == BlendPolicy::exhaust ? part.source->samples_per_epoch() - part.used : part.source->size());
    if (at_end.taken[i] <= has) continue;
    return make_error(ErrorCode::invalid_input,
                      format("{} has {} samples; a blend of {} samples with weight {:.4g} takes {} of it", part.name,
                             has, samples, blend.order_.weights()[i], at_end.taken[i]),
                      format("lower its weight, train on {} samples at most, or let it repeat",
                             static_cast<std::int64_t>(static_cast<double>(std::max<std::int64_t>(0, has - 1)) /
                                                       blend.order_.weights()[i])));
  }
  return blend;
}

void BlendedSource::read(std::int64_t k, std::span<std::int32_t> out) const {
  const BlendOrder::Choice choice = order_.at(k);
  parts_[choice.source].source->read(choice.sample, out);
}

void BlendedSource::document_begins(std::int64_t k, std::span<std::int32_t> out) const {
  const BlendOrder::Choice choice = order_.at(k);
  parts_[choice.source].source->document_begins(choice.sample, out);
}

}  // namespace longhaul
