#include "resiliency/taxonomy/goodput_floor.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t note_every_ms = 5 * 60'000;

}  // namespace

void GoodputWindow::note(std::int64_t at_ms, std::int64_t training_ms) {
  // The newest note moves on until it is far enough from the one before.
  const std::size_t notes = notes_.size();
  if (notes >= 2 && notes_[notes - 1].first - notes_[notes - 2].first < note_every_ms) notes_.pop_back();
  notes_.emplace_back(at_ms, training_ms);
  while (notes_.size() > 2 && notes_[1].first <= at_ms - goodput_window_ms) notes_.pop_front();
}

RecentGoodput GoodputWindow::recent() const {
  if (notes_.size() < 2) return {};
  const auto& [begin_ms, before_ms] = notes_.front();
  const auto& [end_ms, after_ms] = notes_.back();
  if (end_ms <= begin_ms) return {};
  return {static_cast<double>(after_ms - before_ms) / static_cast<double>(end_ms - begin_ms), end_ms - begin_ms};
}

FloorVerdict judge_floor(const FaultView& fault, const TierHistory& history, const TierBudgets& budgets) {
  FloorVerdict verdict;
  if (fault.recent.over_ms < budgets.floor_least_ms || fault.recent.training >= budgets.floor_share) return verdict;
  if (fault.scope == FaultScope::user) return verdict;
  int of_host = 1, of_cause = 1;  // this one
  for (const PastRestart& past : history) {
    if (fault.at_ms - past.at_ms >= fault.recent.over_ms) continue;
    if (past.host == fault.host && past.accuses != Accusation::never) ++of_host;
    if (past.cause == fault.cause) ++of_cause;
  }
  const bool accused = !fault.host.empty() && fault.accuses != Accusation::never;
  verdict.of_host = accused && of_host > budgets.floor_restarts;
  verdict.below = verdict.of_host || of_cause > budgets.floor_restarts;
  if (!verdict.below) return verdict;
  verdict.why = format("{:.0f} % of the last {} were training, and this is fault {} of {} in them",
                       100 * fault.recent.training, human_duration(1e-3 * static_cast<double>(fault.recent.over_ms)),
                       verdict.of_host ? of_host : of_cause, verdict.of_host ? fault.host : "this cause");
  return verdict;
}

}  // namespace longhaul
