// Silent data corruption on the way into a sum. A rank takes checksums of what it gives when that is complete; the sum
// takes them again where it takes a contribution up and where it has come to each receiver. Contributions travel whole,
// so all must be equal; who disagrees with whom says where bits changed. What was computed wrongly before has the
// checksum of what is wrong: that is found by replay (engine/train/step/replay_verdict.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "contracts/plan/collective_kind.h"

namespace longhaul {

// xxh3, 64 bits, on processors: a flip goes unnoticed once in 2^64. Launches on devices: words
// (engine/core/tensor/word_digest.h), which a device takes where a contribution lies; their host takes it of what comes
// by way of it.
enum class ContributionChecksum : std::uint8_t { xxh3, words };
std::uint64_t contribution_checksum(std::span<const std::byte> bytes,
                                    ContributionChecksum by = ContributionChecksum::xxh3);

// Bytes [begin, begin + size) of an array of floats: what of a contribution to a sum over `ranks` goes to one of them.
// Backends that move pieces distribute them by this rule.
struct ContributionPart {
  std::size_t begin = 0, size = 0;
};
ContributionPart contribution_to(CollectiveKind kind, std::size_t bytes, int ranks, int rank);
// How many unlike parts that are: `ranks`, of which part r is floats [n r / ranks, n (r + 1) / ranks); or 1, of all.
int contribution_parts(CollectiveKind kind, std::size_t bytes, int ranks);
// Of what goes to each rank.
std::vector<std::uint64_t> contribution_checksums(CollectiveKind kind, std::span<const std::byte> contribution,
                                                  int ranks, ContributionChecksum by = ContributionChecksum::xxh3);

// The checksums that one rank has of one sum, by rank of the group. `by` is set by who gives, before the sum is
// started, and alike on all ranks; `given` is filled in by who gives, before records are compared; the others by the
// sum.
struct ContributionRecord {
  ContributionChecksum by = ContributionChecksum::xxh3;
  std::vector<std::uint64_t> given;     // of what goes to each rank, when it was complete
  std::vector<std::uint64_t> sent;      // the same, as the sum took it up
  std::vector<std::uint64_t> received;  // of what has come from each rank, as it is added
};

// One contribution as one receiver got it; ranks of whatever numbering. From a rank to itself: `received` is what the
// sum took up of it.
struct ContributionPair {
  int from = 0, to = 0;
  std::uint64_t given = 0, received = 0;
};
struct CorruptContribution {
  int rank = -1;   // at which it broke, as far as can be known
  int other = -1;  // the far end, where it is the way between the two; -1: the rank itself
  int disagreements = 0;
  std::string reason;
};
// `pairs`: of one reduction. A rank whose own contribution changed before it left is to blame, and so is a sender with
// whom all its receivers disagree, or a receiver that disagrees with all its senders; anything else is the way between
// two. What is certain first, most disagreements first; empty: all agree.
std::vector<CorruptContribution> find_corruption(const std::vector<ContributionPair>& pairs);

}  // namespace longhaul
