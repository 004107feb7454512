// Connections to a lead's port that have not shown yet that they know the secret, and which of them goes where there
// is no room for another. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace longhaul {

struct Stranger {
  std::string address;
  std::int64_t since_ns = 0;
  bool outside = false;  // every host of the job has come from an address, and this is none of them
};

// Of `strangers`, which is not empty, the index of the one to drop: first one from outside of the job; then of the
// address that has most of them; of those the oldest. Who floods the port drops connections of its own, and a host that
// has one is let in.
std::size_t stranger_to_drop(std::span<const Stranger> strangers);

}  // namespace longhaul
