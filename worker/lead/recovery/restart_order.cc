#include "worker/lead/recovery/restart_order.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {
namespace {
constexpr const char* on_its_way =
    "restart";  // the section in which a rank leaves and meets (TrainingRestart::restart)
}

void RestartOrder::given(std::int64_t now_ms, std::int64_t epoch, const GuardFinding& why) {
  order_ = Given{now_ms, epoch, why, std::nullopt};
}

std::optional<GuardFinding> RestartOrder::look(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  if (!order_) return std::nullopt;
  if (std::all_of(ranks.begin(), ranks.end(), [this](const RankObservation& rank) { return is_there(rank); })) {
    order_.reset();
    return std::nullopt;
  }
  const std::int64_t since_ms = now_ms - order_->at_ms;
  if (auto found = failed(ranks)) return found;  // the others may have met, and wait for it
  if (order_->why.kind != GuardFinding::Kind::faulted) return not_followed(since_ms, ranks);
  std::optional<GuardFinding> found = not_passed_on(since_ms, ranks);
  return found ? found : not_met(now_ms, ranks);
}

std::optional<GuardFinding> RestartOrder::failed(const std::vector<RankObservation>& ranks) {
  if (!order_ || order_->why.kind != GuardFinding::Kind::faulted) return std::nullopt;
  for (const RankObservation& rank : ranks)
    if (starts_with(rank.beat.section, beat_failed))
      return come_to_nothing(format("rank {} has failed since the order to go on in-process", rank.rank));
  return std::nullopt;
}

std::optional<GuardFinding> RestartOrder::fault_of(const std::optional<GuardFinding>& seen, std::int64_t now_ms,
                                                   const std::vector<RankObservation>& ranks) {
  std::optional<GuardFinding> of_order = look(now_ms, ranks);
  if (!seen) return of_order;
  if (seen->kind != GuardFinding::Kind::rank_ended) {
    over();
    return seen;
  }
  return of_order ? of_order : seen;
}

// Of a fault that was survived the culprit stays who it was.
GuardFinding RestartOrder::come_to_nothing(std::string why) {
  GuardFinding found = std::exchange(order_, std::nullopt)->why;
  found.no_order = std::move(why);
  found.cause += "; " + found.no_order;
  return found;
}

// No rank has a deadline of its own for what all of them do once they have met, but that of a collective.
std::optional<GuardFinding> RestartOrder::not_met(std::int64_t now_ms, const std::vector<RankObservation>& ranks) {
  const RankObservation* late = nullptr;
  for (const RankObservation& rank : ranks) {
    if (is_there(rank)) continue;
    if (rank.beat.section != on_its_way) {
      order_->all_left_ms.reset();  // it has not come to the order yet
      return std::nullopt;
    }
    late = late ? late : &rank;
  }
  if (!order_->all_left_ms) order_->all_left_ms = now_ms;
  if (!late || now_ms - *order_->all_left_ms < meet_ms) return std::nullopt;
  return come_to_nothing(format("rank {} did not meet the others within {:.0f} s, though all had left what they did",
                                late->rank, static_cast<double>(meet_ms) * 1e-3));
}

std::optional<GuardFinding> RestartOrder::not_passed_on(std::int64_t since_ms,
                                                        const std::vector<RankObservation>& ranks) {
  if (since_ms < leave_ms) return std::nullopt;
  const RankObservation* missed = nullptr;
  for (const RankObservation& rank : ranks) {
    const bool unheard = rank.silent_ms + passed_on_ms >= since_ms;  // or for less than it takes to pass the order on
    if (unheard && rank.silent_ms >= leave_ms)
      missed = missed ? missed : &rank;
    else if (unheard || rank.beat.section != on_its_way)
      return std::nullopt;  // it may be heard of yet, has met the others, or has not come to the order
  }
  if (!missed) return std::nullopt;
  return come_to_nothing(
      format("the order to go on in-process was not passed on: node {} was not heard of for {:.1f} s", missed->host,
             static_cast<double>(missed->silent_ms) * 1e-3));
}

std::optional<GuardFinding> RestartOrder::not_followed(std::int64_t since_ms,
                                                       const std::vector<RankObservation>& ranks) {
  const auto stays = [&](const RankObservation& rank) { return !is_there(rank) && rank.beat.section != on_its_way; };
  auto late = std::find_if(ranks.begin(), ranks.end(), stays);
  const bool has_left = late == ranks.end();
  if (has_left)
    late = std::find_if_not(ranks.begin(), ranks.end(), [this](const RankObservation& rank) { return is_there(rank); });
  if (since_ms < (has_left ? meet_ms : leave_ms)) return std::nullopt;
  GuardFinding found = std::exchange(order_, std::nullopt)->why;
  found.no_order = format("rank {} {} within {:.0f} s of the order to go on in-process", late->rank,
                          has_left ? "did not meet the others" : "did not leave its collective",
                          static_cast<double>(has_left ? meet_ms : leave_ms) * 1e-3);
  found.cause += "; " + found.no_order;
  // Not a rank to blame: whoever is late may wait for another one.
  found.rank = -1, found.host.clear(), found.section.clear();
  found.detect_s += static_cast<double>(since_ms) * 1e-3;
  return found;
}

}  // namespace longhaul
