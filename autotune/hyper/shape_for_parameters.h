// A sensible shape for a number of parameters: all shapes that fit tensor parallelism are looked at, and of those
// within 2 % of the target the one of the most usual proportions is taken. There is no table of sizes.
//
// What is usual: about 128 units of width per layer (Kaplan et al. 2020, 2001.08361, section 3: the loss changes by
// little over a wide range around it; narrower for models of few parameters, whose depth would else be one or two), a
// feed-forward of 8/3 of the width (Shazeer 2020, 2002.05202, where SwiGLU has as many weights as the usual 4), or 3.5
// where key heads are few, as in Llama 3 (2407.21783, table 3).
#pragma once

#include <cstdint>

#include "contracts/model/model_shape.h"

namespace longhaul::hyper {

struct ShapeWish {
  double parameters = 0;
  std::int64_t vocab_size = 128'256;
  std::int64_t sequence_length = 4096;  // max_position_embeddings
  std::int64_t tp_max = 8;              // heads, key heads and feed-forward divide by it where the model is wide enough
  std::int64_t key_value_heads = 8;     // at most; at least one per query head where there are fewer of these
  std::int64_t head_dim = 128;          // half of it for models narrower than 8 heads of it
};

struct ShapeFound {
  ModelShape shape;  // resolved
  double deviation;  // (parameters - wanted) / wanted
  std::int64_t tp;   // what heads, key heads and feed-forward divide by, up to tp_max
};

// A llama shape. Its embedding is tied where the two tables would have more than a fifth of the parameters. Where
// nothing is within 2 %, which happens where the embedding alone is most of the model, the nearest. An error where the
// embedding alone is more than the target.
Result<ShapeFound> shape_for_parameters(const ShapeWish& wish);

}  // namespace longhaul::hyper
