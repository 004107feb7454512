#include "engine/train/step/spike_guard.h"

#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

Value to_array(const auto& numbers) {
  Value array = Value::make_array();
  for (const auto number : numbers) array.push_back(number);
  return array;
}

Result<std::deque<double>> numbers_of(const Value& state, const char* key, std::size_t most) {
  const Value* array = state.find(key);
  std::deque<double> numbers;
  if (!array || !array->is_array())
    return make_error(ErrorCode::corrupt, format("the checkpoint's state of the spike policy has no {}", key));
  for (const Value& number : array->as_array()) {
    if (!number.is_number() || !std::isfinite(number.as_number()))
      return make_error(ErrorCode::corrupt, format("the checkpoint's state of the spike policy: {} is damaged", key));
    numbers.push_back(number.as_number());
  }
  while (numbers.size() > most) numbers.pop_front();  // it was saved with a longer window
  return numbers;
}

}  // namespace

std::string SpikeGuard::spike(const char* what, double x, const std::deque<double>& window) const {
  if (settings_.sigma <= 0 && settings_.ratio <= 0) return {};
  const auto count = static_cast<double>(window.size());
  if (2 * window.size() < static_cast<std::size_t>(settings_.window)) return {};
  double mean = 0, squares = 0;
  for (const double one : window) mean += one / count;
  for (const double one : window) squares += (one - mean) * (one - mean) / count;
  const double deviation = std::sqrt(squares);
  if (settings_.sigma > 0 && x > mean + settings_.sigma * deviation)
    return format("{} {:.6g} is {:.3g} deviations above {:.6g}, the mean of {} steps", what, x, (x - mean) / deviation,
                  mean, window.size());
  if (settings_.ratio > 0 && x > settings_.ratio * mean)
    return format("{} {:.6g} is {:.3g} times {:.6g}, the mean of {} steps", what, x, x / mean, mean, window.size());
  return {};
}

std::string SpikeGuard::problem(double loss, double grad_norm) const {
  if (!std::isfinite(loss)) return format("the loss is {}", loss);
  if (!std::isfinite(grad_norm)) return format("the gradient's norm is {}", grad_norm);
  const std::string of_loss = spike("the loss", loss, losses_);
  return of_loss.empty() ? spike("the gradient's norm", grad_norm, norms_) : of_loss;
}

void SpikeGuard::accept(double loss, double grad_norm) {
  losses_.push_back(loss), norms_.push_back(grad_norm);
  if (losses_.size() > static_cast<std::size_t>(settings_.window)) losses_.pop_front(), norms_.pop_front();
}

bool SpikeGuard::spend(std::int64_t step) {
  spent_.push_back(step);
  std::erase_if(spent_, [&](std::int64_t before) { return before <= step - settings_.budget_steps; });
  return spent_.size() <= static_cast<std::size_t>(settings_.budget);
}

Value SpikeGuard::state() const {
  Value state = Value::make_table();
  state.set("losses", to_array(losses_));
  state.set("grad_norms", to_array(norms_));
  state.set("spent", to_array(spent_));
  return state;
}

Status SpikeGuard::restore_window(const Value& state) {
  const auto most = static_cast<std::size_t>(settings_.window);
  LH_TRY(losses_, numbers_of(state, "losses", most));
  LH_TRY(norms_, numbers_of(state, "grad_norms", most));
  if (losses_.size() != norms_.size())
    return make_error(
        ErrorCode::corrupt,
        format("the checkpoint's state of the spike policy has {} losses and {} norms", losses_.size(), norms_.size()));
  return {};
}

Status SpikeGuard::restore(const Value& state) {
  LH_CHECK(restore_window(state));
  LH_TRY(const std::deque<double> spent, numbers_of(state, "spent", SIZE_MAX));
  spent_.assign(spent.begin(), spent.end());
  return {};
}

}  // namespace longhaul
