#include "engine/model/placed_batch.h"

namespace longhaul {
namespace {

// At least so much; what was in it is lost when it grows.
std::byte* room_for(Device& device, std::size_t bytes, DeviceMemory& memory, MemoryCharge& charge) {
  if (memory.bytes() < static_cast<std::int64_t>(bytes)) {
    memory = DeviceMemory();
    memory = DeviceMemory(device, static_cast<std::int64_t>(bytes));
    charge.set(memory.bytes());
  }
  return memory.data();
}

}  // namespace

MicroBatch PlacedBatch::place(const ComputeContext& context, const MicroBatch& batch) {
  Device* const device = context.device();
  if (device == nullptr) return batch;
  MicroBatch placed = batch;
  placed.host_first_key = batch.first_key;
  std::span<const std::int32_t>* const arrays[] = {&placed.ids,       &placed.targets,         &placed.positions,
                                                   &placed.first_key, &placed.whole_first_key, &placed.prompt_rows};
  std::size_t bytes = 0;
  for (const auto* array : arrays) bytes += array->size_bytes();
  std::byte* to = room_for(*device, bytes, memory_, charge_);
  for (auto* array : arrays) {
    if (array->empty()) continue;
    device->copy_in(array->data(), to, static_cast<std::int64_t>(array->size_bytes()));
    *array = {reinterpret_cast<const std::int32_t*>(to), array->size()};
    to += array->size_bytes();
  }
  return placed;
}

PlacedLosses::Spans PlacedLosses::place(const ComputeContext& context, std::span<const float> weights,
                                        std::span<float> losses) {
  Device* const device = context.device();
  if (device == nullptr) return {weights, losses};
  std::byte* to = room_for(*device, 2 * losses.size_bytes(), memory_, charge_);
  Spans placed;
  placed.losses = {reinterpret_cast<float*>(to), losses.size()};
  if (weights.empty()) return placed;
  to += losses.size_bytes();
  device->copy_in(weights.data(), to, static_cast<std::int64_t>(weights.size_bytes()));
  placed.weights = {reinterpret_cast<const float*>(to), weights.size()};
  return placed;
}

void PlacedLosses::take(const ComputeContext& context, const Spans& placed, std::span<float> losses) const {
  if (Device* device = context.device())
    device->copy_out(placed.losses.data(), losses.data(), static_cast<std::int64_t>(losses.size_bytes()));
}

}  // namespace longhaul
