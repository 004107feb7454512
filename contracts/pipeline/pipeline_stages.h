// Which layers stand where in a pipeline. A model is cut into pp * vp global stages in the order of the forward pass;
// chunk c of pipeline rank r is global stage c * pp + r (Narayanan et al. 2021, section 2.2: the model goes round the
// ranks vp times). With vp = 1 a rank is one stage; with more it holds several separate ranges of layers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// Layers [first, last).
struct LayerRange {
  int first = 0, last = 0;
  int count() const { return last - first; }
  bool operator==(const LayerRange&) const = default;
};

// The range of one of `stages` when `layers` are split as evenly as possible, earlier stages first.
LayerRange layers_of_stage(int layers, int stages, int stage);

inline int stage_of_chunk(int pp, int pp_rank, int chunk) {
  return chunk * pp + pp_rank;
}

// The layers of every global stage. Made by the two functions below; a plain value.
struct StageLayout {
  int pp = 1;
  int vp = 1;
  std::vector<int> layers;  // per global stage, pp * vp of them

  int stages() const { return pp * vp; }
  bool operator==(const StageLayout&) const = default;
};

// As layers_of_stage assigns them; with fewer layers than stages the last ones are empty.
StageLayout even_stages(int layers, int pp, int vp = 1);

struct StageLayoutSettings {
  // Layers per global stage, pp * vp numbers that add up to the model's; empty: balanced automatically.
  std::vector<std::int64_t> stage_layers;
  // What the embedding (first stage) and the final norm, output and loss (last stage) cost, in layers, when
  // distributing automatically. 0 and 0 distribute evenly; 1 and 1 is Megatron-LM's
  // account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split.
  double embedding_as_layers = 0;
  double loss_as_layers = 0;
};

// Automatic distribution gives one layer after the other to the stage that has least so far (with what embedding and
// loss count there), the earliest of equals, so the heaviest stage is as light as it can be. The first and the last
// stage may end without a layer, as they have the embedding and the loss to do; a stage between needs one. Errors
// (ErrorCode::invalid_input) name the sum or product that does not fit and the nearest list that does.
Result<StageLayout> resolve_stages(int layers, int pp, int vp, const StageLayoutSettings& settings);

LayerRange layers_of_chunk(const StageLayout& layout, int pp_rank, int chunk);
int stage_of_layer(const StageLayout& layout, int layer);  // its rank is stage % pp, its chunk stage / pp

}  // namespace longhaul
