#include "engine/train/loop/training_kernels.h"

namespace longhaul {

namespace {
constexpr std::int64_t reported_every_steps = 100;
constexpr std::size_t reported_kernels = 20;
}  // namespace

void KernelReport::take() {
  of_step_.clear();
  if (!timer_) return;
  Result<KernelTable> taken = timer_->take();
  if (!taken.ok()) {
    events_.message("warn", "kernels are not timed any more: " + taken.error().message());
    timer_ = nullptr;  // no reason to end the training
    return;
  }
  of_step_ = std::move(*taken);
}

void KernelReport::discard() {
  if (timer_) (void)timer_->take().ok();
}

void KernelReport::report(std::int64_t step, bool last) {
  since_reported_.merge(of_step_);
  if (since_reported_.empty() || (step % reported_every_steps != 0 && !last)) return;
  Value longest = Value::make_array();
  for (const KernelTime& kernel : since_reported_.longest(reported_kernels)) {
    Value one = Value::make_table();
    one.set("name", kernel.name);
    one.set("count", kernel.count);
    one.set("seconds", 1e-9 * static_cast<double>(kernel.ns));
    longest.push_back(std::move(one));
  }
  Value fields = Value::make_table();
  fields.set("step", step);
  fields.set("compute_s", 1e-9 * static_cast<double>(since_reported_.compute_ns()));
  fields.set("communication_s", 1e-9 * static_cast<double>(since_reported_.communication_ns()));
  if (timer_ && timer_->lost() > 0) fields.set("lost", timer_->lost());
  fields.set("longest", std::move(longest));
  events_.write("kernels", std::move(fields));
  since_reported_.clear();
}

}  // namespace longhaul
