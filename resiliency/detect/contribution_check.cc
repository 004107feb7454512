#include "resiliency/detect/contribution_check.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"

namespace longhaul {

std::uint64_t contribution_checksum(std::span<const std::byte> bytes) {
  return xxh3_64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<CorruptContribution> find_corruption(const std::vector<ContributionPair>& pairs) {
  struct Ends {
    int pairs = 0, wrong = 0;
  };
  std::map<int, Ends> senders, receivers;
  for (const ContributionPair& pair : pairs) {
    if (pair.from == pair.to) continue;  // never left the rank
    const bool wrong = pair.given != pair.received;
    ++senders[pair.from].pairs, ++receivers[pair.to].pairs;
    senders[pair.from].wrong += wrong, receivers[pair.to].wrong += wrong;
  }
  // With one receiver, or one sender, all is no more than one: the way between the two is as likely.
  const auto all_wrong = [](const Ends& ends) { return ends.pairs > 1 && ends.wrong == ends.pairs; };
  std::vector<CorruptContribution> found;
  for (const auto& [rank, ends] : senders)
    if (all_wrong(ends))
      found.push_back({rank, -1, ends.wrong,
                       format("rank {} gave other bytes than it says: all {} receivers disagree", rank, ends.wrong)});
  for (const auto& [rank, ends] : receivers)
    if (all_wrong(ends) && found.empty())
      found.push_back(
          {rank, -1, ends.wrong, format("rank {} received other bytes than all {} senders gave", rank, ends.wrong)});
  const auto blamed = [&](int rank) {
    return std::any_of(found.begin(), found.end(),
                       [&](const CorruptContribution& one) { return one.rank == rank && one.other < 0; });
  };
  std::vector<CorruptContribution> ways;
  for (const ContributionPair& pair : pairs) {
    if (pair.from == pair.to) {
      if (pair.given != pair.received)
        ways.push_back({pair.from, -1, 1, format("rank {}: its own contribution changed in its memory", pair.from)});
    } else if (pair.given != pair.received && !blamed(pair.from) && !blamed(pair.to)) {
      ways.push_back({pair.from, pair.to, 1, format("between rank {} and rank {} bytes changed", pair.from, pair.to)});
    }
  }
  found.insert(found.end(), ways.begin(), ways.end());
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.disagreements > b.disagreements; });
  return found;
}

}  // namespace longhaul
