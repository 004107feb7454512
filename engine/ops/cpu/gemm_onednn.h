// The only door to oneDNN.
#pragma once

#include "engine/ops/gemm.h"

namespace longhaul::cpu {

// false: oneDNN has no fast primitive for this case; nothing was written. bias [n] of c's type is added to every row;
// empty: none.
bool onednn_gemm(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c,
                 ConstView bias = {});
bool onednn_has(const ComputeContext& context, const GemmShape& shape, DType ab, DType c);

}  // namespace longhaul::cpu
