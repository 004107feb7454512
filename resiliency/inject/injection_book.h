// Room resiliency/inject
// Which injected faults are due, for tests of what follows them.
// injection_book.h keeps what is due and done; fault_schedule.h draws times; gpu_script.h simulates GPU faults.
// It makes no fault itself (worker/lead/injection does), and no detector may learn from it.
//
// Which faults of a stage are due: pure, time and steps are passed in. The caller says what was done; what could not be
// done yet (a rank that is just being started) stays due.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contracts/settings/job/faults.h"

namespace longhaul {

struct Injection {
  std::string id;  // of the request within its stage: the same in every job of it
  FaultRequest fault;
};

class InjectionBook {
 public:
  InjectionBook(const FaultSettings& settings, int ranks);
  // By order of a person; without step and time it is due at once.
  void add(Injection injection) { all_.push_back(std::move(injection)); }

  // `since_s`: since the stage's first job began; `newest_step`: of the ranks of this launch, -1: none yet.
  std::vector<Injection> due(double since_s, int launch, std::int64_t newest_step) const;
  void done(const std::string& id, int launch) { done_.insert({id, launch}), done_once_.insert(id); }

 private:
  std::vector<Injection> all_;
  std::set<std::pair<std::string, int>> done_;
  std::set<std::string> done_once_;
};

}  // namespace longhaul
