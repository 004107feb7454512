// What a training keeps in memory, by what it is for. The engine counts the bytes of each category as it takes them
// (engine/core/tensor/memory_accounts.h); memory_plan.h says beforehand what they will be.
//
// Counted is what lasts from step to step and grows with weights, tokens or layers. Not counted, but planned as
// `process`: what lives inside one call, a few numbers per expert or parameter, and what the program's libraries and
// its heap take. Neither is the page cache, of which programs and tokens are.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace longhaul {

enum class MemoryCategory {
  weights,           // the compute type's copy of what this rank owns; none in f32, where the masters are it
  gathered_weights,  // ZeRO: compute weights of other ranks' shares, all (1, 2) or a few units (3)
  master,            // f32 weights
  gradients,         // f32: the tree's levels or the buckets, and the owned share
  optimizer,         // moments
  activations,       // of all slots, with the workspace of one layer
  experts,           // what expert layers keep beside that; its size depends on where tokens go
  attention,         // context parallelism: keys, values and gradients of other ranks
  logits,            // of one chunk of tokens
  answers,           // of the model in training on a GPU: caches and copies of weights, and the models that judge them
  communication,     // where messages between ranks of a replica land or wait
  messages,          // copies that a library of messages keeps of what is on its way (MPI)
  batches,           // token ids, targets and weights of a step's micro-batches, and their losses
  checkpoint,        // a copy of the share that is being written
  scratch,           // of single operations
  process,           // what nobody counts: libraries, compiled products, what the heap cannot give back
};
inline constexpr int memory_categories = 16;
const char* to_string(MemoryCategory category);
// Where a rank computes on a device: is it of the device's memory, or of the host's?
bool lies_on_device(MemoryCategory category);

// Bytes of each category.
struct MemoryTable {
  std::array<std::int64_t, memory_categories> bytes{};
  std::int64_t& operator[](MemoryCategory category) { return bytes[static_cast<std::size_t>(category)]; }
  std::int64_t operator[](MemoryCategory category) const { return bytes[static_cast<std::size_t>(category)]; }
  std::int64_t total() const;
  MemoryCategory largest() const;
  bool operator==(const MemoryTable&) const = default;
};

// A line for each category that is not empty in both, and the sum: "activations 1.2 GiB, held 1.2 GiB".
std::string memory_text(const MemoryTable& planned);
std::string memory_text(const MemoryTable& planned, const MemoryTable& held);

}  // namespace longhaul
