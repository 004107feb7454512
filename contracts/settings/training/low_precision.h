// Products of the linear layers in fewer bits than `precision` (group `low_precision` of pretrain and sft): which
// formats, how their scales are found, which layers keep out of it. docs/precision.md describes the recipes.
#pragma once

#include <string>

#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/schema/field_table.h"

namespace longhaul {

struct LowPrecisionSettings {
  std::string recipe = "none";         // none | delayed | current | blockwise | mxfp8 | mxfp6 | mxfp4
  std::string mxfp6_element = "e2m3";  // or e3m2
  std::string scale_rounding = "up";   // or floor, of mxfp8, mxfp6 and mxfp4
  std::int64_t amax_history = 1024;    // steps; delayed
  std::int64_t margin = 0;             // bits; delayed and current
  std::int64_t first_layers_bf16 = 0;  // keep `precision`
  std::int64_t last_layers_bf16 = 0;
  std::int64_t check_every_steps = 100;  // 0: never
  double flushed_max = 0.25;             // shares of an operand's values
  double saturated_max = 0.01;
  double snr_min_db = 10;  // of a product

  bool on() const { return recipe != "none"; }
  bool in_blocks() const { return on() && recipe != "delayed" && recipe != "current"; }
  // Neighbours along a sum that share a scale, where scales are of blocks.
  std::int64_t block() const { return recipe == "blockwise" ? 128 : 32; }
};
const FieldTable<LowPrecisionSettings>& low_precision_fields();

// What does not go together, with the model or with the layout; the error names it. sequence_length: of all samples; 0:
// they differ.
Status check_low_precision(const LowPrecisionSettings& settings, const ModelShape& shape, const ParallelDims& dims,
                           std::int64_t sequence_length);

}  // namespace longhaul
