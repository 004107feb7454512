#include "engine/model/store/block_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "engine/core/tensor/parallel_for.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/linear/coded_blocks.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

namespace {

// Quantiles of a normal distribution, of which the largest are -1 and 1 and one is 0 (QLoRA, appendix E).
constexpr std::array<float, 16> nf4_values = {-1.0F,
                                              -0.6961928009986877F,
                                              -0.5250730514526367F,
                                              -0.39491748809814453F,
                                              -0.28444138169288635F,
                                              -0.18477343022823334F,
                                              -0.09105003625154495F,
                                              0.0F,
                                              0.07958029955625534F,
                                              0.16093020141124725F,
                                              0.24611230194568634F,
                                              0.33791524171829224F,
                                              0.44070982933044434F,
                                              0.5626170039176941F,
                                              0.7229568362236023F,
                                              1.0F};

// What the codes of one block stand for: values[code] times its scale, in ascending order.
std::vector<float> values_of(const std::string& format) {
  if (format == "nf4") return {nf4_values.begin(), nf4_values.end()};
  const int largest = format == "int8" ? 127 : 7;
  std::vector<float> values;
  for (int code = -largest; code <= largest; ++code)
    values.push_back(static_cast<float>(code) / static_cast<float>(largest));
  return values;
}

// The nearest of ascending values; of two that are as near the lower one.
std::uint8_t nearest(const std::vector<float>& values, float x) {
  const auto above = std::ranges::lower_bound(values, x);
  if (above == values.begin()) return 0;
  const bool is_last = above == values.end();
  const bool takes_above = !is_last && *above - x < x - *(above - 1);
  return static_cast<std::uint8_t>(above - values.begin() - (takes_above ? 0 : 1));
}

// Codes of a matrix, as engine/ops/linear/coded_blocks.h has them.
class CodeBytes {
 public:
  CodeBytes(std::uint8_t* bytes, bool eight) : bytes_(bytes), eight_(eight) {}
  std::uint8_t get(std::int64_t i) const {
    if (eight_) return bytes_[i];
    const unsigned both = bytes_[i / 2];
    return static_cast<std::uint8_t>(i % 2 == 0 ? both >> 4 : both & 15U);
  }
  void set(std::int64_t i, std::uint8_t code) const {
    if (eight_) {
      bytes_[i] = code;
      return;
    }
    const unsigned both = bytes_[i / 2];
    bytes_[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? (both & 15U) | static_cast<unsigned>(code) << 4
                                                         : (both & 240U) | static_cast<unsigned>(code));
  }

 private:
  std::uint8_t* bytes_;
  bool eight_;
};

void encode_block(const std::vector<float>& values, std::span<const float> block, const CodeBytes& codes,
                  std::int64_t first, float& scale) {
  scale = 0;
  for (const float x : block) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < block.size(); ++i)
    codes.set(first + static_cast<std::int64_t>(i), nearest(values, scale > 0 ? block[i] / scale : 0.0F));
}

// Blocks are a whole number of bytes but for the last, so that threads share none.
template <class Use>
void for_blocks(const ComputeContext& context, std::int64_t elements, const Use& use) {
  parallel_for(context, coded_blocks(elements), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      use(block, block * coded_block, std::min(elements, (block + 1) * coded_block));
  });
}

}  // namespace

BlockCodes::BlockCodes(const std::string& format, const ParameterLayout& layout, DType compute, MemoryAccount* account)
    : format_(format),
      compute_(compute),
      values_(values_of(format)),
      layout_(format, layout, dtype_bytes(compute)),
      bytes_(DType::u8, Shape{layout_.owned().size()}, account) {}

const BlockCodes::Part& BlockCodes::part_at(std::int64_t flat) const {
  const auto after =
      std::ranges::upper_bound(layout_.parts(), flat, {}, [](const Part& part) { return part.flat.begin; });
  LH_ASSERT(after != layout_.parts().begin(), std::to_string(flat));
  return *(after - 1);
}

bool BlockCodes::has_any_in(FlatRange flat) const {
  const auto begin_of = [](const Part& part) { return part.flat.begin; };
  const auto first = std::ranges::lower_bound(layout_.parts(), flat.begin, {}, begin_of);
  const auto last = std::ranges::lower_bound(first, layout_.parts().end(), flat.end, {}, begin_of);
  return std::any_of(first, last, [&](const Part& part) { return part.has_codes && part.flat.end <= flat.end; });
}

