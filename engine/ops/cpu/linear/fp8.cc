// The operations of fp8.h on the processor: plain loops, the measure of what devices compute.
#include "engine/ops/linear/fp8.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/device_ops.h"
#include "engine/ops/linear/quantize_blocks.h"

namespace longhaul {
namespace {

using Index = std::int64_t;

// Rows and columns that share a scale.
struct Block {
  Index rows, columns;
};
Block block_of(const Fp8Matrix& m) {
  switch (m.scales) {
    case Fp8Scales::rows: return {1, 128};
    case Fp8Scales::squares: return {128, 128};
    case Fp8Scales::mx: return {1, 32};
    case Fp8Scales::tensor: break;
  }
  return {m.rows, m.columns};
}

float scale_at(Fp8Scales scales, const std::uint8_t* bytes, Index place) {
  if (scales == Fp8Scales::mx) return decode_e8m0(bytes[place]);
  return reinterpret_cast<const float*>(bytes)[place];
}

template <class T>
void cast_block(const Fp8Cast& how, Index r0, Index c0, const T* x, std::uint8_t* codes, std::uint8_t* scales) {
  const Fp8Matrix& m = how.to;
  const Block block = block_of(m);
  const Index r1 = std::min(m.rows, r0 + block.rows), c1 = std::min(m.columns, c0 + block.columns);
  const auto value = [&](Index r, Index c) {
    return static_cast<float>(x[how.transposed ? c * m.rows + r : r * m.columns + c]);
  };
  const Index place = fp8_scale_place(m.scales, m.rows, m.columns, r0, c0);
  if (m.scales != Fp8Scales::tensor) {
    std::uint32_t most = 0;
    for (Index r = r0; r < r1; ++r)
      for (Index c = c0; c < c1; ++c) most = std::max(most, std::bit_cast<std::uint32_t>(value(r, c)) & 0x7FFFFFFFU);
    const std::uint8_t code = scale_code(m.format, how.rounding, std::bit_cast<float>(most));
    if (m.scales == Fp8Scales::mx)
      scales[place] = code;
    else
      reinterpret_cast<float*>(scales)[place] = decode_e8m0(code);
  }
  const float inverse = 1.0F / scale_at(m.scales, scales, place);
  for (Index r = r0; r < r1; ++r)
    for (Index c = c0; c < c1; ++c) codes[r * m.columns + c] = encode(m.format, value(r, c) * inverse);
}

std::vector<float> decoded(NumberFormat format, Fp8Scales scales, Index rows, Index columns, ConstView codes,
                           ConstView scale) {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  const auto* const from = cpu::elements<std::uint8_t>(codes, rows * columns, "codes");
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(r * columns + c)] =
          decode(format, from[r * columns + c]) *
          scale_at(scales, scale.as<std::uint8_t>(), fp8_scale_place(scales, rows, columns, r, c));
  return out;
}

}  // namespace

const char* to_string(Fp8Scales scales) {
  switch (scales) {
    case Fp8Scales::tensor: return "scales of tensors";
    case Fp8Scales::rows: return "scales of 128 neighbours";
    case Fp8Scales::squares: return "scales of 128 x 128";
    case Fp8Scales::mx: break;
  }
  return "scales of 32 neighbours";
}

std::int64_t Fp8Matrix::scale_bytes() const {
  const Index blocks = (columns + 127) / 128;
  switch (scales) {
    case Fp8Scales::tensor: return 4;
    case Fp8Scales::rows: return blocks * rows * 4;
    case Fp8Scales::squares: return (rows + 127) / 128 * ((blocks + 3) / 4 * 4) * 4;
    case Fp8Scales::mx: break;
  }
  return (rows + 127) / 128 * 128 * ((columns + 127) / 128 * 4);
}

Fp8Support fp8_support(const ComputeContext& context) {
  if (const DeviceOps* device = context.device_ops()) return device->fp8_support();
  return {.why_not = "processors multiply no numbers of eight bits"};
}

