#include "contracts/settings/stages/tune.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

FieldOptions allowed_sizes(const std::string& what) {
  return {.help = what + " that the search may choose; empty is any that divides", .min = 1, .max = 1 << 16};
}

}  // namespace

const FieldTable<TuneSettings>& tune_fields() {
  using T = TuneSettings;
  static const auto table =
      FieldTable<T>()
          .field("steps", &T::steps,
                 {.unit = "steps", .help = "of one trial, warm-up included", .min = 4, .max = 100000})
          .field("warmup_steps", &T::warmup_steps,
                 {.unit = "steps", .help = "of those, the first ones that are not measured", .min = 0, .max = 100000})
          .field("max_runs", &T::max_runs,
                 {.unit = "trials",
                  .help = "short jobs that may confirm the choice; 0 runs none and takes the best prediction",
                  .min = 0,
                  .max = 1000})
          .field("at_once", &T::at_once,
                 {.unit = "trials",
                  .help = "of one round: what it shows may save those that would come after it",
                  .min = 1,
                  .max = 1000})
          .field("confidence", &T::confidence,
                 {.help = "of the intervals that distinguish candidates", .min = 0.5, .max = 0.999})
          .field("phase", &T::phase,
                 {.help = "of a training in phases, the one that trials train; empty is the one with the longest "
                          "sequences, which needs most memory"})
          .field("tp", &T::tp, allowed_sizes("tensor-parallel sizes"))
          .field("pp", &T::pp, allowed_sizes("pipeline-parallel sizes"))
          .field("cp", &T::cp, allowed_sizes("context-parallel sizes"))
          .field("ep", &T::ep, allowed_sizes("expert-parallel sizes"))
          .field("micro_batch_size", &T::micro_batch_size, allowed_sizes("micro-batch sizes"));
  return table;
}

Status check_tune(const TuneSettings& settings) {
  constexpr std::int64_t measured_min = 3;
  if (settings.steps - settings.warmup_steps < measured_min)
    return make_error(
        ErrorCode::invalid_input,
        format("steps = {} leaves {} to measure behind warmup_steps = {}", settings.steps,
               std::max<std::int64_t>(0, settings.steps - settings.warmup_steps), settings.warmup_steps),
        format("at least {}: use steps = {} or more", measured_min, settings.warmup_steps + measured_min));
  return {};
}

}  // namespace longhaul
