// Helpers of the operation tests: seeded values, gradients by finite differences, normalised errors.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "tests/support/emulated_gpu/staged_ops.h"
#include "tests/support/emulated_gpu/test_gpu.h"
#include "tests/support/reference/reference.h"

namespace longhaul::op_check {

using reference::Index;
using reference::Vector;

// A tensor in storage type together with exactly the same values in f64: the reference sees what the fast code sees.
struct Values {
  Tensor tensor;
  Vector exact;
  operator ConstView() const { return tensor; }  // NOLINT: implicit on purpose
  operator View() { return tensor; }             // NOLINT: implicit on purpose
};

inline Vector exact_of(ConstView view) {
  Vector out;
  for (Index i = 0; i < view.size(); ++i) {
    out.push_back(view.dtype() == DType::f32 ? static_cast<double>(view.as<float>()[i])
                                             : static_cast<double>(static_cast<float>(view.as<bf16>()[i])));
  }
  return out;
}

inline Values random_values(DType dtype, Index n, std::uint64_t seed, double deviation = 1.0) {
  Values v{Tensor(dtype, {n}), {}};
  const Philox philox{seed, 7};
  for (Index i = 0; i < n; ++i) {
    const auto x = static_cast<float>(deviation * philox.normal(static_cast<std::uint64_t>(i)));
    if (dtype == DType::f32) {
      v.tensor.span<float>()[static_cast<std::size_t>(i)] = x;
    } else {
      v.tensor.span<bf16>()[static_cast<std::size_t>(i)] = bf16(x);
    }
  }
  v.exact = exact_of(v.tensor);
  return v;
}

inline reference::Ids random_ids(Index n, Index below, std::uint64_t seed) {
  PhiloxSequence draw(seed, 11);
  reference::Ids ids;
  for (Index i = 0; i < n; ++i)
    ids.push_back(static_cast<std::int32_t>(draw.next_below(static_cast<std::uint64_t>(below))));
  return ids;
}

// |got - want| / |want|, Euclidean.
inline double normalised_error(const Vector& got, const Vector& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double difference = 0.0, size = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return size == 0.0 ? std::sqrt(difference) : std::sqrt(difference / size);
}

// f32 sums of a few hundred terms lose about five bits of 24; a stored bf16 has 8 bits, so one rounding costs up to
// 2^-9.
inline double tolerance(DType dtype) {
  return dtype == DType::f32 ? 2e-6 : 4e-3;
}

// Of what a library's product does in its last step, or with operands of eight bits: a GPU's tanh is an approximation,
// and its sums of such operands keep some 14 bits between two of f32.
inline double library_tolerance(DType dtype) {
#ifdef LONGHAUL_REAL_GPU
  return std::max(tolerance(dtype), 2e-3);
#else
  return tolerance(dtype);
#endif
}

inline void check_close(const std::string& what, ConstView got, const Vector& want, double limit) {
  const double error = normalised_error(exact_of(got), want);
  INFO(what, ": error ", error, " limit ", limit);
  CHECK(error <= limit);
}

// d(sum of c f(x)) / dx by central differences against `gradient`; at most 64 elements are tried.
inline void check_gradient(const std::string& what, const std::function<Vector(const Vector&)>& f, const Vector& x,
                           const Vector& c, const Vector& gradient, std::uint64_t seed) {
  REQUIRE(gradient.size() == x.size());
  PhiloxSequence draw(seed, 3);
  const auto objective = [&](const Vector& at) {
    const Vector y = f(at);
    REQUIRE(y.size() == c.size());
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += c[i] * y[i];
    return sum;
  };
  double size = 0.0;
  for (double g : gradient) size = std::max(size, std::abs(g));
  for (int n = 0; n < 64; ++n) {
    const auto i = static_cast<std::size_t>(draw.next_below(x.size()));
    Vector moved = x;
    constexpr double h = 1e-5;
    moved[i] = x[i] + h;
    const double up = objective(moved);
    moved[i] = x[i] - h;
    const double down = objective(moved);
    const double numeric = (up - down) / (2.0 * h);
    INFO(what, " element ", i, ": numeric ", numeric, " analytic ", gradient[i], " seed ", seed);
    CHECK(std::abs(numeric - gradient[i]) <= 1e-7 * std::max(1.0, size));
  }
}

// What operations run on: the processor, with each of its instruction sets (`best` is AMX where there is AMX); and a
// GPU, emulated or real (test_gpu.h).
struct Backend {
  CpuLevel level = CpuLevel::best;
  bool gpu = false;
};
inline const CpuLevel kLevels[] = {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16,
                                   CpuLevel::best};
inline const Backend kBackends[] = {
#ifdef LONGHAUL_REAL_GPU  // the processor is tested elsewhere
    {CpuLevel::best, true},
#else
    {CpuLevel::portable},   {CpuLevel::avx2}, {CpuLevel::avx512}, {CpuLevel::avx512_bf16}, {CpuLevel::best},
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
    {CpuLevel::best, true},
#endif
#endif
};

// Each of these values on each of them.
inline std::vector<std::pair<Index, Backend>> with_backends(std::initializer_list<Index> values) {
  std::vector<std::pair<Index, Backend>> pairs;
  for (const Index value : values)
    for (const Backend& on : kBackends) pairs.emplace_back(value, on);
  return pairs;
}

// Operations take memory of the host, on a GPU as well; attentions there take the own kernels, unless asked otherwise.
class OpContext {
 public:
  OpContext(int threads, Backend on) : cpu_(threads, on.level) {
    if (!on.gpu) return;
    gpu_ = testing::open_test_gpu();
    use_attention({"own", true}, {});
    staged_ = std::make_unique<testing::StagedOps>(gpu_->device(), gpu_->ops());
    on_gpu_ = std::make_unique<ComputeContext>(gpu_->device(), *staged_);
  }
  void use_attention(const AttentionSettings& settings, AttentionObserver observer) {
    if (gpu_) REQUIRE(gpu_->use_attention(settings, std::move(observer)).ok());
  }
  operator const ComputeContext&() const { return on_gpu_ ? *on_gpu_ : cpu_; }  // NOLINT: implicit on purpose

 private:
  ComputeContext cpu_;
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<testing::StagedOps> staged_;
  std::unique_ptr<ComputeContext> on_gpu_;
};

inline const DType kTypes[] = {DType::f32, DType::bf16};

inline std::string case_text(const std::string& shape, DType dtype, CpuLevel level, std::uint64_t seed) {
  return format("{} dtype={} level={} seed={}", shape, dtype_name(dtype), static_cast<int>(level), seed);
}

inline std::string case_text(const std::string& shape, DType dtype, Backend on, std::uint64_t seed) {
  return on.gpu ? format("{} dtype={} {} seed={}", shape, dtype_name(dtype), testing::test_gpu_name(), seed)
                : case_text(shape, dtype, on.level, seed);
}

}  // namespace longhaul::op_check
