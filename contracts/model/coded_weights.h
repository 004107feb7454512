// Weights that stay as they are while an adapter is trained, held in fewer bits (QLoRA, Dettmers et al. 2023, section
// 3): the matrices of the blocks. Each 64 elements of a matrix, row by row, are a block with its largest magnitude in
// f32, and a code for each element:
//   int8  8 bits, code / 127 of it      int4  4 bits, code / 7 of it
//   nf4   4 bits, one of 16 quantiles of a normal distribution (their appendix E), as bitsandbytes has them
// Everything else (tables, norms, biases, routers, the output) is held in the type that computes.
#pragma once

#include <string>

#include "contracts/model/parameter_layout.h"

namespace longhaul {

inline constexpr std::int64_t coded_block = 64;

// `format`: adapter.base_weights, of which "full" codes nothing.
bool is_coded(const std::string& format, const ParameterSpec& spec);
// Codes and scales of a matrix of so many elements.
std::int64_t coded_bytes(const std::string& format, std::int64_t elements);
// What a rank holds of a model, which computes with `width` bytes an element.
std::int64_t held_bytes(const std::string& format, const ParameterLayout& model, std::int64_t width);
// Every rank's part of a matrix has to be whole blocks, so that no layout changes a code (unsupported, with the first
// that is not).
Status check_coded_blocks(const std::string& format, const ParameterLayout& model);

}  // namespace longhaul
