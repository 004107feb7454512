#include "engine/model/store/block_codes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/core/tensor/transfer.h"
#include "engine/ops/linear/coded_blocks.h"

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

std::int64_t blocks_of(std::int64_t elements) {
  return (elements + coded_block - 1) / coded_block;
}
// Without their scales.
std::int64_t code_bytes(const std::string& format, std::int64_t elements) {
  return coded_bytes(format, elements) - blocks_of(elements) * static_cast<std::int64_t>(sizeof(float));
}

// Blocks are a whole number of bytes but for the last, so that threads share none.
template <class Use>
void for_blocks(const ComputeContext& context, std::int64_t elements, const Use& use) {
  parallel_for(context, blocks_of(elements), 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      use(block, block * coded_block, std::min(elements, (block + 1) * coded_block));
  });
}

}  // namespace

BlockCodes::BlockCodes(const std::string& format, const ParameterLayout& layout, MemoryAccount* account)
    : format_(format), values_(values_of(format)) {
  std::vector<FlatRange> without;
  std::int64_t codes = 0, scales = 0, from = 0;
  for (const FlatParameter& p : layout.parameters()) {
    if (!is_coded(format, p.spec)) continue;
    const std::int64_t elements = p.end - p.begin, blocks = blocks_of(elements);
    places_.push_back({{p.begin, p.end}, codes, scales});
    codes += code_bytes(format, elements), scales += blocks;
    if (p.begin > from) without.push_back({from, p.begin});
    from = p.end;
  }
  if (layout.flat_size() > from) without.push_back({from, layout.flat_size()});
  without_ = PackedRanges(without);
  codes_ = Buffer(codes, account);
  scales_ = Tensor(DType::f32, Shape{scales}, account);
}

const BlockCodes::Place* BlockCodes::first_behind(std::int64_t begin) const {
  const auto found = std::ranges::lower_bound(places_, begin, {}, [](const Place& place) { return place.flat.begin; });
  return found == places_.end() ? nullptr : &*found;
}

bool BlockCodes::has_any_in(FlatRange flat) const {
  const Place* const place = first_behind(flat.begin);
  return place && place->flat.end <= flat.end;
}

std::int64_t BlockCodes::place_without(FlatRange flat) const {
  std::int64_t at = -1;
  without_.for_each_in(flat, [&](FlatRange here, FlatRange packed) {
    if (here == flat) at = packed.begin;
  });
  LH_ASSERT(at >= 0, "weights that are held in codes, and were not widened");
  return at;
}

void BlockCodes::encode(const ComputeContext& context, const FlatParameter& p, std::span<const float> box) {
  const Place* const place = first_behind(p.begin);
  LH_ASSERT(place && place->flat == (FlatRange{p.begin, p.end}), p.spec.name);
  const std::int64_t elements = place->flat.size();
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(code_bytes(format_, elements)));
  std::vector<float> scales(static_cast<std::size_t>(blocks_of(elements)));
  const CodeBytes codes(bytes.data(), format_ == "int8");
  for_blocks(context, elements, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    encode_block(values_, part_of(box, {begin, end}), codes, begin, scales[static_cast<std::size_t>(block)]);
  });
  copy_in(context, bytes, View(codes_.data() + place->codes, DType::u8, Shape{std::ssize(bytes)}));
  copy_in(context, scales, scales_.view().rows(place->scales, place->scales + std::ssize(scales)));
}

void BlockCodes::decode(const ComputeContext& context, FlatRange flat, View out) const {
  CodedBlocks from;
  from.block = coded_block, from.bits = format_ == "int8" ? 8 : 4, from.values = values_;
  for (const Place* place = first_behind(flat.begin); place && place != places_.data() + places_.size(); ++place) {
    if (place->flat.end > flat.end) break;
    from.elements = place->flat.size();
    from.codes = ConstView(codes_.data() + place->codes, DType::u8, Shape{code_bytes(format_, from.elements)});
    from.scales = part_of(scales_.span<float>(), {place->scales, place->scales + blocks_of(from.elements)});
    decode_blocks(context, from, out.rows(place->flat.begin - flat.begin, place->flat.end - flat.begin));
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
