// Tuning a narrow model instead of a wide one: muTransfer (Yang et al. 2022, "Tensor Programs V", 2203.03466). In the
// maximal update parametrization the best learning rate does not change with the width; so what a proxy of width m was
// tuned to holds for a target of width r m after these changes (table 8, column Adam, relative to the proxy; it is the
// one of the equivalent tables that allows tied embeddings):
//
//   group                                  lr      initial deviation   output multiplied by
//   input: embedding, positions            1       1                   1
//   vectors: norms, biases                 1       1 (0 and 1 stay)    1
//   hidden matrices (fan-in grows by r)    1 / r   1 / sqrt(r)         1
//   output layer, router of experts        1       1                   1 / r
//
// and attention logits divide by d instead of sqrt(d): with the same head_dim in both, which proxy_shape keeps, that is
// the same model. Depth, batch size and the number of steps are outside the theory (the paper finds transfer across
// them by experiment, within limits). AdamW's decay per step is lr * weight_decay: where lr is divided by r,
// weight_decay is multiplied by r, so that weights are forgotten as slowly as before (Wang & Aitchison 2024,
// 2405.13698).
//
// What this engine takes is one lr, one initializer_range for the matrices and one for embedding and output
// layer. EngineTransfer is the nearest to the table in these terms: lr / r, which is exact for hidden matrices - nearly
// all weights of a wide model - and too small by r for embeddings, norms and biases. It says so in `approximations`.
#pragma once

#include <string>
#include <vector>

#include "contracts/model/model_shape.h"
#include "contracts/settings/training/training.h"

namespace longhaul::hyper {

// Factors from the proxy's settings to the target's.
struct GroupTransfer {
  std::string group;  // "embedding", "norms and biases", "query, key, value", ...
  double lr = 1, init = 1, output = 1;
};

struct MupTransfer {
  double width_ratio = 1;  // r: hidden_size of the target by that of the proxy
  std::vector<GroupTransfer> groups;
  std::vector<std::string> approximations;  // what the table does not cover between these two shapes
};
// Of resolved shapes. An error where they are not two widths of one model.
Result<MupTransfer> mup_transfer(const ModelShape& proxy, const ModelShape& target);

// The same as settings of the engine: the target with its initialisation, and the proxy's tuned optimizer moved to it.
struct EngineTransfer {
  ModelShape target;
  OptimizerSettings optimizer;
  std::vector<std::string> approximations;  // one sentence each, those of MupTransfer first
};
Result<EngineTransfer> transfer_to_engine(const ModelShape& proxy, const OptimizerSettings& tuned,
                                          const ModelShape& target);

// A narrow model to tune instead of `target` (resolved): the same depth, head_dim, vocabulary and group of query heads
// for each key head, every width divided by nearly the same number; hidden_size is the nearest to `hidden_size` that
// the heads allow. Where not even one group is narrow enough, a smaller group is taken (at least one head). An error if
// that is no narrower than the target.
Result<ModelShape> proxy_shape(const ModelShape& target, std::int64_t hidden_size);

}  // namespace longhaul::hyper
