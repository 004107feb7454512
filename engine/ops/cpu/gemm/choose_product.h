// Whose product computes A B of a type: oneDNN's, or the packed one (packed_gemm.h).
#pragma once

#include "engine/core/tensor/dtype.h"

namespace longhaul::cpu {

enum class ProductPath { library, packed };

struct ProductMeans {
  bool library_allowed = false;  // CpuLevel::best: a run that wants the same bits on unlike nodes has no library
  bool multiplies_bf16 = false;  // an instruction: AVX512_BF16, AMX, Arm's BFMMLA
  bool library_f32 = false, library_bf16 = false;  // the library has more than its reference for the type
};

// The library computes what an instruction multiplies and it has code for. bf16 without such an instruction would be
// emulated there, or refused: the packed product widens it while it packs, at the cost of f32.
constexpr ProductPath choose_product(DType ab, const ProductMeans& means) {
  const bool library = ab == DType::bf16 ? means.multiplies_bf16 && means.library_bf16 : means.library_f32;
  return means.library_allowed && library ? ProductPath::library : ProductPath::packed;
}

}  // namespace longhaul::cpu
