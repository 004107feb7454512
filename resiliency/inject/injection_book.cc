#include "resiliency/inject/injection_book.h"

#include "base/text/text.h"
#include "resiliency/inject/fault_schedule.h"

namespace longhaul {

InjectionBook::InjectionBook(const FaultSettings& settings, int ranks) {
  for (std::size_t i = 0; i < settings.at.size(); ++i) all_.push_back({format("at-{}", i), settings.at[i]});
  const std::vector<FaultRequest> drawn = scheduled_faults(settings.schedule, ranks);
  for (std::size_t i = 0; i < drawn.size(); ++i) all_.push_back({format("drawn-{}", i), drawn[i]});
}

std::vector<Injection> InjectionBook::due(double since_s, int launch, std::int64_t newest_step) const {
  std::vector<Injection> due;
  for (const Injection& injection : all_) {
    const FaultRequest& fault = injection.fault;
    const bool over = fault.every_launch ? done_.count({injection.id, launch}) > 0 : done_once_.count(injection.id) > 0;
    if (over || (fault.step > 0 && newest_step < fault.step) || since_s < fault.after.value) continue;
    due.push_back(injection);
  }
  return due;
}

}  // namespace longhaul
