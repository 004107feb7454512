// A global batch that grows: small batches learn faster per sample early in a training (McCandlish et al. 2018,
// 1812.06162), large ones use the machine better. The rule is Megatron-LM's --rampup-batch-size: from `start` in equal
// steps of `increment` up to the configured global batch, spread evenly over the first `samples` samples. What counts
// is how many samples were consumed, not how many steps were made, so a training that goes on from a checkpoint, or in
// another layout, has the same batches.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error/result.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

struct BatchRampup {
  std::int64_t start = 0;      // sequences of the first step; 0: no ramp-up
  std::int64_t increment = 0;  // sequences
  std::int64_t samples = 0;    // sequences; the full batch comes after these
};

const FieldTable<BatchRampup>& batch_rampup_fields();

// Errors name the key that is wrong. Every batch on the way must divide by `divisor`, what all ranks compute at once:
// micro_batch_size times the data-parallel ranks; 1 where the layout is not known yet.
Status check_batch_rampup(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t divisor);

// Of a ramp-up that was checked. The batch of the step that begins when `consumed` samples (>= 0) were consumed:
// start + floor(consumed / (samples / increments)) * increment, and the full batch once consumed > samples.
std::int64_t global_batch_size_at(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t consumed);

// Every batch that a checked ramp-up may come to, ascending; without one the full batch alone.
std::vector<std::int64_t> batch_sizes(const BatchRampup& rampup, std::int64_t global_batch_size);

// Samples that the first `steps` steps consume.
std::int64_t samples_of_steps(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t steps);
// The fewest steps that consume `samples` samples or more.
std::int64_t steps_of_samples(const BatchRampup& rampup, std::int64_t global_batch_size, std::int64_t samples);

}  // namespace longhaul
