#include "contracts/settings/training/recompute.h"

#include "base/text/text.h"

namespace longhaul {

const FieldTable<RecomputeSettings>& recompute_fields() {
  using R = RecomputeSettings;
  static const auto table =
      FieldTable<R>()
          .field("modules", &R::modules,
                 {.help =
                      "what of a layer is computed again in the backward pass instead of being kept: norms, attention, "
                      "activation, feed_forward, block (all but the layer's input)",
                  .speed_only = true})
          .field("layers", &R::layers,
                 {.unit = "layers",
                  .help = "only the first so many of each pipeline stage; 0 all",
                  .min = 0,
                  .max = 1e6,
                  .speed_only = true});
  return table;
}

Result<Recompute> recompute_from(const RecomputeSettings& settings) {
  Recompute recompute;
  recompute.layers = settings.layers;
  for (const std::string& name : settings.modules) {
    if (name == "norms") {
      recompute.norms = true;
    } else if (name == "attention") {
      recompute.attention = true;
    } else if (name == "activation") {
      recompute.activation = true;
    } else if (name == "feed_forward") {
      recompute.feed_forward = true;
    } else if (name == "block") {
      recompute.block = true;
    } else {
      return make_error(ErrorCode::invalid_input,
                        format("recompute.modules names \"{}\", which is no part of a layer", name),
                        "use norms, attention, activation, feed_forward or block");
    }
  }
  if (recompute.block) recompute.norms = recompute.attention = recompute.feed_forward = true;
  if (recompute.feed_forward) recompute.activation = true;
  return recompute;
}

}  // namespace longhaul
