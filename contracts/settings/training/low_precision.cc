#include "contracts/settings/training/low_precision.h"

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {

const FieldTable<LowPrecisionSettings>& low_precision_fields() {
  using L = LowPrecisionSettings;
  static const auto table =
      FieldTable<L>()
          .field(
              "recipe", &L::recipe,
              {.help = "formats and scales of the linear layers' products. FP8 (E4M3, gradients E5M2) with one scale "
                       "per tensor: delayed takes it from the steps before, current from the tensor itself. "
                       "blockwise: E4M3, a scale for 1 x 128, of weights 128 x 128. mxfp8, mxfp6, mxfp4: a scale "
                       "for 32 neighbours (OCP MX). Processors compute them by rounding operands (emulation)",
               .choices = {"none", "delayed", "current", "blockwise", "mxfp8", "mxfp6", "mxfp4"}})
          .field("mxfp6_element", &L::mxfp6_element,
                 {.help = "elements of mxfp6: e2m3 is finer, e3m2 reaches further", .choices = {"e2m3", "e3m2"}})
          .field("scale_rounding", &L::scale_rounding,
                 {.help = "of mxfp8, mxfp6 and mxfp4: up lets no element saturate; floor is the rule of OCP MX, with "
                          "which long trainings may diverge",
                  .choices = {"up", "floor"}})
          .field("amax_history", &L::amax_history,
                 {.unit = "steps",
                  .help = "delayed: the scale comes from the largest magnitude of so many steps before",
                  .min = 1,
                  .max = 65536})
          .field("margin", &L::margin,
                 {.unit = "bits",
                  .help = "delayed and current: the largest magnitude is scaled to the format's largest number over "
                          "2^margin",
                  .min = 0,
                  .max = 8})
          .field("first_layers_bf16", &L::first_layers_bf16,
                 {.unit = "layers", .help = "the first so many layers compute in `precision`", .min = 0, .max = 1e6})
          .field("last_layers_bf16", &L::last_layers_bf16,
                 {.unit = "layers", .help = "the last so many layers compute in `precision`", .min = 0, .max = 1e6})
          .field("check_every_steps", &L::check_every_steps,
                 {.unit = "steps",
                  .help = "measure at the start and this often what the formats do to each layer, and let it compute "
                          "in `precision` while a limit below is passed; 0 never, all layers use the recipe",
                  .min = 0,
                  .max = 1e12})
          .field("flushed_max", &L::flushed_max,
                 {.help = "largest share of an operand's values that may become zero", .min = 0, .max = 1})
          .field("saturated_max", &L::saturated_max,
                 {.help = "largest share of an operand's values that may lie above the format's range",
                  .min = 0,
                  .max = 1})
          .field("snr_min_db", &L::snr_min_db,
                 {.unit = "dB", .help = "least signal-to-noise ratio of a product", .min = 0, .max = 100});
  return table;
}

namespace {

Status refuse(std::string what, std::string hint) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

// Blocks lie along what a product sums over. One that began on one rank and ended on another would have two scales.
Status check_blocks(const LowPrecisionSettings& settings, const ModelShape& shape, const ParallelDims& dims) {
  const std::int64_t block = settings.block();
  struct Width {
    const char* name;
    std::int64_t size, parts;
  };
  for (const Width& w : {Width{"model.hidden_size", shape.hidden_size, 1},
                         Width{"the width of all query heads", shape.q_size(), dims.tp},
                         Width{"the width of all key heads", shape.kv_size(), dims.tp},
                         Width{"model.intermediate_size", shape.intermediate_size, dims.tp}})
    if (w.size % (w.parts * block) != 0)
      return refuse(
          format("low_precision.recipe = \"{}\" needs whole blocks of {}: {} = {}{} is no multiple", settings.recipe,
                 block, w.name, w.size, w.parts > 1 ? format(" over parallel.tp = {} ranks", w.parts) : ""),
          "use another size or a smaller tp, or recipe = \"delayed\", which has no blocks");
  return {};
}

}  // namespace

Status check_low_precision(const LowPrecisionSettings& settings, const ModelShape& shape, const ParallelDims& dims,
                           std::int64_t sequence_length) {
  const LowPrecisionSettings& s = settings;
  if (!s.on()) return {};
  EngineCase asked;
  asked.shape = shape, asked.dims = dims, asked.low_precision = s, asked.sequence_length = sequence_length;
  LH_CHECK(check_engine(asked));
  if (s.first_layers_bf16 + s.last_layers_bf16 >= shape.num_hidden_layers)
    return refuse(format("low_precision.first_layers_bf16 = {} and last_layers_bf16 = {} leave none of {} layers",
                         s.first_layers_bf16, s.last_layers_bf16, shape.num_hidden_layers),
                  "make them smaller, or set recipe = \"none\"");
  if (s.in_blocks()) return check_blocks(s, shape, dims);
  return {};
}

}  // namespace longhaul
