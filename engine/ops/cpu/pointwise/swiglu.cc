#include "engine/ops/pointwise/swiglu.h"

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "engine/ops/device_ops.h"

namespace longhaul {
namespace {

cpu::Index stride_of(SwiGluShape shape) {
  LH_ASSERT(shape.row_stride == 0 || shape.row_stride >= shape.ffn, std::to_string(shape.row_stride));
  return shape.row_stride == 0 ? shape.ffn : shape.row_stride;
}
cpu::Index extent_of(SwiGluShape shape) {
  return shape.tokens == 0 ? 0 : (shape.tokens - 1) * stride_of(shape) + shape.ffn;
}

SwiGluShape side_by_side(ConstView out) {
  return {out.shape()[0], out.shape()[1], 2 * out.shape()[1]};
}
// From the first element of gate (part 0) or up (part 1) to the last one, with what lies between.
template <class V>
V part_of(SwiGluShape shape, V gate_up, int part) {
  LH_ASSERT(gate_up.shape()[-1] == 2 * shape.ffn, gate_up.shape().text());
  using Byte = std::conditional_t<std::is_same_v<V, ConstView>, const std::byte, std::byte>;
  return V(static_cast<Byte*>(gate_up.data()) + part * shape.ffn * dtype_bytes(gate_up.dtype()), gate_up.dtype(),
           Shape{extent_of(shape)});
}

}  // namespace

void swiglu_forward(const ComputeContext& context, SwiGluShape shape, ConstView gate, ConstView up, View out) {
  if (const DeviceOps* device = context.device_ops()) return device->swiglu_forward(shape, gate, up, out);
  using cpu::Index;
  const Index stride = stride_of(shape), extent = extent_of(shape);
  cpu::with_float_type(gate.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    const T* pg = cpu::elements<T>(gate, extent, "gate");
    const T* pu = cpu::elements<T>(up, extent, "up");
    T* po = cpu::elements<T>(out, shape.tokens * shape.ffn, "out");
    parallel_for(context, shape.tokens, 16, [&](Index begin, Index end) {
      for (Index t = begin; t < end; ++t) {
        cpu::kernels(context).of<T>().swiglu_forward(pg + t * stride, pu + t * stride, po + t * shape.ffn, shape.ffn);
      }
    });
  });
}

void swiglu_backward(const ComputeContext& context, SwiGluShape shape, ConstView dout, ConstView gate, ConstView up,
                     View dgate, View dup) {
  if (const DeviceOps* device = context.device_ops()) return device->swiglu_backward(shape, dout, gate, up, dgate, dup);
  using cpu::Index;
  const Index stride = stride_of(shape), extent = extent_of(shape);
  cpu::with_float_type(gate.dtype(), "swiglu", [&](auto type) {
    using T = decltype(type);
    const T* pd = cpu::elements<T>(dout, shape.tokens * shape.ffn, "dout");
    const T* pg = cpu::elements<T>(gate, extent, "gate");
    const T* pu = cpu::elements<T>(up, extent, "up");
    T* pdg = cpu::elements<T>(dgate, extent, "dgate");
    T* pdu = cpu::elements<T>(dup, extent, "dup");
    parallel_for(context, shape.tokens, 16, [&](Index begin, Index end) {
      for (Index t = begin; t < end; ++t) {
        cpu::kernels(context).of<T>().swiglu_backward(pd + t * shape.ffn, pg + t * stride, pu + t * stride,
                                                      pdg + t * stride, pdu + t * stride, shape.ffn);
      }
    });
  });
}

void swiglu_forward(const ComputeContext& context, ConstView gate_up, View out) {
  const SwiGluShape shape = side_by_side(out);
  swiglu_forward(context, shape, part_of(shape, gate_up, 0), part_of(shape, gate_up, 1), out);
}

void swiglu_backward(const ComputeContext& context, ConstView dout, ConstView gate_up, View dgate_up) {
  const SwiGluShape shape = side_by_side(dout);
  swiglu_backward(context, shape, dout, part_of(shape, gate_up, 0), part_of(shape, gate_up, 1),
                  part_of(shape, dgate_up, 0), part_of(shape, dgate_up, 1));
}

}  // namespace longhaul
