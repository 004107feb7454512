// Room engine/ops/cpu/gemm
// Matrix products on the processor: oneDNN's, or our own packed product, behind engine/ops/linear/gemm.h.
// choose_product.h says which of the two computes a case; gemm_onednn.h alone calls oneDNN.
// packed_gemm.h is the own product; packed_tiles.inc is compiled once for each instruction set.
// It knows no products of few rows or few bits: those are engine/ops/cpu/linear.
//
// The engine's own matrix product, for every level of instructions and both types: blocks of A and B are copied into
// panels as the register tile reads them, widened to f32 on the way, so bf16 operands cost no more than f32 ones. The
// loops are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008).
// Every element of C is summed in f32 in an order that k and the level alone decide: the same bits for any number of
// threads, and for any rows of A or columns of B computed beside it. A C of bf16 is rounded once.
#pragma once

#include "engine/ops/cpu/gemm/gemm_case.h"

namespace longhaul::cpu {

// C as in gemm.h; m, n > 0, no bias. Takes scratch slot 3 of the context, packed_gemm_scratch bytes at most.
void packed_gemm(const ComputeContext& context, const GemmCase& c, ConstView a, ConstView b, View out);

// At most what contracts/plan/memory_plan.h plans for it: packed_product_bytes_max.
std::int64_t packed_gemm_scratch(const ComputeContext& context, const GemmCase& c);

}  // namespace longhaul::cpu
