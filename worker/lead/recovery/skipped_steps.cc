#include "worker/lead/recovery/skipped_steps.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "contracts/events/warning_event.h"
#include "contracts/settings/training/training.h"
#include "resiliency/taxonomy/fault_table.h"
#include "resiliency/taxonomy/fingerprint.h"
#include "worker/lead/recovery/past_restart.h"

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
      if (event.fields.get_string("action") == "skip") skipped(event, std::nullopt);
    } else if (event.kind == rolled_back_event_kind) {
      skipped(event, roll_back_event_from_value(event.fields));
    } else if (event.kind == "metric") {
      if (open_ && event.fields.find("loss")) completed(event);
    } else if (event.kind == fault_event_kind) {
      reported_before(event);
    } else if (event.kind == recovered_event_kind && newest_is_skip_) {
      std::erase_if(pending_, [](const Pending& one) { return one.report.recovered.has_value(); });
    }
  }
}

std::vector<SkippedSteps::Report> SkippedSteps::news() {
  std::vector<Report> news;
  for (Pending& one : std::exchange(pending_, {})) news.push_back(std::move(one.report));
  return news;
}

Value SkippedSteps::snapshot() const {
  Value value = Value::make_table(), history = Value::make_array();
  for (const auto& [step, past] : history_) {
    Value one = past_restart_to_value(past);
    one.set("step", step);
    history.push_back(std::move(one));
  }
  value.set("launch", launch_);
  value.set("newest_is_skip", newest_is_skip_);
  value.set("history", std::move(history));
  return value;
}

void SkippedSteps::go_on_from(const Value& saved) {
  const Value* history = saved.is_table() ? saved.find("history") : nullptr;
  if (!history || !history->is_array()) return;
  launch_ = static_cast<int>(saved.get_integer("launch"));
  newest_is_skip_ = saved.get_bool("newest_is_skip", false);
  history_.clear();
  for (const Value& one : history->as_array())
    history_.emplace_back(one.get_integer("step"), past_restart_from_value(one));
}

Value SkippedSteps::Report::line() const {
  if (recovered) return to_value(*recovered);
  Value line = fault ? to_value(*fault) : Value::make_table();
  if (to_step) line.set(roll_back_to_step_key, *to_step);
  return line;
}

// It was found before its update was made. So nothing is undone where only that is left out, and it has cost itself; a
// roll-back has cost what was done since its target, too.
void SkippedSteps::skipped(const Event& event, const std::optional<RollBackEvent>& back) {
  Event judged = event;
  judged.kind = "spike";
  const std::optional<WarningEvent> seen = warning_event_of(judged);
  if (!seen) return;
  const std::int64_t took_ms = back ? static_cast<std::int64_t>(1e3 * back->total_s) : 0;
  open_ = Skip{event.wall_ms - took_ms, seen->step, launch_, back};
  const FaultInfo& info = info_of(fault_class_of(seen->fault_class));
  FaultView view;
  view.fault = info.name;
  view.group = info.group, view.scope = info.scope, view.accuses = Accusation::never;
  view.skippable = view.all_ranks_alive = true;
  view.made_progress = true;  // the training is past the step
  view.at_ms = event.wall_ms;
  const std::string problem = event.fields.get_string("problem", "a bad step");
  view.cause = fingerprint(problem, {});
  const TierDecision decision = decide(view, *open_);

  FaultEvent fault;
  fault.launch = launch_;
  fault.fault_class = view.fault;
  fault.scope = to_string(view.scope), fault.severity = to_string(info.severity);
  fault.step = seen->step;
  fault.cause = problem, fault.fingerprint = view.cause;
  fault.tier = to_string(RestartTier::skip);  // it has happened
  fault.next = back ? format("back to step {}, {} steps are done again; {} samples are left out", back->to_step,
                             back->lost_steps, back->samples_left_out)
                    : format("the training goes on without the update of step {}", seen->step);
  fault.reason =
      decision.tier == RestartTier::skip ? decision.reason : "left out by on_spike; the policy: " + decision.reason;
  fault.detect_s = 0;
  const auto to_step = back ? std::optional(back->to_step) : std::nullopt;
  pending_.push_back({*open_, {std::move(fault), to_step, std::nullopt}});
}

TierDecision SkippedSteps::decide(const FaultView& view, const Skip& skip) {
  // As the engine counts: of a step that is done again by another launch, and of those that lie too far back, nothing
  // is left. What a roll-back has used up stays used up, though its steps are done again.
  const std::int64_t step = skip.step;
  std::erase_if(history_, [&](const auto& past) {
    return (past.first >= step && !skip.back) || past.first <= step - budget_steps_;
  });
  TierHistory history;
  for (const auto& [at, past] : history_) history.push_back(past);
  TierBudgets budgets;
  budgets.skip = static_cast<int>(std::min<std::int64_t>(budget_, 1 << 30));
  budgets.forgotten_after_ms = INT64_MAX;
  const TierDecision decision = decide_tier(view, history, {}, budgets);
  history_.emplace_back(step, past_restart(view, RestartTier::skip));
  return decision;
}

// A step that was left out reports no loss in a metric, so the next one that does is another.
void SkippedSteps::completed(const Event& event) {
  RecoveredEvent recovered;
  recovered.launch = open_->launch;
  recovered.detect_s = recovered.stop_s = recovered.start_s = recovered.load_s = 0;
  recovered.total_s = static_cast<double>(std::max<std::int64_t>(0, event.wall_ms - open_->at_ms)) * 1e-3;
  recovered.lost_steps = 0;
  double back_s = 0;
  if (open_->back) {
    back_s = std::min(open_->back->total_s, recovered.total_s);
    recovered.load_s = std::min(open_->back->load_s, back_s);
    recovered.start_s = back_s - recovered.load_s;  // a save under way was waited for
    recovered.lost_steps = open_->back->lost_steps;
  }
  recovered.first_step_s = recovered.total_s - back_s;
  pending_.push_back({*open_, {std::nullopt, std::nullopt, recovered}});
  open_.reset();
}

// A recovery belongs to the newest fault of all: after another one nothing is reported of what was before it.
void SkippedSteps::reported_before(const Event& event) {
  const FaultEvent fault = fault_event_of(event);
  newest_is_skip_ = fault.tier == to_string(RestartTier::skip);
  if (newest_is_skip_) {
    const auto same = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& one) {
      return one.report.fault && one.skip.step == fault.step && one.skip.launch == fault.launch;
    });
    if (same != pending_.end()) pending_.erase(same);
  } else {
    pending_.clear();
    open_.reset();
  }
}

}  // namespace longhaul
