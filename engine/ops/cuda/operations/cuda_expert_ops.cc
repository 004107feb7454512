#include "engine/ops/cuda/operations/cuda_expert_ops.h"

// Mixtures of experts.
#include "base/text/text.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/experts/grouped_linear_kernels.h"
#include "engine/ops/cuda/experts/moe_dispatch_kernels.h"
#include "engine/ops/cuda/experts/moe_router_kernels.h"

namespace longhaul::cuda {
namespace {

using cpu::check_size;
using cpu::elements;
using cpu::with_float_type;

// All rows that there may be: the offsets lie on the device.
Index rows_of(ConstView x, Index columns, GroupedLinearShape s, DeviceOpGroup::Offsets offsets) {
  LH_ASSERT(s.experts > 0 && s.in > 0 && s.out > 0, format("grouped linear {} {} {}", s.experts, s.in, s.out));
  check_size(offsets.size(), s.experts + 1, "offsets");
  return x.size() / columns;
}

}  // namespace

void CudaExpertOps::moe_select(const RouterShape& s, ConstFloats logits, ConstFloats bias,
                               std::span<std::int32_t> ids) const {
  cuda::moe_select(work_.stream, s, logits.data(), data_or_null(bias), ids.data());
}

void CudaExpertOps::moe_select_sinkhorn(const RouterShape& s, ConstFloats logits, const SinkhornOptions& options,
                                        std::span<std::int32_t> ids, SinkhornReport* report) const {
  const Index values = s.tokens * s.experts * static_cast<Index>(sizeof(double));
  std::byte* const memory = work_.scratch(0, values + static_cast<Index>(sizeof(SinkhornEnd)));
  auto* const end = reinterpret_cast<SinkhornEnd*>(memory + values);
  cuda::moe_select_sinkhorn(work_.stream, s, logits.data(), options, reinterpret_cast<double*>(memory), ids.data(),
                            end);
  if (report == nullptr) return;
  SinkhornEnd found{};
  work_.device.copy_out(end, &found, sizeof(found));
  *report = {static_cast<int>(found.iterations), found.change};
}

void CudaExpertOps::moe_count(Ids ids, Floats counts) const {
  cuda::moe_count(work_.stream, static_cast<Index>(ids.size()), static_cast<Index>(counts.size()), ids.data(),
                  counts.data());
}

void CudaExpertOps::moe_gate_forward(const RouterShape& s, ConstFloats logits, Ids ids, Floats weights) const {
  cuda::moe_gate_forward(work_.stream, s, logits.data(), ids.data(), weights.data());
}

void CudaExpertOps::moe_gate_backward(const RouterShape& s, ConstFloats logits, Ids ids, ConstFloats dweights,
                                      Floats dlogits, bool accumulate) const {
  cuda::moe_gate_backward(work_.stream, s, logits.data(), ids.data(), dweights.data(), dlogits.data(), accumulate);
}

void CudaExpertOps::moe_router_statistics(const RouterShape& s, ConstFloats logits, Ids ids, Floats statistics,
                                          Mask mask) const {
  const Index parts = router_statistics_parts(s.tokens) * (2 * s.experts + 2);
  cuda::moe_router_statistics(work_.stream, s, logits.data(), data_or_null(ids), data_or_null(mask),
                              reinterpret_cast<double*>(work_.scratch(0, parts * 8)), statistics.data());
}

void CudaExpertOps::moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z,
                                      Floats slopes) const {
  cuda::moe_router_losses(work_.stream, terms, balance.data(), z.data(), slopes.data());
}

void CudaExpertOps::moe_statistics_backward(const RouterShape& s, ConstFloats logits, ConstFloats slopes, float scale,
                                            Floats dlogits, Mask mask) const {
  cuda::moe_statistics_backward(work_.stream, s, logits.data(), slopes.data(), scale, data_or_null(mask),
                                dlogits.data());
}

