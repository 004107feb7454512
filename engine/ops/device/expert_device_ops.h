// Mixtures of experts: moe_router.h, moe_balance.h, moe_dispatch.h, moe_grouped_linear.h. Sizes were checked.
#pragma once

#include "engine/ops/device/device_op_group.h"
#include "engine/ops/experts/moe_balance.h"
#include "engine/ops/experts/moe_dispatch.h"
#include "engine/ops/experts/moe_grouped_linear.h"
#include "engine/ops/experts/moe_router.h"

namespace longhaul {

class ExpertDeviceOps : public DeviceOpGroup {
 public:
  virtual void moe_select(const RouterShape& shape, ConstFloats logits, ConstFloats bias,
                          std::span<std::int32_t> ids) const;
  virtual void moe_select_sinkhorn(const RouterShape& shape, ConstFloats logits, const SinkhornOptions& options,
                                   std::span<std::int32_t> ids, SinkhornReport* report) const;
  virtual void moe_count(Ids ids, Floats counts) const;
  virtual void moe_gate_forward(const RouterShape& shape, ConstFloats logits, Ids ids, Floats weights) const;
  virtual void moe_gate_backward(const RouterShape& shape, ConstFloats logits, Ids ids, ConstFloats dweights,
                                 Floats dlogits, bool accumulate) const;
  virtual void moe_router_statistics(const RouterShape& shape, ConstFloats logits, Ids ids, Floats statistics,
                                     Mask mask) const;
  virtual void moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z, Floats slopes) const;
  virtual void moe_statistics_backward(const RouterShape& shape, ConstFloats logits, ConstFloats slopes, float scale,
                                       Floats dlogits, Mask mask) const;
  virtual void moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule, const DispatchArrays& plan) const;
  virtual void gather_rows(std::int64_t width, ConstView x, Ids index, View out) const;
  // Without weights the plain sum: what moe_permute_backward is.
  virtual void moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights, View out,
                           bool accumulate) const;
  virtual void moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                                    ConstFloats weights, View drows, Floats dweights) const;
  virtual void grouped_linear_forward(GroupedLinearShape shape, Offsets offsets, ConstView x, ConstView weights,
                                      View y) const;
  virtual void grouped_linear_backward_input(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView weights,
                                             View dx) const;
  virtual void grouped_linear_backward_weight(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView x,
                                              View dweights, bool accumulate) const;
};

}  // namespace longhaul
