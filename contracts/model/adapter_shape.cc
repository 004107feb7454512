#include "contracts/model/adapter_shape.h"

#include <cmath>

namespace longhaul {

double AdapterShape::factor() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

const FieldTable<AdapterShape>& adapter_fields() {
  using A = AdapterShape;
  static const auto table =
      FieldTable<A>()
          .field("kind", &A::kind,
                 {.help = "what is trained in place of the weights: lora and dora two thin matrices beside each, ia3 a "
                          "factor of its rows or columns; none trains the weights",
                  .choices = {"none", "lora", "dora", "ia3"}})
          .field("rank", &A::rank, {.help = "lora, dora: width of the thin matrices", .min = 1, .max = 8192})
          .field("alpha", &A::alpha, {.help = "lora, dora: their product is scaled by alpha / rank", .min = 0})
          .field("rslora", &A::rslora, {.help = "lora, dora: scaled by alpha / sqrt(rank) instead"})
          .field("targets", &A::targets,
                 {.help = "matrices that are adapted: last parts of names (\"q_proj\"), or names in which * stands for "
                          "anything; empty: all of attention and feed-forward (ia3: k_proj, v_proj, down_proj)"});
  return table;
}

}  // namespace longhaul
