// The only door to oneDNN.
#pragma once

#include <string>

#include "engine/ops/cpu/gemm/choose_product.h"
#include "engine/ops/linear/gemm.h"

namespace longhaul::cpu {

// false: oneDNN has no fast primitive for this case; nothing was written. bias [n] of c's type is added to every row;
// empty: none.
bool onednn_gemm(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c,
                 ConstView bias = {});
// Whether each case of such A and B gets code of its own.
bool onednn_compiles(const ComputeContext& context, DType ab);
// The instruction set that oneDNN uses here, ONEDNN_MAX_CPU_ISA and the like heeded: "avx2", "avx512_core_bf16", ...
std::string onednn_level();

// What this processor and the library have, as far as the context may use them.
ProductMeans product_means(const ComputeContext& context);

}  // namespace longhaul::cpu
