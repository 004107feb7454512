// TrainingLoop: what the kernels of a device took (trace.kernels).
#include "base/text/text.h"
#include "engine/train/loop/training_loop.h"

namespace longhaul {

namespace {
constexpr std::int64_t told_every_steps = 100;
constexpr std::size_t told_kernels = 20;
}  // namespace

void TrainingLoop::take_kernel_times() {
  kernels_of_step_.clear();
  if (!options_.kernel_timer) return;
  Result<KernelTable> taken = options_.kernel_timer->take();
  if (!taken.ok()) {
    events_.message("warn", "kernels are not timed any more: " + taken.error().message());
    options_.kernel_timer = nullptr;  // no reason to end the training
    return;
  }
  kernels_of_step_ = std::move(*taken);
}

void TrainingLoop::report_kernels(std::int64_t step) {
  kernels_.merge(kernels_of_step_);
  if (kernels_.empty() || (step % told_every_steps != 0 && step < trainer_.options().steps)) return;
  Value longest = Value::make_array();
  for (const KernelTime& kernel : kernels_.longest(told_kernels)) {
    Value one = Value::make_table();
    one.set("name", kernel.name);
    one.set("count", kernel.count);
    one.set("seconds", 1e-9 * static_cast<double>(kernel.ns));
    longest.push_back(std::move(one));
  }
  Value fields = Value::make_table();
  fields.set("step", step);
  fields.set("compute_s", 1e-9 * static_cast<double>(kernels_.compute_ns()));
  fields.set("communication_s", 1e-9 * static_cast<double>(kernels_.communication_ns()));
  if (options_.kernel_timer && options_.kernel_timer->lost() > 0) fields.set("lost", options_.kernel_timer->lost());
  fields.set("longest", std::move(longest));
  events_.write("kernels", std::move(fields));
  kernels_.clear();
}

}  // namespace longhaul
