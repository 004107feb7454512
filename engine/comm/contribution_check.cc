#include "engine/comm/contribution_check.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/core/tensor/word_digest.h"

namespace longhaul {

std::uint64_t contribution_checksum(std::span<const std::byte> bytes, ContributionChecksum by) {
  if (by == ContributionChecksum::words) return word_digest(bytes);
  return xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

int contribution_parts(CollectiveKind kind, std::size_t bytes, int ranks) {
  const bool is_small = bytes * static_cast<std::size_t>(ranks) <= static_cast<std::size_t>(small_all_reduce_bytes);
  return kind != CollectiveKind::reduce_scatter_sum && is_small ? 1 : ranks;
}

ContributionPart contribution_to(CollectiveKind kind, std::size_t bytes, int ranks, int rank) {
  const auto size = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  if (kind == CollectiveKind::reduce_scatter_sum) return {r * (bytes / size), bytes / size};
  if (contribution_parts(kind, bytes, ranks) == 1) return {0, bytes};  // all of it to everybody
  const std::size_t n = bytes / sizeof(float), begin = n * r / size, end = n * (r + 1) / size;
  return {begin * sizeof(float), (end - begin) * sizeof(float)};
}

std::vector<std::uint64_t> contribution_checksums(CollectiveKind kind, std::span<const std::byte> contribution,
                                                  int ranks, ContributionChecksum by) {
  std::vector<std::uint64_t> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const ContributionPart part = contribution_to(kind, contribution.size(), ranks, rank);
    const bool as_before = rank > 0 && part.size == contribution.size();
    sums.push_back(as_before ? sums.back() : contribution_checksum(contribution.subspan(part.begin, part.size), by));
  }
  return sums;
}

std::vector<CorruptContribution> find_corruption(const std::vector<ContributionPair>& pairs) {
  struct Ends {
    int pairs = 0, wrong = 0;
  };
  std::map<int, Ends> senders, receivers;
  std::vector<CorruptContribution> found;
  for (const ContributionPair& pair : pairs) {
    const bool wrong = pair.given != pair.received;
    if (pair.from == pair.to) {
      if (wrong)
        found.push_back({pair.from, -1, 1, format("rank {}: its own contribution changed in its memory", pair.from)});
      continue;
    }
    ++senders[pair.from].pairs, ++receivers[pair.to].pairs;
    senders[pair.from].wrong += wrong, receivers[pair.to].wrong += wrong;
  }
  const auto blamed = [&](int rank) {
    return std::any_of(found.begin(), found.end(), [&](const CorruptContribution& one) { return one.rank == rank; });
  };
  // With one receiver, or one sender, all is no more than one: the way between the two is as likely.
  const auto all_wrong = [](const Ends& ends) { return ends.pairs > 1 && ends.wrong == ends.pairs; };
  for (const auto& [rank, ends] : senders)
    if (all_wrong(ends) && !blamed(rank))
      found.push_back({rank, -1, ends.wrong,
                       format("rank {} gave other bytes than it says: all {} receivers disagree", rank, ends.wrong)});
  for (const auto& [rank, ends] : receivers)
    if (all_wrong(ends) && found.empty())
      found.push_back(
          {rank, -1, ends.wrong, format("rank {} received other bytes than all {} senders gave", rank, ends.wrong)});
  std::vector<CorruptContribution> ways;
  for (const ContributionPair& pair : pairs)
    if (pair.from != pair.to && pair.given != pair.received && !blamed(pair.from) && !blamed(pair.to))
      ways.push_back({pair.from, pair.to, 1, format("between rank {} and rank {} bytes changed", pair.from, pair.to)});
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.disagreements > b.disagreements; });
  found.insert(found.end(), ways.begin(), ways.end());
  return found;
}

}  // namespace longhaul
