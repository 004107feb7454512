// Room engine/quantize
// The stage `quantize`: weights in eight or four bits, and what that costs in perplexity.
// quantize.h is the stage's work; weight_format.h how weights of few bits are laid out and scaled
// on disk; int8.h the simplest of them. Products with such weights are engine/ops/linear's.
// It knows no task and no launch: engine/tasks/stages calls it.
//
// The quantize stage: smaller weights, and what they cost in perplexity on held-out text.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"
#include "contracts/settings/stages/inference.h"
#include "engine/model/inference/inference_model.h"

namespace longhaul {

// Perplexity over windows of `window` tokens that do not overlap, each token but a window's first counted once: the
// protocol of the GPTQ, AWQ and SmoothQuant tables. exp(sum of -log p / counted tokens).
struct PerplexityResult {
  double nats = 0;  // sum of -log p
  std::int64_t tokens = 0;
  double perplexity() const;
};
Result<PerplexityResult> measure_perplexity(const ComputeContext& context, InferenceModel& model,
                                            std::span<const std::int32_t> tokens, std::int64_t window,
                                            const std::function<Status(double fraction)>& progress);

struct QuantizeInputs {
  std::string model_folder;
  std::string tokens_folder;  // heldout.bin/.idx; "": perplexity is not measured
  std::string output_dir;
};
// Figures by name: bytes_before, bytes_after, and with held-out text perplexity_before, perplexity_after,
// perplexity_loss_pct, perplexity_tokens. An error when the loss is above settings.perplexity_loss_max_pct, or when it
// cannot be measured though a bar was given. `progress` may refuse to go on.
Result<Value> quantize_model(const QuantizeInputs& inputs, const QuantizeSettings& settings,
                             const ComputeContext& context, const std::function<Status(double fraction)>& progress);

}  // namespace longhaul
