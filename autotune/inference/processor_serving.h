// A step of our own server on a rank of a processor, from what its operations were seen to take there
// (contracts/plan/serving_speed.h). A product costs a call and, for each of its weights, a time that depends on two
// things: how many rows it has (the engine's path for few tokens reads memory, its path for many multiplies) and how
// many bytes of weights a step reads, which decides what cache they come from. Between what was timed it is
// interpolated: linearly in the rows, linearly in the logarithm of the bytes. Attention to caches costs its arithmetic
// by heads of queries, and reading keys and values by heads of these, again by how many bytes a step reads.
#pragma once

#include "autotune/inference/serving_time.h"
#include "contracts/plan/serving_speed.h"

namespace longhaul {

// Seconds of a weight of a product of `rows` rows where a step reads `bytes` of weights. Beyond the most rows that were
// timed the arithmetic of a row counts; beyond the most bytes nothing changes.
double weight_seconds(const ServingSpeed& speed, double rows, double bytes);
// Of an element of keys and the one of values beside it, where a step reads `bytes`.
double cache_seconds(const ServingSpeed& speed, double bytes);

// As serving_step_time, of dense weights in the precision that was measured. place.processor is known.
ServingStepTime processor_step_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                                    const StepWork& work);
// Were these weights' products timed? Quantized ones are unpacked, which nobody has timed.
bool is_timed_there(const ServingPlace& place, const ServingLayout& layout);

}  // namespace longhaul
