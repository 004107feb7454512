// How long one step of a server takes: a token of every running answer and a piece of new prompts together, as
// continuous batching does it (Yu et al. 2022, Orca; Agrawal et al. 2024, Sarathi: pieces of prompts ride along).
// Roofline (Williams, Waterman & Patterson 2009): a product takes the longer of its arithmetic and of reading its
// weights, attention of an answer the longer of its arithmetic and of reading its cache. Two sums over the tp group a
// layer (Shoeybi et al. 2019). Of E experts m tokens with k each touch E (1 - (1 - k/E)^m), if drawn evenly.
#pragma once

#include "autotune/inference/serving_task.h"
#include "contracts/model/model_shape.h"

namespace longhaul {

struct StepWork {
  double decodes = 0, context = 0;         // answers, and tokens of cache that each reads
  double prefill = 0, prefill_before = 0;  // tokens of prompts, and tokens before one of them, on average
  double ended_prompts = 0;                // prompts whose last token is among them: they get logits
};

struct ServingStepTime {
  double products = 0, attention = 0, streams = 0, messages = 0, host = 0;  // seconds
  double total() const { return products + attention + streams + messages + host; }
};

// layout.slots, block and chunk are not looked at.
ServingStepTime serving_step_time(const ModelShape& shape, const ServingLayout& layout, const ServingPlace& place,
                                  const StepWork& work);

}  // namespace longhaul
