#include "resiliency/goodput/goodput_ledger.h"

#include <algorithm>
#include <utility>

namespace longhaul {

using Kind = GoodputFact::Kind;

GoodputLedger::GoodputLedger(std::int64_t begin_ms, bool keep_faults)
    : begin_ms_(begin_ms), at_ms_(begin_ms), costs_(keep_faults) {}

double GoodputLedger::share(TimeClass time) const {
  return total_ms() == 0 ? 0 : static_cast<double>(ms(time)) / static_cast<double>(total_ms());
}

void GoodputLedger::put(TimeClass time, std::int64_t ms) {
  ms_[static_cast<std::size_t>(time)] += ms;
  at_ms_ += ms;
  costs_.pay(time, ms);
}

void GoodputLedger::close(std::int64_t at_ms, TimeClass part, std::int64_t part_ms) {
  const std::int64_t length = std::max<std::int64_t>(0, at_ms - at_ms_);
  const std::int64_t cut = std::clamp<std::int64_t>(part_ms, 0, length);
  put(now_, length - cut);
  put(part, cut);
}

void GoodputLedger::work_until(std::int64_t at_ms, std::int64_t step) {
  std::int64_t length = std::max<std::int64_t>(0, at_ms - at_ms_);
  const std::int64_t stall = std::min(owed_stall_ms_, length);
  owed_stall_ms_ -= stall;
  length -= stall;
  const std::int64_t steps = std::max<std::int64_t>(0, step - step_);
  const std::int64_t again = std::clamp<std::int64_t>(furthest_ - step_, 0, steps);
  std::int64_t recompute = step_ < furthest_ ? length : 0;  // within one step: by what that step is
  if (steps > 0)
    recompute = static_cast<std::int64_t>(static_cast<double>(length) * static_cast<double>(again) /
                                          static_cast<double>(steps));
  recompute = std::clamp<std::int64_t>(recompute, 0, length);
  put(TimeClass::checkpoint_stall, stall);
  put(TimeClass::recompute, recompute);
  if (std::max(step_, step) >= furthest_) costs_.paid();
  put(TimeClass::training, length - recompute);
  if (step >= 0) step_ = step;
  furthest_ = std::max(furthest_, step_);
}

void GoodputLedger::begin_fault(const GoodputFact& fact) {
  FaultCost cost;
  cost.at_ms = fact.at_ms - fact.part_ms;
  cost.fault = fact.fault, cost.tier = fact.tier;
  cost.step = fact.goes_on && fact.step >= 0 ? fact.step : step_;
  costs_.begin(std::move(cost), fact.goes_on);
}

void GoodputLedger::begin_work(std::int64_t step) {
  if (trained_ && step >= 0 && step < furthest_) {
    // What an earlier fault had lost and nobody has done again yet is not lost a second time.
    costs_.lose_steps(std::max<std::int64_t>(0, step_ - step));
  }
  working_ = true;
  owed_stall_ms_ = 0;
  if (step >= 0) step_ = step;
  if (!trained_) furthest_ = std::max(furthest_, step_);
}

void GoodputLedger::add(const GoodputFact& fact) {
  if (fact.kind == Kind::step) {
    if (!working_) {  // of a program that does not say when it is ready
      close(fact.at_ms, TimeClass::start, 0);
      if (fact.step > 0) begin_work(fact.step);
      trained_ = true;
      furthest_ = std::max(furthest_, step_);
      if (step_ >= furthest_) costs_.paid();
      return;
    }
    trained_ = true;
    return work_until(fact.at_ms, fact.step);
  }
  if (fact.kind == Kind::fault && fact.goes_on) return begin_fault(fact);
  if (fact.kind == Kind::stalled) {
    if (working_) owed_stall_ms_ += std::max<std::int64_t>(0, fact.part_ms);
    return;
  }
  if (working_) {
    const std::int64_t part = fact.kind == Kind::fault ? std::max<std::int64_t>(0, fact.part_ms) : 0;
    if (fact.kind != Kind::ready)
      work_until(fact.at_ms - part, std::max(fact.step, step_));
    else
      work_until(fact.at_ms - std::max<std::int64_t>(0, fact.part_ms), step_);  // a roll-back in the engine
  }
  if (fact.kind == Kind::fault) {
    begin_fault(fact);
    if (working_) now_ = TimeClass::detect;
    working_ = false;
    close(fact.at_ms, TimeClass::detect, fact.part_ms);
    now_ = fact.processes_stay ? TimeClass::start : TimeClass::stop;
    return;
  }
  const bool was_working = working_;
  working_ = false;
  switch (fact.kind) {
    case Kind::submitted:
      close(fact.at_ms, now_, 0);
      working_ = was_working;
      waiting_ = fact.waits_for_cores ? TimeClass::cores : TimeClass::queue;
      if (now_ == TimeClass::idle)
        now_ = waiting_;
      else if (now_ != TimeClass::queue && now_ != TimeClass::cores)
        successor_ = true;
      break;
    case Kind::job_started: successor_ = false; [[fallthrough]];
    case Kind::launched:
      close(fact.at_ms, now_, 0);
      now_ = TimeClass::start;
      break;
    case Kind::preparing:
      close(fact.at_ms, now_, 0);
      now_ = TimeClass::prepare;
      break;
    case Kind::ready:
      if (was_working) now_ = TimeClass::load;
      close(fact.at_ms, TimeClass::load, fact.part_ms);
      begin_work(fact.step);
      break;
    case Kind::stopped:
      close(fact.at_ms, now_, 0);
      now_ = TimeClass::stop;
      break;
    case Kind::ranks_ended:
      close(fact.at_ms, now_, 0);
      now_ = costs_.open() ? TimeClass::start : TimeClass::stop;
      break;
    default:
      close(fact.at_ms, now_, 0);
      now_ = successor_ ? waiting_ : TimeClass::idle;
      break;
  }
}

void GoodputLedger::advance_to(std::int64_t at_ms) {
  if (working_) return work_until(at_ms, step_);
  close(at_ms, now_, 0);
}

}  // namespace longhaul
