// Where moments of the optimizer lie while nobody computes with them, when that is not the memory in which the training
// computes: bytes that are fetched and stored in ranges. Each engine has its own (file_state_place.h: a node's disk).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error/result.h"

namespace longhaul {

// Places hand out whole pages fastest: ranges that begin and end at a multiple of this, in memory that does, too.
inline constexpr std::int64_t state_page_bytes = 4096;

class OptimizerStatePlace {
 public:
  virtual ~OptimizerStatePlace() = default;
  // Zero at the beginning.
  virtual std::int64_t bytes() const = 0;
  // Bytes [begin, begin + size). From any thread, several at once, as long as nobody writes what another one touches
  // (nor a page of it).
  virtual Status fetch(std::int64_t begin, std::span<std::byte> out) = 0;
  virtual Status store(std::int64_t begin, std::span<const std::byte> from) = 0;
};

}  // namespace longhaul
