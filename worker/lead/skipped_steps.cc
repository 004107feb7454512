#include "worker/lead/skipped_steps.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "contracts/settings/training.h"
#include "contracts/warning_event.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/fingerprint.h"

namespace longhaul {

SkippedSteps::SkippedSteps(const Value& stage_settings) {
  const SpikeSettings usual;
  const Value* own = stage_settings.find("on_spike");
  const bool has_own = own && own->is_table();
  budget_ = has_own ? own->get_integer("budget", usual.budget) : usual.budget;
  budget_steps_ = has_own ? own->get_integer("budget_steps", usual.budget_steps) : usual.budget_steps;
}

void SkippedSteps::take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (!event.fields.is_table()) continue;
    if (event.kind == "launched") {
      launch_ = static_cast<int>(event.fields.get_integer("launch"));
      open_.reset();
    } else if (event.kind == "spike") {
      if (event.fields.get_string("action") == "skip") skipped(event);
    } else if (event.kind == "metric") {
      if (open_ && event.fields.find("loss")) completed(event);
    } else if (event.kind == fault_event_kind) {
      told_before(event);
    } else if (event.kind == recovered_event_kind && newest_is_skip_) {
      std::erase_if(pending_, [](const Pending& one) { return one.told.recovered.has_value(); });
    }
  }
}

std::vector<SkippedSteps::Told> SkippedSteps::news() {
  std::vector<Told> news;
  for (Pending& one : std::exchange(pending_, {})) news.push_back(std::move(one.told));
  return news;
}

// It was found before its update was made, so nothing is undone; what it has cost is itself.
void SkippedSteps::skipped(const Event& event) {
  const std::optional<WarningEvent> seen = warning_event_of(event);
  if (!seen) return;
  open_ = Skip{event.wall_ms, seen->step, launch_};
  const FaultInfo& info = info_of(fault_class_of(seen->fault_class));
  FaultView view;
  view.fault = info.name;
  view.group = info.group, view.scope = info.scope, view.accuses = Accusation::never;
  view.skippable = view.all_ranks_alive = true;
  view.made_progress = true;  // the training is past the step
  view.at_ms = event.wall_ms;
  const std::string problem = event.fields.get_string("problem", "a bad step");
  view.cause = fingerprint(problem, {});
  const TierDecision decision = decide(view, seen->step);

  FaultEvent fault;
  fault.launch = launch_;
  fault.fault_class = view.fault;
  fault.scope = to_string(view.scope), fault.severity = to_string(info.severity);
  fault.step = seen->step;
  fault.cause = problem, fault.fingerprint = view.cause;
  fault.tier = to_string(RestartTier::skip);  // it has happened
  fault.next = format("the training goes on without the update of step {}", seen->step);
  fault.reason =
      decision.tier == RestartTier::skip ? decision.reason : "left out by on_spike; the policy: " + decision.reason;
  fault.detect_s = 0;
  pending_.push_back({*open_, {std::move(fault), std::nullopt}});
}

TierDecision SkippedSteps::decide(const FaultView& view, std::int64_t step) {
  // As the engine counts: of a step that is done again, and of those that lie too far back, nothing is left.
  std::erase_if(history_, [&](const auto& past) { return past.first >= step || past.first <= step - budget_steps_; });
  TierHistory history;
  for (const auto& [at, past] : history_) history.push_back(past);
  TierBudgets budgets;
  budgets.skip = static_cast<int>(std::min<std::int64_t>(budget_, 1 << 30));
  budgets.forgotten_after_ms = INT64_MAX;
  const TierDecision decision = decide_tier(view, history, {}, budgets);
  history_.emplace_back(step, past_restart(view, RestartTier::skip));
  return decision;
}

// A step that was left out tells of no loss in a metric, so the next one that does is another.
void SkippedSteps::completed(const Event& event) {
  RecoveredEvent recovered;
  recovered.launch = open_->launch;
  recovered.detect_s = recovered.stop_s = recovered.start_s = recovered.load_s = 0;
  recovered.total_s = static_cast<double>(std::max<std::int64_t>(0, event.wall_ms - open_->at_ms)) * 1e-3;
  recovered.first_step_s = recovered.total_s;
  recovered.lost_steps = 0;
  pending_.push_back({*open_, {std::nullopt, recovered}});
  open_.reset();
}

// A recovery belongs to the newest fault of all: after another one nothing is told of what was before it.
void SkippedSteps::told_before(const Event& event) {
  const FaultEvent fault = fault_event_of(event);
  newest_is_skip_ = fault.tier == to_string(RestartTier::skip);
  if (newest_is_skip_) {
    const auto same = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& one) {
      return one.told.fault && one.skip.step == fault.step && one.skip.launch == fault.launch;
    });
    if (same != pending_.end()) pending_.erase(same);
  } else {
    pending_.clear();
    open_.reset();
  }
}

}  // namespace longhaul
