// Lanes are lanes: a table of wider registers computes the same in the same order. AVX2 and AVX-512 give the same bits
// in everything (AVX-512 with bf16 has an attention of its own); the portable table, which has no fused product and
// sum, where nothing is multiplied and then added.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/digest/philox.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/ops/cpu/simd/kernels.h"

using namespace longhaul;
using cpu::Index;
using cpu::Kernels;

namespace {

struct LaneCase {
  const Kernels& table;
  Index n;
  std::uint64_t seed;
  mutable std::uint64_t drawn = 0;

  // Ordinary numbers, and between them what conversions and comparisons stumble over.
  float draw() const {
    constexpr float strange[] = {std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::denorm_min(),
                                 -1e-40F,
                                 -0.0F,
                                 88.72F,
                                 -87.31F,
                                 3e38F};
    const Philox philox{seed, 5};
    const float x = philox.normal(drawn++);
    const auto pick = static_cast<std::size_t>(philox.uniform(drawn++) * 200.0F);
    if (pick < std::size(strange)) return strange[pick];
    if (pick % 8 > 0) return x;
    std::uint32_t tie = 0;  // between two numbers of bf16
    std::memcpy(&tie, &x, sizeof tie);
    tie = (tie & 0xFFFF0000) | 0x8000;
    float y = 0;
    std::memcpy(&y, &tie, sizeof y);
    return y;
  }
  template <class T>
  std::vector<T> values(Index count) const {
    std::vector<T> v;
    for (Index i = 0; i < count; ++i) v.push_back(T(draw()));
    return v;
  }
};

// LaneBits of results; every NaN is one.
using LaneBits = std::vector<std::uint32_t>;
void append_lanes(LaneBits& bits, const std::vector<float>& values) {
  for (const float x : values) {
    std::uint32_t u = 0;
    std::memcpy(&u, &x, sizeof u);
    bits.push_back(std::isnan(x) ? 0x7FC00000 : u);
  }
}
void append_lanes(LaneBits& bits, const std::vector<bf16>& values) {
  for (const bf16 x : values) bits.push_back(std::isnan(static_cast<float>(x)) ? 0x7FC0 : x.bits);
}

template <class T>
LaneBits lanes_without_sums(const LaneCase& c) {
  const cpu::TypedKernels<T>& k = c.table.of<T>();
  const auto a = c.values<T>(c.n), b = c.values<T>(c.n);
  const auto f = c.values<float>(c.n), inverse = c.values<float>(c.n), scale = c.values<float>(c.n);
  std::vector<T> sum(a.size()), narrowed(a.size()), quantized(a.size());
  std::vector<float> wide(a.size()), top = f;
  std::vector<std::uint32_t> magnitudes(a.size());
  k.add(a.data(), b.data(), sum.data(), c.n);
  k.to_f32(a.data(), wide.data(), c.n);
  k.from_f32(f.data(), narrowed.data(), c.n);
  k.accumulate_f32(a.data(), top.data(), c.n);
  k.quantize_magnitudes(a.data(), c.n, 5, magnitudes.data());
  const cpu::QuantizeFormat e4m3{448.0F, 464.0F, 121, 20};
  k.quantize_row(a.data(), quantized.data(), c.n, 1, inverse.data(), scale.data(), e4m3, nullptr);
  c.table.scale(0.3F, wide.data(), c.n);
  LaneBits bits = magnitudes;
  append_lanes(bits, sum), append_lanes(bits, narrowed), append_lanes(bits, quantized), append_lanes(bits, wide),
      append_lanes(bits, top);
  append_lanes(bits, std::vector<float>{c.table.row_top(f.data(), c.n)});
  return bits;
}

template <class T>
LaneBits lane_rows(const LaneCase& c) {
  const cpu::TypedKernels<T>& k = c.table.of<T>();
  const auto x = c.values<T>(c.n), y = c.values<T>(c.n), w = c.values<T>(c.n), bias = c.values<T>(c.n);
  const std::vector<float> statistics = {0.1F, 1.3F};
  std::vector<T> out(x.size()), other(x.size()), dx = c.values<T>(c.n);
  std::vector<float> dw(x.size()), db(x.size()), p(x.size());
  LaneBits bits;
  const auto note = [&] {
    append_lanes(bits, out), append_lanes(bits, other), append_lanes(bits, dx), append_lanes(bits, dw);
  };
  k.add_rmsnorm_forward(x.data(), y.data(), w.data(), other.data(), out.data(), nullptr, 1, c.n, 1e-5F), note();
  k.rmsnorm_backward(x.data(), y.data(), w.data(), &statistics[1], dx.data(), dw.data(), 1, c.n, true), note();
  k.add_layernorm_forward(x.data(), y.data(), nullptr, w.data(), bias.data(), other.data(), out.data(), nullptr, 1, c.n,
                          1e-5F);
  note();
  k.layernorm_backward(x.data(), y.data(), w.data(), statistics.data(), dx.data(), dw.data(), db.data(), 1, c.n, true);
  note();
  k.gelu_forward(x.data(), out.data(), c.n), k.gelu_backward(x.data(), y.data(), other.data(), c.n), note();
  k.swiglu_forward(x.data(), y.data(), out.data(), c.n), note();
  k.swiglu_backward(x.data(), y.data(), w.data(), out.data(), other.data(), c.n), note();
  k.softmax(x.data(), c.n, 0.7F, p.data()), append_lanes(bits, p);
  out = x;
  append_lanes(bits, std::vector<float>{k.cross_entropy(x.data(), c.n, c.n / 2, 0.3F, out.data())}), note();
  k.rope(out.data(), dw.data(), p.data(), c.n / 2, -1.0F), note();
  return bits;
}

LaneBits lane_arrays(const LaneCase& c) {
  LaneBits bits;
  const auto g = c.values<float>(c.n);
  for (const bool random : {false, true}) {
    const Philox philox{c.seed, 9};
    std::vector<float> p = g, copy32(g.size());
    std::vector<bf16> m = c.values<bf16>(c.n), v(g.size(), bf16(0.25F)), copy(g.size());
    c.table.adamw_bf16_bf16({0.99F, 0.9F, 0.95F, 1e-2F, 1.7F, 1e-8F, 0.5F}, p.data(), m.data(), v.data(), g.data(),
                            copy.data(), copy32.data(), random ? &philox : nullptr, 3, c.n);
    append_lanes(bits, p), append_lanes(bits, m), append_lanes(bits, v), append_lanes(bits, copy),
        append_lanes(bits, copy32);
  }
  append_lanes(bits, std::vector<float>{static_cast<float>(c.table.sum_of_squares(g.data(), c.n)),
                                        static_cast<float>(c.table.sum(g.data(), c.n))});
  return bits;
}

template <class T>
LaneBits lane_products(const LaneCase& c) {
  constexpr Index rows = 7;
  const Index padded = (c.n + 15) / 16 * 16;
  LaneBits bits;
  for (Index tokens = 1; tokens <= 8; ++tokens) {
    std::vector<float> x(static_cast<std::size_t>(tokens * padded)), y(static_cast<std::size_t>(tokens * rows));
    for (Index t = 0; t < tokens; ++t)
      for (Index i = 0; i < c.n; ++i) x[static_cast<std::size_t>(t * padded + i)] = c.draw();
    const auto w = c.values<T>(rows * c.n);
    c.table.of<T>().gemv(x.data(), padded, tokens, w.data(), c.n, 0, rows, y.data(), rows);
    append_lanes(bits, y);
  }
  return bits;
}

void check_same_lanes(const char* what, LaneBits (*run)(const LaneCase&), CpuLevel a, CpuLevel b) {
  const ComputeContext one(1, a), two(1, b);
  if (cpu::kernels(one).level != a || cpu::kernels(two).level != b) {
    MESSAGE("this processor cannot run both levels: ", what, " is not compared");
    return;
  }
  for (Index n = 1; n <= 70; ++n) {
    const auto seed = static_cast<std::uint64_t>(n);
    const LaneBits of_a = run({cpu::kernels(one), n, seed}), of_b = run({cpu::kernels(two), n, seed});
    std::size_t first = 0;
    while (first < of_a.size() && of_a[first] == of_b[first]) ++first;
    INFO(what, " n=", n, ", the first difference at ", first, " of ", of_a.size());
    CHECK(of_a == of_b);
  }
}

}  // namespace

TEST_CASE("AVX2 and AVX-512 give the same bits") {
  const auto check = [](const char* what, LaneBits (*run)(const LaneCase&)) {
    check_same_lanes(what, run, CpuLevel::avx2, CpuLevel::avx512);
  };
  check("without sums, f32", lanes_without_sums<float>);
  check("without sums, bf16", lanes_without_sums<bf16>);
  check("rows, f32", lane_rows<float>);
  check("rows, bf16", lane_rows<bf16>);
  check("arrays", lane_arrays);
  check("products, f32", lane_products<float>);
  check("products, bf16", lane_products<bf16>);
}

TEST_CASE("the portable kernels give the bits of AVX2 where nothing is multiplied and added") {
  check_same_lanes("without sums, f32", lanes_without_sums<float>, CpuLevel::portable, CpuLevel::avx2);
  check_same_lanes("without sums, bf16", lanes_without_sums<bf16>, CpuLevel::portable, CpuLevel::avx2);
}
