#include "resiliency/simulate/training_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "resiliency/checkpoint_interval.h"

namespace longhaul {
namespace {

constexpr double review_s = 1800;

}  // namespace

// Without copies in memory checkpoints are the most frequent saves, and every fault needs one.
TrainingProgress::TrainingProgress(const Scenario& scenario, double interval_s)
    : scenario_(scenario),
      step_s_(scenario.training.step.value),
      memory_(scenario.saves.memory, failure_prior_s(scenario.hosts()), step_s_, interval_s),
      global_(scenario.saves.global, (scenario.saves.memory.enabled ? 4 : 1) * failure_prior_s(scenario.hosts()),
              step_s_, scenario.saves.memory.enabled ? 0 : interval_s) {}

double TrainingProgress::effective_after(double seconds) const {
  return static_cast<double>(furthest_) * scenario_.training.step.value / seconds;
}

double TrainingProgress::interval_s() const {
  return static_cast<double>(most_frequent_saves().every_steps()) * step_s_;
}

std::int64_t TrainingProgress::newest_copy(double now_s) const {
  return std::max(global_.whole(now_s), memory_.enabled() ? memory_.whole(now_s) : 0);
}

void TrainingProgress::begin_job() {
  window_ = GoodputWindow();
  window_.note(simulated_ms(now_s_), ledger_.ms(TimeClass::training));
}

void TrainingProgress::run_with(int replicas) {
  step_s_ = scenario_.training.step.value * scenario_.training.replicas / replicas;
}

void TrainingProgress::report(GoodputFact::Kind kind, double at_s, double part_s, std::int64_t step) {
  if (at_s > scenario_.training.length.value) return ledger_.advance_to(simulated_ms(scenario_.training.length.value));
  GoodputFact fact;
  fact.at_ms = simulated_ms(at_s);
  fact.kind = kind;
  fact.part_ms = std::llround(part_s * 1e3);
  fact.step = step;
  ledger_.add(fact);
}

void TrainingProgress::train_some_steps(double limit_s, std::int64_t steps) {
  // At most `steps`, as far as time goes; what is left of a step is carried on.
  const double available_s = into_step_s_ + limit_s - now_s_;
  const std::int64_t done = std::min<std::int64_t>(steps, static_cast<std::int64_t>(available_s / step_s_ + 1e-9));
  const double used_s =
      done < steps ? limit_s - now_s_ : std::max(0.0, static_cast<double>(done) * step_s_ - into_step_s_);
  into_step_s_ = done < steps ? std::max(0.0, available_s - static_cast<double>(done) * step_s_) : 0;
  now_s_ += used_s;
  steps_s_ += used_s;
  step_ += done;
  if (done > 0) report(GoodputFact::Kind::step, now_s_ - into_step_s_, 0, step_);
}

// One that finds the one before unfinished waits for its end first.
void TrainingProgress::save(SaveClock& saves, double limit_s) {
  const double wait_s = std::max(0.0, saves.whole_at_s() - now_s_), all_s = wait_s + saves.stall_s();
  const double begun_s = now_s_ + wait_s, stall_s = std::min(all_s, limit_s - now_s_);
  now_s_ += stall_s;
  report(GoodputFact::Kind::stalled, now_s_, stall_s);
  if (now_s_ < limit_s || stall_s == all_s) saves.saved(step_, begun_s);
}

// Many intervals of the most frequent saves at once: nothing happens in them but steps and saves.
void TrainingProgress::train_whole_cycles(double limit_s) {
  SaveClock& saves = most_frequent();
  if (into_step_s_ > 0 || saves.due_step() - step_ != saves.every_steps()) return;
  const double steps_s = static_cast<double>(saves.every_steps()) * step_s_, cycle_s = steps_s + saves.stall_s();
  if (cycle_s < saves.write_s() || saves.whole_at_s() > now_s_ + steps_s) return;  // one waits for the other
  auto cycles = static_cast<std::int64_t>((limit_s - now_s_) / cycle_s) - 1;
  if (&saves != &global_) {
    const std::int64_t left = global_.due_step() - step_;
    cycles = std::min(cycles, left / saves.every_steps() - 1);
  }
  if (cycles < 2) return;
  const auto count = static_cast<double>(cycles);
  const double stalled_s = (count - 1) * saves.stall_s();
  now_s_ += count * steps_s + stalled_s;
  steps_s_ += count * steps_s;
  step_ += cycles * saves.every_steps();
  report(GoodputFact::Kind::stalled, now_s_, stalled_s);
  report(GoodputFact::Kind::step, now_s_, 0, step_);
  // The one before the last is whole, or would have been waited for; the last follows as one of its own.
  saves.back_to(step_ - saves.every_steps());
}

void TrainingProgress::train_until(double limit_s) {
  while (now_s_ < limit_s) {
    const std::int64_t due = std::min(memory_.due_step(), global_.due_step());
    if (step_ >= due) {
      if (step_ >= global_.due_step()) save(global_, limit_s);
      if (now_s_ < limit_s && step_ >= memory_.due_step()) save(memory_, limit_s);
      continue;
    }
    train_whole_cycles(limit_s);
    if (now_s_ < limit_s) train_some_steps(limit_s, std::min(memory_.due_step(), global_.due_step()) - step_);
  }
  furthest_ = std::max(furthest_, step_);
}

double TrainingProgress::next_review_s() const {
  return reviewed_s_ + review_s;
}

void TrainingProgress::review() {
  const double seconds = now_s_ - reviewed_s_;
  const std::int64_t steps = std::max<std::int64_t>(0, step_ - reviewed_step_);
  window_.note(simulated_ms(now_s_), ledger_.ms(TimeClass::training));
  if (seconds > 0)
    for (SaveClock* saves : {&memory_, &global_}) saves->ran(seconds, steps, steps > 0 ? steps_s_ : 0);
  reviewed_s_ = now_s_, reviewed_step_ = step_, steps_s_ = 0;
}

void TrainingProgress::end() {
  ledger_.advance_to(simulated_ms(scenario_.training.length.value));
  furthest_ = std::max(furthest_, step_);
}

GoodputFact TrainingProgress::fault(double fault_s, double verdict_s) {
  memory_.lose_unfinished(fault_s);
  global_.lose_unfinished(fault_s);
  const double length_s = scenario_.training.length.value;
  GoodputFact fact;
  fact.kind = GoodputFact::Kind::fault;
  fact.at_ms = simulated_ms(std::min(verdict_s, length_s));
  fact.part_ms = fact.at_ms - simulated_ms(std::min(fault_s, length_s));
  fact.step = step_;
  return fact;
}

RecentGoodput TrainingProgress::recent_with(const GoodputFact& fault, double verdict_s) {
  GoodputLedger so_far = ledger_;
  so_far.add(fault);
  window_.note(simulated_ms(verdict_s), so_far.ms(TimeClass::training));
  return window_.recent();
}

std::int64_t TrainingProgress::go_back(bool from_memory) {
  const std::int64_t restored = std::max(global_.whole(now_s_), from_memory ? memory_.whole(now_s_) : 0);
  if (!from_memory) global_.failed();
  memory_.failed();
  memory_.back_to(restored);  // what was loaded is the newest copy from now on
  const std::int64_t lost = std::max<std::int64_t>(0, step_ - restored);
  step_ = reviewed_step_ = restored;
  into_step_s_ = 0;
  return lost;
}

void TrainingProgress::restart_after_save(const SimTier& costs) {
  save(most_frequent(), std::numeric_limits<double>::infinity());
  most_frequent().back_to(step_);
  now_s_ += costs.stop.value;
  report(GoodputFact::Kind::ranks_ended);
  now_s_ += costs.start.value;
  report(GoodputFact::Kind::launched);
  now_s_ += costs.load.value;
  report(GoodputFact::Kind::ready, now_s_, costs.load.value, step_);
  into_step_s_ = 0;
}

}  // namespace longhaul
