// What an agent has promised to leads in waiting. A lead in waiting leads only with the promises of most agents, so
// each may promise a number once: to whom it was given it is given again, to another host it is refused. A later number
// is another promise, for who was promised the earlier one may never come to lead. Pure; kept in the agent's memory.
//
// As the vote of a term in Ongaro and Ousterhout, "In search of an understandable consensus algorithm" (2014), 5.2.
#pragma once

#include "worker/protocol/wire/lead_epoch.h"

namespace longhaul {

class EpochPromise {
 public:
  // Whether `asked` may lead, as far as this agent is concerned. `led`: the newest epoch that has led it.
  bool give(const LeadEpoch& asked, const LeadEpoch& led);
  // The newest that was given; number 0: none was.
  const LeadEpoch& newest() const { return newest_; }

 private:
  LeadEpoch newest_{0};
};

}  // namespace longhaul
