// Weights that stay as they are while an adapter is trained, held in fewer bits (QLoRA, Dettmers et al. 2023, section
// 3): the matrices of the blocks. Each 64 elements of a matrix, row by row, are a block with its largest magnitude in
// f32, and a code for each element:
//   int8  8 bits, code / 127 of it      int4  4 bits, code / 7 of it
//   nf4   4 bits, one of 16 quantiles of a normal distribution (their appendix E), as bitsandbytes has them
// Everything else (tables, norms, biases, routers, the output) is held in the type that computes.
#pragma once

#include <string>
#include <vector>

#include "contracts/model/parameter_layout.h"

namespace longhaul {

inline constexpr std::int64_t coded_block = 64;

// `format`: adapter.base_weights, of which "full" codes nothing.
bool is_coded(const std::string& format, const ParameterSpec& spec);
// Blocks of a matrix of so many elements, and the bytes of its codes, without scales.
std::int64_t coded_blocks(std::int64_t elements);
std::int64_t code_bytes(const std::string& format, std::int64_t elements);

// Where a rank has such weights: an array of bytes in which each unit of the model's layout is a range, in their order.
// In a unit there are, each from a multiple of 64 bytes on and in the order of the flat array, the matrices that have
// codes, as codes and then scales (f32), and what lies between two of them, as it computes. Ranks share the bytes of a
// unit as they would share its elements (ShardUnit): with ZeRO 3 each has an equal part of them, whatever they mean.
class CodedLayout {
 public:
  // width: bytes of an element of what has no codes.
  CodedLayout(const std::string& format, const ParameterLayout& model, std::int64_t width);

  struct Part {
    FlatRange flat;        // of the model's flat array: one matrix with codes, or all up to the next one
    std::size_t unit = 0;  // of the layout
    bool has_codes = false;
    std::int64_t values = 0;  // in the unit, the first byte: of the codes, or of the elements
    std::int64_t scales = 0;  // of the scales; without meaning where there are no codes
  };
  // Ascending; they cover the model's flat array.
  const std::vector<Part>& parts() const { return parts_; }
  // Their ranges are bytes.
  const std::vector<ShardUnit>& units() const { return units_; }
  // What this rank has of each unit; packed, its own array.
  const PackedRanges& owned() const { return owned_; }

 private:
  std::vector<Part> parts_;
  std::vector<ShardUnit> units_;
  PackedRanges owned_;
};

// Every rank's part of a matrix has to be whole blocks, so that no layout changes a code (unsupported, with the first
// that is not).
Status check_coded_blocks(const std::string& format, const ParameterLayout& model);

}  // namespace longhaul
