// Mixtures of experts on a GPU.
#pragma once

#include "engine/ops/cuda/operations/cuda_work.h"
#include "engine/ops/device/expert_device_ops.h"

namespace longhaul::cuda {

class CudaExpertOps : public virtual ExpertDeviceOps {
 public:
  // Borrowed: work.
  explicit CudaExpertOps(const CudaWork& work) : work_(work) {}

  void moe_select(const RouterShape& shape, ConstFloats logits, ConstFloats bias,
                  std::span<std::int32_t> ids) const override;
  void moe_select_sinkhorn(const RouterShape& shape, ConstFloats logits, const SinkhornOptions& options,
                           std::span<std::int32_t> ids, SinkhornReport* report) const override;
  void moe_count(Ids ids, Floats counts) const override;
  void moe_gate_forward(const RouterShape& shape, ConstFloats logits, Ids ids, Floats weights) const override;
  void moe_gate_backward(const RouterShape& shape, ConstFloats logits, Ids ids, ConstFloats dweights, Floats dlogits,
                         bool accumulate) const override;
  void moe_router_statistics(const RouterShape& shape, ConstFloats logits, Ids ids, Floats statistics,
                             Mask mask) const override;
  void moe_router_losses(const RouterLossTerms& terms, ConstFloats balance, ConstFloats z,
                         Floats slopes) const override;
  void moe_statistics_backward(const RouterShape& shape, ConstFloats logits, ConstFloats slopes, float scale,
                               Floats dlogits, Mask mask) const override;
  void moe_dispatch(Ids ids, ConstFloats weights, const CapacityRule* rule, const DispatchArrays& plan) const override;
  void gather_rows(std::int64_t width, ConstView x, Ids index, View out) const override;
  void moe_combine(const DispatchView& plan, std::int64_t hidden, ConstView rows, ConstFloats weights, View out,
                   bool accumulate) const override;
  void moe_combine_backward(const DispatchView& plan, std::int64_t hidden, ConstView dout, ConstView rows,
                            ConstFloats weights, View drows, Floats dweights) const override;
  void grouped_linear_forward(GroupedLinearShape shape, Offsets offsets, ConstView x, ConstView weights,
                              View y) const override;
  void grouped_linear_backward_input(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView weights,
                                     View dx) const override;
  void grouped_linear_backward_weight(GroupedLinearShape shape, Offsets offsets, ConstView dy, ConstView x,
                                      View dweights, bool accumulate) const override;

 private:
  const CudaWork& work_;
};

}  // namespace longhaul::cuda
