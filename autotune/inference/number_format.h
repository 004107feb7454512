// In which numbers a server holds weights and cache, and how many bytes that takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/hardware/gpu_type.h"
#include "base/error/result.h"

namespace longhaul {

//   f32, bf16  as they are
//   fp8        E4M3, one scale per matrix; products in fp8
//   int8       one f32 scale per output channel; unpacked, products in bf16 (the `quantize` stage's format)
//   int4       groups of 128 inputs with a two-byte scale (GPTQ, AWQ); unpacked, products in bf16
//   fp4        groups of 16 inputs with a one-byte scale (NVFP4); products in fp4
// Embedding, output, norms and routers stay in bf16 (f32 with f32), as quantizers leave them.
enum class WeightFormat { f32, bf16, fp8, int8, int4, fp4 };
const char* to_string(WeightFormat format);
const std::vector<WeightFormat>& all_weight_formats();
// Bytes of a matrix [out, in] with its scales.
double matrix_bytes(WeightFormat format, double out, double in);
Precision product_precision(WeightFormat format);
bool is_unpacked(WeightFormat format);  // before its products
bool gpu_has(const GpuType& gpu, WeightFormat format);

// int8 has an f32 scale for each head of each token; fp8 one for everything.
enum class CacheFormat { f32, bf16, fp8, int8 };
const char* to_string(CacheFormat format);
const std::vector<CacheFormat>& all_cache_formats();
// Bytes that a token's keys and values take in one layer.
double cache_bytes(CacheFormat format, double heads, double head_dim);
bool gpu_has(const GpuType& gpu, CacheFormat format);

// Errors (invalid_input) name all that there are.
Result<WeightFormat> parse_weight_format(const std::string& name);
Result<CacheFormat> parse_cache_format(const std::string& name);

}  // namespace longhaul
