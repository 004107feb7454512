#include "engine/train/gradients/contribution_guard.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "engine/ops/loss/digest.h"

namespace longhaul {

namespace {
constexpr std::size_t digests_at_first = 1024;
}

void ContributionGuard::begin() {
  taken_.clear();
  std::size_t all = 0;
  for (Room& room : rooms_) all += room.size, room.used = 0;
  if (rooms_.size() > 1) {
    rooms_.clear();
    rooms_.push_back(
        {DeviceMemory(*context_.device(), static_cast<std::int64_t>(all * sizeof(std::uint64_t))), all, 0});
  }
  if (const std::optional<std::uint64_t> bit = flip_here(FaultPoint::engine_contribution)) flip_ = bit;
}

ContributionRecord* ContributionGuard::take(Communicator& ranks, CollectiveKind kind, std::span<float> contribution) {
  const bool on_device = context_.device() && !contribution.empty() && context_.device()->owns(contribution.data());
  const std::span<std::byte> bytes = std::as_writable_bytes(contribution);
  ContributionRecord* record = nullptr;
  if (checks_) {
    taken_.push_back({&ranks, {}});
    record = &taken_.back().record;
    record->by = by_;
    if (on_device)
      digest_on_device(taken_.back(), kind, contribution);
    else
      record->given = contribution_checksums(kind, bytes, ranks.size(), by_);
  }
  if (flip_ && !contribution.empty()) flip_in(bytes, on_device);
  return record;
}

void ContributionGuard::digest_on_device(Taken& taken, CollectiveKind kind, std::span<const float> contribution) {
  taken.parts = static_cast<std::size_t>(contribution_parts(kind, contribution.size_bytes(), taken.ranks->size()));
  if (rooms_.empty() || rooms_.back().size - rooms_.back().used < taken.parts) {
    const std::size_t size = std::max({digests_at_first, taken.parts, rooms_.empty() ? 0 : 2 * rooms_.back().size});
    rooms_.push_back(
        {DeviceMemory(*context_.device(), static_cast<std::int64_t>(size * sizeof(std::uint64_t))), size, 0});
  }
  Room& room = rooms_.back();
  taken.room = rooms_.size() - 1, taken.begin = room.used;
  room.used += taken.parts;
  digest_parts(context_, contribution,
               {reinterpret_cast<std::uint64_t*>(room.memory.data()) + taken.begin, taken.parts});
}

void ContributionGuard::fetch_digests() {
  std::vector<std::vector<std::uint64_t>> digests;
  for (const Room& room : rooms_) {
    digests.emplace_back(room.used);
    if (room.used > 0)
      context_.device()->copy_out(room.memory.data(), digests.back().data(),
                                  static_cast<std::int64_t>(room.used * sizeof(std::uint64_t)));
  }
  for (Taken& taken : taken_) {
    if (taken.parts == 0) continue;
    const auto first = digests[taken.room].begin() + static_cast<std::ptrdiff_t>(taken.begin);
    taken.record.given.assign(first, first + static_cast<std::ptrdiff_t>(taken.parts));
    taken.record.given.resize(static_cast<std::size_t>(taken.ranks->size()), *first);  // one part: the same for all
  }
}

void ContributionGuard::flip_in(std::span<std::byte> contribution, bool on_device) {
  const std::uint64_t bit = *std::exchange(flip_, std::nullopt) % (contribution.size() * 8);
  if (!on_device) return flip_bit(contribution, bit);
  std::byte* const there = contribution.data() + bit / 8;
  std::byte changed{};
  context_.device()->copy_out(there, &changed, 1);
  flip_bit(std::span(&changed, 1), bit % 8);
  context_.device()->copy_in(&changed, there, 1);
}

Status ContributionGuard::sum_along_tree(CollectiveGroup& group, std::span<float> values) {
  Communicator* ranks = group.communicator();
  if (!ranks) return {};
  ContributionRecord* record = take(*ranks, CollectiveKind::all_reduce_sum, values);
  return ranks->wait(ranks->all_reduce_sum(values, record), group.deadline_ms());
}

// Over each communicator, who gave says what it gave. All exchanges are started before one is waited for: ranks may
// have used their communicators in another order.
Result<std::vector<ContributionGuard::Seen>> ContributionGuard::compare(std::int64_t deadline_ms) {
  struct Exchange {
    Communicator* ranks;
    std::vector<const ContributionRecord*> records;
    std::vector<std::uint64_t> out, in;  // of each rank, of each record
    Request request;
  };
  fetch_digests();
  std::vector<Exchange> exchanges;
  for (const Taken& one : taken_) {
    auto at = std::ranges::find(exchanges, one.ranks, &Exchange::ranks);
    if (at == exchanges.end()) at = exchanges.insert(at, Exchange{one.ranks, {}, {}, {}, {}});
    at->records.push_back(&one.record);
  }
  for (Exchange& exchange : exchanges) {
    const auto size = static_cast<std::size_t>(exchange.ranks->size());
    for (std::size_t to = 0; to < size; ++to)
      for (const ContributionRecord* record : exchange.records) exchange.out.push_back(record->given[to]);
    exchange.in.resize(exchange.out.size());
    exchange.request = exchange.ranks->all_to_all(std::as_bytes(std::span(exchange.out)),
                                                  std::as_writable_bytes(std::span(exchange.in)));
  }
  std::vector<Seen> seen;
  for (Exchange& exchange : exchanges) {
    LH_CHECK(exchange.ranks->wait(std::move(exchange.request), deadline_ms));
    const std::vector<int>& members = exchange.ranks->members();
    const int self = members[static_cast<std::size_t>(exchange.ranks->rank())];
    for (std::size_t from = 0; from < members.size(); ++from) {
      Seen pair{members[from], self, false};
      for (std::size_t i = 0; i < exchange.records.size(); ++i) {
        const ContributionRecord& record = *exchange.records[i];
        pair.wrong |= exchange.in[from * exchange.records.size() + i] != record.received[from];
        if (members[from] == self) pair.wrong |= record.given != record.sent;
      }
      seen.push_back(pair);
    }
  }
  return seen;
}

Result<std::optional<SilentCorruption>> ContributionGuard::verify(CollectiveGroup& world, std::int64_t step) {
  std::optional<SilentCorruption> corruption;
  if (!checks_) return corruption;
  LH_TRY(const std::vector<Seen> seen, compare(world.deadline_ms()));
  taken_.clear();
  const bool wrong = std::ranges::any_of(seen, &Seen::wrong);
  const double mine = wrong ? 1 : 0;
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  LH_CHECK(world.all_gather(std::span<const double>(&mine, 1), all));
  if (std::ranges::all_of(all, [](double one) { return one == 0; })) return corruption;
  // Who is to blame shows in what was right as well.
  std::string text;
  for (const Seen& pair : seen) text += format("{} {} {} ", pair.from, pair.to, pair.wrong ? 1 : 0);
  LH_TRY(const std::vector<std::string> texts, world.all_gather_text(text));
  std::vector<ContributionPair> pairs;
  for (const std::string& of_rank : texts) {
    const std::vector<std::string> fields = split(of_rank, ' ');
    for (std::size_t at = 0; at + 3 <= fields.size(); at += 3)
      pairs.push_back({std::atoi(fields[at].c_str()), std::atoi(fields[at + 1].c_str()), 0,
                       static_cast<std::uint64_t>(std::atoi(fields[at + 2].c_str()))});
  }
  const std::vector<CorruptContribution> found = find_corruption(pairs);
  LH_ASSERT(!found.empty(), "a disagreement without ranks");
  corruption.emplace();
  corruption->rank = found.front().rank, corruption->other = found.front().other;
  corruption->step = step, corruption->sound_step = step - 1;
  std::vector<std::string> reasons;
  for (const CorruptContribution& one : found) reasons.push_back(one.reason);
  corruption->what =
      format("the sum of the gradients of step {}: {}; the update was not made", step, join(reasons, ", "));
  return corruption;
}

}  // namespace longhaul
