#include "engine/ops/device/expert_device_ops.h"

namespace longhaul {

void ExpertDeviceOps::moe_select(const RouterShape&, ConstFloats, ConstFloats, std::span<std::int32_t>) const {
  missing("moe_select");
}
void ExpertDeviceOps::moe_select_sinkhorn(const RouterShape&, ConstFloats, const SinkhornOptions&,
                                          std::span<std::int32_t>, SinkhornReport*) const {
  missing("moe_select_sinkhorn");
}
void ExpertDeviceOps::moe_count(Ids, Floats) const {
  missing("moe_count");
}
void ExpertDeviceOps::moe_gate_forward(const RouterShape&, ConstFloats, Ids, Floats) const {
  missing("moe_gate_forward");
}
void ExpertDeviceOps::moe_gate_backward(const RouterShape&, ConstFloats, Ids, ConstFloats, Floats, bool) const {
  missing("moe_gate_backward");
}
void ExpertDeviceOps::moe_router_statistics(const RouterShape&, ConstFloats, Ids, Floats, Mask) const {
  missing("moe_router_statistics");
}
void ExpertDeviceOps::moe_router_losses(const RouterLossTerms&, ConstFloats, ConstFloats, Floats) const {
  missing("moe_router_losses");
}
void ExpertDeviceOps::moe_statistics_backward(const RouterShape&, ConstFloats, ConstFloats, float, Floats, Mask) const {
  missing("moe_statistics_backward");
}
void ExpertDeviceOps::moe_dispatch(Ids, ConstFloats, const CapacityRule*, const DispatchArrays&) const {
  missing("moe_dispatch");
}
void ExpertDeviceOps::gather_rows(std::int64_t, ConstView, Ids, View) const {
  missing("gather_rows");
}
void ExpertDeviceOps::moe_combine(const DispatchView&, std::int64_t, ConstView, ConstFloats, View, bool) const {
  missing("moe_combine");
}
void ExpertDeviceOps::moe_combine_backward(const DispatchView&, std::int64_t, ConstView, ConstView, ConstFloats, View,
                                           Floats) const {
  missing("moe_combine_backward");
}
void ExpertDeviceOps::grouped_linear_forward(GroupedLinearShape, Offsets, ConstView, ConstView, View) const {
  missing("grouped_linear_forward");
}
void ExpertDeviceOps::grouped_linear_backward_input(GroupedLinearShape, Offsets, ConstView, ConstView, View) const {
  missing("grouped_linear_backward_input");
}
void ExpertDeviceOps::grouped_linear_backward_weight(GroupedLinearShape, Offsets, ConstView, ConstView, View,
                                                     bool) const {
  missing("grouped_linear_backward_weight");
}

}  // namespace longhaul
