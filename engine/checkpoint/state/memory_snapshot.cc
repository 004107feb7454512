#include "engine/checkpoint/state/memory_snapshot.h"

#include <cstring>

#include "engine/core/tensor/parallel_for.h"

namespace longhaul {

namespace {

std::int64_t bytes_of_array(const StateArray& array) {
  return array.size() * dtype_bytes(array.dtype());
}
template <class Byte>
std::span<Byte> bytes_of_copy(Byte* copy, const StateArray& array) {
  return {copy, static_cast<std::size_t>(bytes_of_array(array))};
}

void copy_bytes_together(const ComputeContext& context, const std::byte* from, std::byte* to, std::int64_t bytes) {
  parallel_for(context, bytes, std::int64_t{1} << 20, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

Result<MemorySnapshot> MemorySnapshot::create(const TrainingState& state, MemoryAccount* account) {
  MemorySnapshot snapshot;
  for (const StateArray* array : {&state.masters, &state.exp_avg, &state.exp_avg_sq}) {
    if (array->in_place())
      return make_error(ErrorCode::unsupported,
                        "the optimizer's moments lie outside of memory: no copy of them is kept",
                        "optimizer.offload = \"none\" allows one");
    Array copy;
    copy.bytes = bytes_of_array(*array);
    LH_TRY(copy.memory, PageBuffer::create(copy.bytes, account, array->device()));
    snapshot.arrays_.push_back(std::move(copy));
  }
  return snapshot;
}

void MemorySnapshot::take(const ComputeContext& context, const TrainingState& state, std::int64_t version) {
  version_.reset();
  std::size_t at = 0;
  for (const StateArray* array : {&state.masters, &state.exp_avg, &state.exp_avg_sq}) {
    Array& copy = arrays_[at++];
    LH_ASSERT(copy.bytes == bytes_of_array(*array), "another state than the snapshot was made for");
    if (array->in_memory())
      copy_bytes_together(context, static_cast<const std::byte*>(array->memory().data()), copy.memory.data(),
                          copy.bytes);
    else
      LH_ASSERT(array->read({0, array->size()}, bytes_of_copy(copy.memory.data(), *array)).ok(), "of a device");
  }
  progress_ = state.progress;
  extra_ = state.extra;
  version_ = version;
}

void MemorySnapshot::restore(const ComputeContext& context, TrainingState& state) const {
  LH_ASSERT(version_.has_value(), "no copy was taken");
  std::size_t at = 0;
  for (const StateArray* array : {&state.masters, &state.exp_avg, &state.exp_avg_sq}) {
    const Array& copy = arrays_[at++];
    if (array->in_memory())
      copy_bytes_together(context, copy.memory.data(), static_cast<std::byte*>(array->memory().data()), copy.bytes);
    else
      LH_ASSERT(array->write({0, array->size()}, bytes_of_copy(copy.memory.data(), *array)).ok(), "of a device");
  }
  state.progress = progress_;
  state.extra = extra_;
}

std::int64_t MemorySnapshot::bytes() const {
  std::int64_t sum = 0;
  for (const Array& array : arrays_) sum += array.bytes;
  return sum;
}

}  // namespace longhaul
