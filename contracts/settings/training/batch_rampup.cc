#include "contracts/settings/training/batch_rampup.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

const FieldTable<BatchRampup>& batch_rampup_fields() {
  using B = BatchRampup;
  static const auto table =
      FieldTable<B>()
          .field("start", &B::start,
                 {.unit = "sequences", .help = "batch of the first step; 0: no ramp-up", .min = 0, .max = 1e9})
          .field("increment", &B::increment,
                 {.unit = "sequences", .help = "by how much it grows at a time", .min = 0, .max = 1e9})
          .field("samples", &B::samples,
                 {.unit = "sequences",
                  .help = "over how many it grows, evenly, up to global_batch_size",
                  .min = 0,
                  .max = 1e15});
  return table;
}

Status check_batch_rampup(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t divisor) {
  const auto refuse = [](std::string what, std::string hint = {}) {
    return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
  };
  if (rampup.start == 0) {
    if (rampup.increment == 0 && rampup.samples == 0) return {};
    return refuse(
        format("batch_rampup.increment = {} and samples = {} without a start", rampup.increment, rampup.samples),
        "start is the batch of the first step");
  }
  if (rampup.start < 0) return refuse(format("batch_rampup.start = {} is negative", rampup.start));
  if (rampup.increment < 1) return refuse(format("batch_rampup.increment = {} is not positive", rampup.increment));
  if (rampup.samples < 1) return refuse(format("batch_rampup.samples = {} is not positive", rampup.samples));
  const std::int64_t growth = global_batch_size - rampup.start;
  if (growth < 0)
    return refuse(
        format("batch_rampup.start = {} is larger than global_batch_size = {}", rampup.start, global_batch_size));
  if (growth % rampup.increment != 0)
    return refuse(format("batch_rampup.start = {}: global_batch_size = {} is not reached in steps of increment = {}",
                         rampup.start, global_batch_size, rampup.increment),
                  format("the difference is {}: take a divisor of it", growth));
  if (rampup.start % divisor != 0 || (growth > 0 && rampup.increment % divisor != 0))
    return refuse(
        format("batch_rampup.start = {} and increment = {} must both divide by {}, which all ranks compute at "
               "once",
               rampup.start, rampup.increment, divisor),
        "that is micro_batch_size times the data-parallel ranks");
  return {};
}

std::int64_t global_batch_size_at(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t consumed) {
  const std::int64_t growth = global_batch_size - rampup.start;
  if (rampup.start == 0 || growth == 0 || consumed > rampup.samples) return global_batch_size;
  // In double, as the original: the same batches to the last sample.
  const double per_increment = static_cast<double>(rampup.samples) / static_cast<double>(growth / rampup.increment);
  const auto increments = static_cast<std::int64_t>(static_cast<double>(consumed) / per_increment);
  return std::min(global_batch_size, rampup.start + increments * rampup.increment);
}

std::vector<std::int64_t> batch_sizes(const BatchRampup& rampup, std::int64_t global_batch_size) {
  std::vector<std::int64_t> sizes;
  if (rampup.start > 0)
    for (std::int64_t size = rampup.start; size < global_batch_size; size += rampup.increment) sizes.push_back(size);
  sizes.push_back(global_batch_size);
  return sizes;
}

std::int64_t samples_of_steps(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t steps) {
  std::int64_t consumed = 0;
  for (; steps > 0; --steps) {
    const std::int64_t batch = global_batch_size_at(rampup, global_batch_size, consumed);
    if (batch == global_batch_size) return consumed + steps * batch;  // and stays
    consumed += batch;
  }
  return consumed;
}

std::int64_t steps_of_samples(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t samples) {
  std::int64_t consumed = 0, steps = 0;
  for (; consumed < samples; ++steps) {
    const std::int64_t batch = global_batch_size_at(rampup, global_batch_size, consumed);
    if (batch == global_batch_size) return steps + (samples - consumed + batch - 1) / batch;
    consumed += batch;
  }
  return steps;
}

}  // namespace longhaul
