// Numbers of eight bits and fewer, and the power-of-two scale that a block of them shares: the elements of FP8 training
// (Micikevicius et al. 2022, arXiv 2209.05433) and of the OCP Microscaling formats v1.0 (Rouhani et al. 2023, arXiv
// 2310.10537). Plain functions that a kernel may call as well as the host.
//
// A code's value is (-1)^sign 2^(max(E, 1) - bias) (M / 2^mantissa_bits + (E > 0)), E and M its exponent and mantissa
// fields; INT8 is two's complement in units of 2^-6. Rounding is to nearest, ties to even, and saturates: nothing
// finite or infinite becomes anything but a number of the format, NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define LH_HOST_DEVICE __host__ __device__
#else
#define LH_HOST_DEVICE
#endif

namespace longhaul {

enum class NumberFormat : std::uint8_t { e5m2, e4m3, e3m2, e2m3, e2m1, int8 };
inline constexpr int number_formats = 6;

struct NumberTraits {
  int bits;           // of a code
  int exponent_bits;  // 0: INT8
  int mantissa_bits;
  int exponent_min;    // of the smallest normal number, and so of the subnormals' unit
  int exponent_max;    // of the largest number
  float max;           // the largest number
  bool infinity, nan;  // are there codes for them?

  // The distance of subnormal numbers.
  LH_HOST_DEVICE constexpr int exponent_of_unit() const { return exponent_min - mantissa_bits; }
};

LH_HOST_DEVICE constexpr NumberTraits traits_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::e5m2: return {8, 5, 2, -14, 15, 57344.0F, true, true};
    case NumberFormat::e4m3: return {8, 4, 3, -6, 8, 448.0F, false, true};
    case NumberFormat::e3m2: return {6, 3, 2, -2, 4, 28.0F, false, false};
    case NumberFormat::e2m3: return {6, 2, 3, 0, 2, 7.5F, false, false};
    case NumberFormat::e2m1: return {4, 2, 1, 0, 2, 6.0F, false, false};
    case NumberFormat::int8: break;
  }
  return {8, 0, 6, 0, 0, 127.0F / 64.0F, false, false};
}

constexpr const char* name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::e5m2: return "E5M2";
    case NumberFormat::e4m3: return "E4M3";
    case NumberFormat::e3m2: return "E3M2";
    case NumberFormat::e2m3: return "E2M3";
    case NumberFormat::e2m1: return "E2M1";
    case NumberFormat::int8: break;
  }
  return "INT8";
}

// 2^exponent, exponent from -149 to 127.
LH_HOST_DEVICE constexpr float power_of_two(int exponent) {
  const int normal = exponent + 127;
  return std::bit_cast<float>(normal > 0 ? static_cast<std::uint32_t>(normal) << 23
                                         : std::uint32_t{1} << (exponent + 149));
}

// floor(log2 x) of a positive finite x, subnormal ones too.
LH_HOST_DEVICE constexpr int floor_log2(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if (bits >> 23 > 0) return static_cast<int>(bits >> 23) - 127;
  int exponent = -127;
  for (std::uint32_t rest = bits << 9; rest < 0x80000000U; rest <<= 1) --exponent;
  return exponent;
}

// The number of the format nearest to x. A number is a whole multiple of 2^q, q = max(exponent of x, exponent_min) -
// mantissa_bits; x + 1.5 2^(q + 23) has no bits below 2^q, so that the sum itself rounds as wanted.
LH_HOST_DEVICE constexpr float round_to(const NumberTraits& traits, float x) {
  if (x != x) return x;
  const float clipped = x > traits.max ? traits.max : x < -traits.max ? -traits.max : x;
  const int field = static_cast<int>(std::bit_cast<std::uint32_t>(clipped) >> 23 & 0xFF);
  const int least = traits.exponent_min + 127;
  const float magic = 1.5F * power_of_two((field > least ? field : least) - 127 - traits.mantissa_bits + 23);
  const float sum = clipped + magic;
  const float rounded = sum - magic;
  return rounded == 0.0F ? clipped * 0.0F : rounded;  // -0 stays what it is
}
LH_HOST_DEVICE constexpr float round_to(NumberFormat format, float x) {
  return round_to(traits_of(format), x);
}

