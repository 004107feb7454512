// An adapter: a few numbers that are trained in place of a model's weights, which stay as they are. The kinds are those
// that change weights, W [out, in], so that one model serves forward, backward and export; s = alpha / rank, or with
// rslora alpha / sqrt(rank):
//   lora  W' = W + s B A, A [rank, in], B [out, rank] (Hu et al. 2021; rank-stabilised: Kalajdzievski 2023)
//   dora  W' = m (W + s B A) / |W + s B A| of each row, m [out]; no gradient goes through the norm (Liu et al. 2024,
//         section 4.3)
//   ia3   W' = l W, of rows for q, k, v, gate and up (l [out]), of columns for o and down (l [in]) (Liu et al. 2022)
// Drop-out of an adapter's input has no such form, and is not there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct AdapterShape {
  std::string kind = "none";  // none | lora | dora | ia3
  std::int64_t rank = 8;
  double alpha = 8;
  bool rslora = false;
  // Matrices that are adapted: the last parts of a name ("q_proj", "mlp.c_proj"), or a whole name in which * stands for
  // anything. Empty: all of attention and of a dense feed-forward; with ia3 k_proj, v_proj and down_proj.
  std::vector<std::string> targets;
  // What the weights that stay as they are are held in (contracts/model/coded_weights.h): full, the type that computes;
  // int8, int4 or nf4.
  std::string base_weights = "full";

  bool on() const { return kind != "none"; }
  bool low_rank() const { return kind == "lora" || kind == "dora"; }
  double factor() const;  // s
  bool operator==(const AdapterShape&) const = default;
};
const FieldTable<AdapterShape>& adapter_fields();
// Keys that say nothing to the kind (invalid_input, all in one).
Status check_adapter(const AdapterShape& adapter);

}  // namespace longhaul