void CudaExpertOps::moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule,
                                 const DispatchArrays& to) const {
  DispatchOnDevice p{};
  p.slots = to.tokens * to.top_k, p.experts = to.experts, p.rows = to.rows, p.top_k = static_cast<int>(to.top_k);
  p.capacity = rule ? rule->capacity : p.slots;
  p.by_weight = rule && rule->policy == DropPolicy::probability, p.pad = rule && rule->pad;
  p.ids = ids.data(), p.weights = data_or_null(weights), p.offsets = to.offsets.data();
  p.row_slot = to.row_slot.data(), p.row_token = to.row_token.data(), p.slot_row = to.slot_row.data();
  const Index before = dispatch_chunks(p.slots) * p.experts;
  p.before = reinterpret_cast<std::int32_t*>(work_.scratch(0, (before + p.experts + 1 + 2 * p.slots) * 4));
  p.first = p.before + before, p.order = p.first + p.experts + 1, p.kept = p.order + p.slots;
  cuda::moe_dispatch(work_.stream, p);
}

void CudaExpertOps::gather_rows(std::int64_t width, ConstView x, Ids index, View out) const {
  cuda::gather_rows(work_.stream, static_cast<Index>(index.size()), width * dtype_bytes(x.dtype()), x.data(),
                    index.data(), out.data());
}

void CudaExpertOps::moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights,
                                View out, bool accumulate) const {
  with_float_type(out.dtype(), "moe combine", [&](auto type) {
    using T = decltype(type);
    cuda::moe_combine<T>(work_.stream, {plan.tokens, hidden, static_cast<int>(plan.top_k), accumulate,
                                        plan.slot_row.data(), elements<T>(rows, plan.rows * hidden, "rows"),
                                        data_or_null(weights), elements<T>(out, plan.tokens * hidden, "out")});
  });
}

void CudaExpertOps::moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                                         ConstFloats weights, View drows, Floats dweights) const {
  with_float_type(dout.dtype(), "moe combine", [&](auto type) {
    using T = decltype(type);
    cuda::moe_combine_backward<T>(
        work_.stream, {plan.tokens * plan.top_k, plan.rows, hidden, static_cast<int>(plan.top_k), plan.row_slot.data(),
                       plan.slot_row.data(), elements<T>(dout, plan.tokens * hidden, "dout"),
                       elements<T>(rows, plan.rows * hidden, "rows"), weights.data(),
                       elements<T>(drows, plan.rows * hidden, "drows"), dweights.data()});
  });
}

void CudaExpertOps::grouped_linear_forward(GroupedLinearShape s, Offsets offsets, ConstView x, ConstView weights,
                                           View y) const {
  const Index rows = rows_of(x, s.in, s, offsets), size = s.experts * s.in * s.out;
  const auto run = [&](auto type, auto out) {
    using T = decltype(type);
    using Out = decltype(out);
    grouped_product<T, Out>(work_.stream, true,
                            {rows, s.experts, s.out, s.in, offsets.data(), x.as<T>(),
                             elements<T>(weights, size, "weights"), elements<Out>(y, rows * s.out, "y")});
  };
  if (rows == 0) return;
  if (x.dtype() == DType::f32) return run(float{}, float{});
  y.dtype() == DType::f32 ? run(bf16{}, float{}) : run(bf16{}, bf16{});
}

void CudaExpertOps::grouped_linear_backward_input(GroupedLinearShape s, Offsets offsets, ConstView dy,
                                                  ConstView weights, View dx) const {
  const Index rows = rows_of(dy, s.out, s, offsets), size = s.experts * s.in * s.out;
  const auto run = [&](auto type, auto out) {
    using T = decltype(type);
    using Out = decltype(out);
    grouped_product<T, Out>(work_.stream, false,
                            {rows, s.experts, s.in, s.out, offsets.data(), dy.as<T>(),
                             elements<T>(weights, size, "weights"), elements<Out>(dx, rows * s.in, "dx")});
  };
  if (rows == 0) return;
  if (dy.dtype() == DType::f32) return run(float{}, float{});
  dx.dtype() == DType::f32 ? run(bf16{}, float{}) : run(bf16{}, bf16{});
}

void CudaExpertOps::grouped_linear_backward_weight(GroupedLinearShape s, Offsets offsets, ConstView dy, ConstView x,
                                                   View dweights, bool accumulate) const {
  const Index rows = rows_of(dy, s.out, s, offsets);
  with_float_type(dy.dtype(), "grouped linear", [&](auto type) {
    using T = decltype(type);
    grouped_weight_gradient<T>(work_.stream, {s.experts, s.in, s.out, accumulate, offsets.data(),
                                              elements<T>(dy, rows * s.out, "dy"), elements<T>(x, rows * s.in, "x"),
                                              elements<float>(dweights, s.experts * s.in * s.out, "dweights")});
  });
}

}  // namespace longhaul::cuda
