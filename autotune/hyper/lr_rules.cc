#include "autotune/hyper/lr_rules.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul::hyper {

Result<OptimizerSettings> scale_with_batch(const OptimizerSettings& settings, double kappa) {
  if (!(kappa > 0) || !std::isfinite(kappa))
    return make_error(ErrorCode::invalid_input, format("a batch of {:g} times the one before", kappa),
                      "give the ratio of two batch sizes");
  const double largest = 1 / (1 - std::min(settings.beta1, settings.beta2));
  if (kappa > largest * (1 - 1e-9))
    return make_error(
        ErrorCode::invalid_input,
        format("with {:g} times the batch the square-root rule leaves nothing of beta1 = {:g} and beta2 = {:g}", kappa,
               settings.beta1, settings.beta2),
        format("it holds below {:g} times; tune again at the larger batch", largest));
  OptimizerSettings scaled = settings;
  scaled.lr *= std::sqrt(kappa);
  scaled.beta1 = 1 - kappa * (1 - settings.beta1);
  scaled.beta2 = 1 - kappa * (1 - settings.beta2);
  scaled.eps /= std::sqrt(kappa);
  scaled.weight_decay *= std::sqrt(kappa);
  if (settings.warmup_steps > 0)
    scaled.warmup_steps = std::max<std::int64_t>(1, std::llround(static_cast<double>(settings.warmup_steps) / kappa));
  return scaled;
}

}  // namespace longhaul::hyper
