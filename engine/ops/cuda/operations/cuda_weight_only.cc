// Products with weights of eight and four bits, and such weights in more bits.
#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/linear/coded_block_kernels.h"
#include "engine/ops/cuda/linear/decode_kernels.h"
#include "engine/ops/cuda/linear/weight_only_kernels.h"
#include "engine/ops/cuda/operations/cuda_linear_ops.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

constexpr Index unpacked_max = Index{1} << 25;  // elements of scratch for more rows than few

// unpack(begin, rows, out) and a product for each block of rows of the weight.
template <class X, class F, class G>
void unpacked_product(LinearShape s, ConstView x, View y, X* scratch, const F& unpack, const G& gemm) {
  const Index block = std::clamp<Index>(unpacked_max / s.in, 1, s.out);
  for (Index begin = 0; begin < s.out; begin += block) {
    const Index rows = std::min(block, s.out - begin);
    unpack(begin, rows, scratch);
    GemmShape g{.m = s.tokens, .n = rows, .k = s.in};
    g.transpose_b = true;
    g.row_stride_c = s.out;
    gemm(g, x, ConstView(scratch, Shape{rows, s.in}),
         View(static_cast<std::byte*>(y.data()) + begin * dtype_bytes(y.dtype()), y.dtype(),
              Shape{(s.tokens - 1) * s.out + rows}));
  }
}
template <class X>
Index scratch_bytes(LinearShape s) {
  return std::min(s.out, std::max<Index>(1, unpacked_max / s.in)) * s.in * static_cast<Index>(sizeof(X));
}

}  // namespace

void CudaLinearOps::linear_forward_fp8(LinearShape s, ConstView x, ConstView codes, ConstFloats scales, View y) const {
  check_size(scales.size(), s.out, "scales");
  const auto* const weight = elements<std::uint8_t>(codes, s.in * s.out, "codes");
  with_float_type(x.dtype(), "linear_forward_fp8", [&](auto of_x) {
    using X = decltype(of_x);
    if (s.tokens > product_tokens_max) {
      auto* const wide = reinterpret_cast<X*>(work_.scratch(0, scratch_bytes<X>(s)));
      return unpacked_product(
          s, x, y, wide,
          [&](Index begin, Index rows, X* out) {
            unpack_fp8(work_.stream, rows, s.in, weight + begin * s.in, scales.data() + begin, out);
          },
          [&](const GemmShape& g, ConstView a, ConstView b, View c) { gemm(g, a, b, c); });
    }
    with_float_type(y.dtype(), "linear_forward_fp8", [&](auto of_y) {
      using Y = decltype(of_y);
      few_rows_product(work_.stream, FewRows<X, E4m3, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"),
                                                         reinterpret_cast<const E4m3*>(weight), scales.data(),
                                                         elements<Y>(y, s.tokens * s.out, "y")});
    });
  });
}

void CudaLinearOps::linear_forward_int4(LinearShape s, ConstView x, const Int4View& w, View y) const {
  LH_ASSERT(w.group >= 2 && w.group % 2 == 0, format("groups of {}", w.group));
  const Index groups = int4_groups(s.in, w.group), row_bytes = int4_row_bytes(s.in);
  LH_ASSERT(w.scales.size() >= s.out * groups, "scales " + w.scales.shape().text());
  with_float_type(w.scales.dtype(), "scales of int4", [](auto) {});
  const Int4Rows weight{w.group,
                        groups,
                        row_bytes,
                        elements<std::uint8_t>(w.packed, s.out * row_bytes, "packed"),
                        w.scales.data(),
                        w.scales.dtype() == DType::bf16,
                        w.zeros.empty() ? nullptr : elements<std::uint8_t>(w.zeros, s.out * groups, "zeros")};
  with_float_type(x.dtype(), "linear_forward_int4", [&](auto of_x) {
    using X = decltype(of_x);
    if (s.tokens > product_tokens_max) {
      auto* const wide = reinterpret_cast<X*>(work_.scratch(0, scratch_bytes<X>(s)));
      return unpacked_product(
          s, x, y, wide,
          [&](Index begin, Index rows, X* out) {
            Int4Rows from = weight;
            from.codes += begin * row_bytes;
            from.scales = static_cast<const std::byte*>(weight.scales) + begin * groups * dtype_bytes(w.scales.dtype());
            if (from.zeros != nullptr) from.zeros += begin * groups;
            unpack_int4(work_.stream, rows, s.in, from, out);
          },
          [&](const GemmShape& g, ConstView a, ConstView b, View c) { gemm(g, a, b, c); });
    }
    with_float_type(y.dtype(), "linear_forward_int4", [&](auto of_y) {
      using Y = decltype(of_y);
      few_rows_int4(work_.stream, FewRowsInt4<X, Y>{s.tokens, s.in, s.out, elements<X>(x, s.tokens * s.in, "x"), weight,
                                                    elements<Y>(y, s.tokens * s.out, "y")});
    });
  });
}

void CudaLinearOps::decode_blocks(const CodedBlocks& from, View out) const {
  const Index n = from.elements;
  LH_ASSERT((from.bits == 4 || from.bits == 8) && from.block > 0 && from.block % 16 == 0,
            format("codes of {} bits in blocks of {}", from.bits, from.block));
  check_size(from.scales.size(), (n + from.block - 1) / from.block, "scales");
  check_size(std::size_t{1} << from.bits, std::ssize(from.values), "codes of the values");
  std::array<float, 256> values{};
  std::ranges::copy(from.values, values.begin());
  const auto* const codes = elements<std::uint8_t>(from.codes, (n * from.bits + 7) / 8, "codes of blocks");
  with_float_type(out.dtype(), "decode_blocks", [&](auto type) {
    auto* const to = elements<decltype(type)>(out, n, "out");
    const DecodeBlocks<decltype(type)> p{n, from.block, from.bits, codes, from.scales.data(), to};
    cuda::decode_blocks(work_.stream, p, values.data());
  });
}

}  // namespace longhaul::cuda
