#include "orchestrator/controller/run_journal.h"

#include "base/process/fault_point.h"
#include "base/text/text.h"

namespace longhaul {

void RunJournal::replay(const std::vector<Fact>& facts) {
  for (const Fact& fact : facts) ledger_.apply(fact);
  messages_.take(facts);
}

Status RunJournal::write(std::vector<Fact>& facts) {
  LH_CHECK(file_.append(facts, clock_).with_context("cannot write the run's log"));
  for (const Fact& fact : facts) {
    ledger_.apply(fact);
    log_.info(
        format("event={} stage={} attempt={} {}", to_string(fact.kind), fact.stage, fact.attempt, fact.text("cause")));
  }
  for (; refused_logged_ < ledger_.refused.size(); ++refused_logged_)
    log_.error("event=fact_refused what='" + ledger_.refused[refused_logged_] + "'");
  messages_.take(facts);
  return {};
}

Status RunJournal::write_outcomes(std::vector<Fact>& outcomes) {
  if (outcomes.empty()) return {};
  if (auto fault = fault_here(FaultPoint::controller_before_outcome)) return *fault;
  LH_CHECK(write(outcomes));
  if (auto fault = fault_here(FaultPoint::controller_after_outcome)) return *fault;
  return {};
}

}  // namespace longhaul
