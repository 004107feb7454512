// Silent data corruption on the way into a sum: every rank takes a checksum of what it gives before the reduction, and
// whoever receives a contribution takes one of what came. Reductions of the deterministic mode move contributions
// whole, so the two must be equal; who disagrees with whom says where it broke.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

// xxh3, 64 bits: a flip goes unnoticed once in 2^64.
std::uint64_t contribution_checksum(std::span<const std::byte> bytes);

// One contribution as one receiver got it.
struct ContributionPair {
  int from = 0, to = 0;
  std::uint64_t given = 0, received = 0;
};
struct CorruptContribution {
  int rank = -1;   // at which it broke, as far as can be told
  int other = -1;  // the far end, where it is the way between the two; -1: the rank itself
  int disagreements = 0;
  std::string reason;
};
// `pairs`: of one reduction. A sender with whom all its receivers disagree is to blame (what it sent is not what it
// took the checksum of), a receiver that disagrees with all its senders likewise; anything else is the way between two.
// Most disagreements first; empty: all agree.
std::vector<CorruptContribution> find_corruption(const std::vector<ContributionPair>& pairs);

}  // namespace longhaul