// Bytes of a unit from `begin` on.
void BlockCodes::keep(const ComputeContext& context, const Part& part, std::int64_t begin, ConstView bytes) {
  const std::int64_t first = units()[part.unit].flat.begin + begin;
  owned().for_each_in({first, first + bytes.size()}, [&](FlatRange here, FlatRange packed) {
    copy_in(context, bytes.rows(here.begin - first, here.end - first), bytes_.view().rows(packed.begin, packed.end));
  });
}

void BlockCodes::put(const ComputeContext& context, const FlatParameter& p, std::span<const float> box) {
  const Part& part = part_at(p.begin);
  if (part.has_codes) return encode(context, part, box);
  const std::int64_t at = part.values + (p.begin - part.flat.begin) * dtype_bytes(compute_);
  const std::vector<bf16> rounded(box.begin(), compute_ == DType::bf16 ? box.end() : box.begin());
  const ConstView values = compute_ == DType::bf16 ? ConstView(rounded) : ConstView(box);
  keep(context, part, at, ConstView(values.data(), DType::u8, Shape{values.bytes()}));
}

void BlockCodes::encode(const ComputeContext& context, const Part& part, std::span<const float> box) {
  const std::int64_t elements = part.flat.size();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(code_bytes(format_, elements)));
  std::vector<float> scales(static_cast<std::size_t>(coded_blocks(elements)));
  const CodeBytes codes(bytes.data(), format_ == "int8");
  for_blocks(context, elements, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    encode_block(values_, part_of(box, {begin, end}), codes, begin, scales[static_cast<std::size_t>(block)]);
  });
  keep(context, part, part.values, ConstView(bytes));
  keep(context, part, part.scales, ConstView(scales.data(), DType::u8, Shape{ConstView(scales).bytes()}));
}

namespace {

// Some of a unit's bytes as what they are.
ConstView elements_of(ConstView unit, std::int64_t begin, DType dtype, std::int64_t count) {
  const ConstView bytes = unit.rows(begin, begin + count * dtype_bytes(dtype));
  return ConstView(bytes.data(), dtype, Shape{count});
}

}  // namespace

ConstView BlockCodes::kept(FlatRange flat, ConstView unit) const {
  const Part& part = part_at(flat.begin);
  LH_ASSERT(!part.has_codes && flat.end <= part.flat.end, "weights that are held in codes, and were not widened");
  const std::int64_t at = part.values + (flat.begin - part.flat.begin) * dtype_bytes(compute_);
  return elements_of(unit, at, compute_, flat.size());
}

void BlockCodes::decode(const ComputeContext& context, const Part& part, ConstView unit, View out) const {
  CodedBlocks from;
  from.elements = part.flat.size(), from.block = coded_block, from.bits = format_ == "int8" ? 8 : 4;
  from.values = values_;
  from.codes = elements_of(unit, part.values, DType::u8, code_bytes(format_, from.elements));
  from.scales = elements_of(unit, part.scales, DType::f32, coded_blocks(from.elements)).span<float>();
  decode_blocks(context, from, out);
}

void BlockCodes::widen(const ComputeContext& context, FlatRange flat, ConstView unit, View out) const {
  for (const Part* part = &part_at(flat.begin); part != layout_.parts().data() + layout_.parts().size(); ++part) {
    const FlatRange here = intersection(part->flat, flat);
    if (here.size() == 0) break;
    LH_ASSERT(!part->has_codes || here == part->flat, "a part of a matrix that is held in codes");
    const View to = out.rows(here.begin - flat.begin, here.end - flat.begin);
    part->has_codes ? decode(context, *part, unit, to) : cast(context, kept(here, unit), to);
  }
}

void round_to_codes(const std::string& format, std::span<float> values) {
  const std::vector<float> stands_for = values_of(format);
  std::array<std::uint8_t, coded_block> bytes{};
  const CodeBytes codes(bytes.data(), true);
  for (std::size_t first = 0; first < values.size(); first += coded_block) {
    const std::span<float> block = values.subspan(first, std::min<std::size_t>(coded_block, values.size() - first));
    float scale = 0;
    encode_block(stands_for, block, codes, 0, scale);
    for (std::size_t i = 0; i < block.size(); ++i)
      block[i] = stands_for[codes.get(static_cast<std::int64_t>(i))] * scale;
  }
}

}  // namespace longhaul
