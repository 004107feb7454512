// Quantities that users write with a unit: "30min", "16GiB". A bare number is refused, so nobody has to guess.
#pragma once

#include <cstdint>

namespace longhaul {

struct Seconds {
  double value = 0;
  bool operator==(const Seconds&) const = default;
};
struct ByteCount {
  std::int64_t value = 0;
  bool operator==(const ByteCount&) const = default;
};

}  // namespace longhaul
