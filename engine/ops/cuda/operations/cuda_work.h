// Room engine/ops/cuda/operations
// The operations of a GPU, one class for each interface of engine/ops/device: what each needs of scratch memory, and
// which kernel it is.
// cuda_work.h is what all of them work with; kernels lie in the rooms of the same names beside this one.
// It knows no opening of devices and no contexts; no header of CUDA is included, so that tests emulate the kernels.
#pragma once

#include "engine/core/device/device.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/cpu/simd/dispatch.h"
#include "engine/ops/cuda/common/stream.h"

namespace longhaul::cuda {

// Kernels and copies of the device go into `stream`, one after the other.
class CudaWork {
 public:
  // Borrowed: device.
  CudaWork(Device& of, cudaStream_t into) : device(of), stream(into) {}

  Device& device;
  const cudaStream_t stream;
  // Memory of the device for one operation, until the next one that asks for that slot.
  std::byte* scratch(int slot, std::int64_t bytes) const;

 private:
  mutable DeviceMemory scratch_[3];
};

template <class S>
auto* data_or_null(S span) {
  return span.empty() ? nullptr : span.data();
}
template <class T>
const T* elements_or_null(const ConstView& view, Index size, const char* name) {
  return view.empty() ? nullptr : cpu::elements<T>(view, size, name);
}
inline Index rows_extent(Index rows, Index stride, Index columns) {
  return rows == 0 ? 0 : (rows - 1) * stride + columns;
}

}  // namespace longhaul::cuda
