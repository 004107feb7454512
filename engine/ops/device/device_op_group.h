// Room engine/ops/device
// The operations of a device as interfaces, one for each kind: what a GPU, or a stand-in of one, has to implement.
// device_op_group.h is what they have in common; each of the others has the operations of one room of engine/ops.
// It knows no implementation and no context: engine/ops/device_ops.h is all of them together.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul {

class DeviceOpGroup {
 public:
  using Floats = std::span<float>;
  using ConstFloats = std::span<const float>;
  using Ids = std::span<const std::int32_t>;
  using Offsets = std::span<const std::int64_t>;
  using Mask = std::span<const std::uint8_t>;
  virtual ~DeviceOpGroup() = default;

 protected:
  // Ends the process: this device has no `operation`.
  [[noreturn]] static void missing(const char* operation);
};

}  // namespace longhaul
