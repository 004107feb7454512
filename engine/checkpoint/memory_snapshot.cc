#include "engine/checkpoint/memory_snapshot.h"

#include <cstring>

#include "engine/core/parallel_for.h"

namespace longhaul {

namespace {

std::byte* bytes_of_array(const StateArray& array) {
  return static_cast<std::byte*>(array.memory().data());
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
    if (!array->in_memory())
      return make_error(ErrorCode::unsupported,
                        "the optimizer's moments lie outside of memory: no copy of them is kept",
                        "optimizer.offload = \"none\" allows one");
    Array copy;
    copy.bytes = array->memory().bytes();
    LH_TRY(copy.memory, PageBuffer::create(copy.bytes, account));
    snapshot.arrays_.push_back(std::move(copy));
  }
  return snapshot;
}

void MemorySnapshot::take(const ComputeContext& context, const TrainingState& state, std::int64_t version) {
  version_.reset();
  std::size_t at = 0;
  for (const StateArray* array : {&state.masters, &state.exp_avg, &state.exp_avg_sq}) {
    Array& copy = arrays_[at++];
    LH_ASSERT(copy.bytes == array->memory().bytes(), "another state than the snapshot was made for");
    copy_bytes_together(context, bytes_of_array(*array), copy.memory.data(), copy.bytes);
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
    copy_bytes_together(context, copy.memory.data(), bytes_of_array(*array), copy.bytes);
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
