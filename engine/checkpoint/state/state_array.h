// One flat array of a training's state, packed as the layout's owned(): in the memory of the host, or outside of it: on
// a device, or in a place for state.
// Borrowed.
#pragma once

#include <functional>

#include "contracts/model/flat_range.h"
#include "engine/checkpoint/state/optimizer_state_place.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

class StateArray {
 public:
  StateArray() = default;
  StateArray(View memory)  // NOLINT: implicit on purpose
      : dtype_(memory.dtype()), size_(memory.size()), memory_(memory) {}
  StateArray(std::span<float> memory) : StateArray(View(memory)) {}  // NOLINT: implicit on purpose
  // Of that device, or of the host where it is null.
  StateArray(View memory, Device* device) : StateArray(memory) { device_ = device; }
  // Elements from byte `begin` of the place on.
  StateArray(OptimizerStatePlace& place, std::int64_t begin, DType dtype, std::int64_t size)
      : dtype_(dtype), size_(size), place_(&place), begin_(begin) {}

  DType dtype() const { return dtype_; }  // f32 or bf16
  std::int64_t size() const { return size_; }
  bool in_memory() const { return place_ == nullptr && device_ == nullptr; }
  bool in_place() const { return place_ != nullptr; }
  Device* device() const { return device_; }  // null: it lies on none
  // Where the elements in `range` lie, on the device or in the host's memory.
  const void* address(FlatRange range) const {
    LH_ASSERT(!in_place(), "state outside of memory");
    return memory_.rows(range.begin, range.end).data();
  }
  View memory() const {
    LH_ASSERT(in_memory(), "state outside of memory");
    return memory_;
  }

  // Bytes of the elements in `range`, which must be as many.
  Status read(FlatRange range, std::span<std::byte> out) const;
  Status write(FlatRange range, std::span<const std::byte> bytes) const;
  // Lets `change` work on them: where they are, or on a copy that is then written back.
  Status edit(FlatRange range, const std::function<Status(View values)>& change) const;

 private:
  DType dtype_ = DType::f32;
  std::int64_t size_ = 0;
  View memory_;
  Device* device_ = nullptr;
  OptimizerStatePlace* place_ = nullptr;
  std::int64_t begin_ = 0;
};

}  // namespace longhaul