void fp8_cast(const ComputeContext& context, const Fp8Cast& how, ConstView x, View codes, View scales) {
  const Fp8Matrix& m = how.to;
  LH_ASSERT(m.rows % 16 == 0 && m.columns % 16 == 0 && traits_of(m.format).bits == 8 && m.format != NumberFormat::int8,
            format("{} x {} of {}", m.rows, m.columns, name_of(m.format)));
  cpu::check_size(static_cast<std::size_t>(scales.bytes()), m.scale_bytes(), "scales");
  if (const DeviceOps* device = context.device_ops()) return device->fp8_cast(how, x, codes, scales);
  const Block block = block_of(m);
  cpu::with_float_type(x.dtype(), "fp8_cast", [&](auto type) {
    using T = decltype(type);
    const T* const from = cpu::elements<T>(x, m.rows * m.columns, "x");
    auto* const to = cpu::elements<std::uint8_t>(codes, m.rows * m.columns, "codes");
    auto* const scale = scales.as<std::uint8_t>();
    if (m.scales == Fp8Scales::mx) std::fill(scale, scale + m.scale_bytes(), std::uint8_t{0});
    for (Index r = 0; r < m.rows; r += block.rows)
      for (Index c = 0; c < m.columns; c += block.columns) cast_block(how, r, c, from, to, scale);
  });
}

void fp8_keep_amax(const ComputeContext& context, ConstView x, View amax) {
  if (const DeviceOps* device = context.device_ops()) return device->fp8_keep_amax(x, amax);
  float& kept = cpu::elements<float>(amax, 1, "amax")[0];
  const float most = largest_magnitude(context, x);
  if (!(kept >= most)) kept = kept != kept ? kept : most;
}

void fp8_tensor_scale(const ComputeContext& context, NumberFormat format, int margin, ConstView amax, View scale) {
  if (const DeviceOps* device = context.device_ops()) return device->fp8_tensor_scale(format, margin, amax, scale);
  cpu::elements<float>(scale, 1, "scale")[0] = tensor_scale(format, cpu::elements<float>(amax, 1, "amax")[0], margin);
}

void fp8_product(const ComputeContext& context, const Fp8Product& s, const Fp8Operands& operands, View c,
                 ConstView bias) {
  if (const DeviceOps* device = context.device_ops()) return device->fp8_product(s, operands, c, bias);
  const std::vector<float> a = decoded(s.a, s.scales_a, s.m, s.k, operands.a, operands.scales_a);
  const std::vector<float> b = decoded(s.b, s.scales_b, s.n, s.k, operands.b, operands.scales_b);
  cpu::with_float_type(c.dtype(), "fp8_product", [&](auto type) {
    using T = decltype(type);
    T* const out = cpu::elements<T>(c, s.m * s.n, "c");
    const T* const added = bias.empty() ? nullptr : cpu::elements<T>(bias, s.n, "bias");
    for (Index i = 0; i < s.m; ++i)
      for (Index j = 0; j < s.n; ++j) {
        double sum = 0;
        for (Index l = 0; l < s.k; ++l)
          sum += static_cast<double>(a[static_cast<std::size_t>(i * s.k + l)]) *
                 static_cast<double>(b[static_cast<std::size_t>(j * s.k + l)]);
        T& to = out[i * s.n + j];
        auto value = static_cast<float>(sum);
        if (s.beta != 0.0F) value += s.beta * static_cast<float>(to);
        if (added) value += static_cast<float>(added[j]);
        to = T(value);
      }
  });
}

std::string fp8_refusal(const ComputeContext& context, const Fp8Product& shape, const Fp8Operands& operands,
                        ConstView c) {
  if (const DeviceOps* device = context.device_ops()) return device->fp8_refusal(shape, operands, c);
  return fp8_support(context).why_not;
}

}  // namespace longhaul