LH_HOST_DEVICE constexpr float decode(NumberFormat format, std::uint8_t code) {
  const NumberTraits t = traits_of(format);
  if (t.exponent_bits == 0) return static_cast<float>(static_cast<std::int8_t>(code)) / 64.0F;
  const int mantissa = code & ((1 << t.mantissa_bits) - 1);
  const int exponent = code >> t.mantissa_bits & ((1 << t.exponent_bits) - 1);
  const bool negative = (code >> (t.bits - 1) & 1) != 0;
  const int top = (1 << t.exponent_bits) - 1;
  const float sign = negative ? -1.0F : 1.0F;
  if (t.infinity && exponent == top) return sign * std::bit_cast<float>(mantissa == 0 ? 0x7F800000U : 0x7FC00000U);
  if (!t.infinity && t.nan && exponent == top && mantissa == (1 << t.mantissa_bits) - 1)
    return sign * std::bit_cast<float>(0x7FC00000U);
  const int whole = exponent > 0 ? mantissa + (1 << t.mantissa_bits) : mantissa;
  return sign * static_cast<float>(whole) * power_of_two((exponent > 0 ? exponent - 1 : 0) + t.exponent_of_unit());
}

// The code of the number nearest to x. NaN of a format without NaN is the largest number: whoever may meet one looks
// first (a block's scale shows it).
LH_HOST_DEVICE constexpr std::uint8_t encode(NumberFormat format, float x) {
  const NumberTraits t = traits_of(format);
  if (x != x && t.nan) return static_cast<std::uint8_t>(t.infinity ? 0x7E : 0x7F);
  const float value = x != x ? t.max : round_to(t, x);
  if (t.exponent_bits == 0) return static_cast<std::uint8_t>(static_cast<std::int8_t>(value * 64.0F));
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>((bits >> 31) << (t.bits - 1));
  const float magnitude = value < 0.0F ? -value : value;
  const int exponent = static_cast<int>(bits >> 23 & 0xFF) - 127;
  if (exponent < t.exponent_min)
    return static_cast<std::uint8_t>(sign |
                                     static_cast<std::uint32_t>(magnitude * power_of_two(-t.exponent_of_unit())));
  const std::uint32_t mantissa = bits >> (23 - t.mantissa_bits) & ((1U << t.mantissa_bits) - 1);
  return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(exponent - t.exponent_min + 1) << t.mantissa_bits |
                                   mantissa);
}

// E8M0: a power of two from 2^-127 to 2^127; 0xFF is NaN.
inline constexpr std::uint8_t e8m0_nan = 0xFF;
inline constexpr int e8m0_exponent_max = 127;
LH_HOST_DEVICE constexpr float decode_e8m0(std::uint8_t code) {
  return code == e8m0_nan ? std::bit_cast<float>(0x7FC00000U) : power_of_two(static_cast<int>(code) - 127);
}

// How the exponent of a block's scale follows from its largest magnitude.
enum class ScaleRounding : std::uint8_t {
  floor,  // floor(log2(amax)) - exponent_max of the format: OCP MX v1.0, section 6.3; up to a quarter of the largest
          // magnitudes of a block saturates
  up,     // the least power of two that leaves nothing to saturate, ceil(log2(amax / max)): arXiv 2506.08027
};

// Of a block whose largest magnitude is amax: NaN where it is no finite number, the least scale where it is zero.
LH_HOST_DEVICE constexpr std::uint8_t scale_code(NumberFormat format, ScaleRounding rounding, float amax) {
  if (!(amax <= 3.4028234663852886e38F)) return e8m0_nan;
  if (amax == 0.0F) return 0;
  const NumberTraits t = traits_of(format);
  int exponent = floor_log2(amax) - t.exponent_max;
  if (exponent < -e8m0_exponent_max) return 0;
  // max lies in [2^exponent_max, 2^(exponent_max + 1)): one more is enough.
  if (rounding == ScaleRounding::up && amax > t.max * power_of_two(exponent)) ++exponent;
  if (exponent > e8m0_exponent_max) exponent = e8m0_exponent_max;
  return static_cast<std::uint8_t>(exponent + 127);
}

// The scale of a whole tensor, f32: amax becomes the largest number over 2^margin. 1 where there is nothing to scale.
LH_HOST_DEVICE constexpr float tensor_scale(NumberFormat format, float amax, int margin) {
  if (!(amax <= 3.4028234663852886e38F)) return std::bit_cast<float>(0x7FC00000U);
  const float scale = amax / traits_of(format).max * power_of_two(margin);
  return scale >= 1.1754943508222875e-38F ? scale : 1.0F;
}

}  // namespace longhaul
