#include "orchestrator/state/stage_goodput.h"

#include <algorithm>
#include <map>

#include "base/files.h"
#include "contracts/event.h"
#include "contracts/record.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "resiliency/goodput/goodput_events.h"

namespace longhaul {
namespace {

constexpr int job_restarts_max = 1000;

// When attempts of a stage were submitted, by number; a job that the scheduler queued again counts again.
using Submissions = std::map<int, std::vector<std::int64_t>>;

bool asks_for_a_job(FactKind kind) {
  return kind == FactKind::submit || kind == FactKind::submit_next || kind == FactKind::requeued;
}

void add_mark(std::vector<GoodputFact>& facts, std::int64_t at_ms, GoodputFact::Kind kind) {
  if (at_ms <= 0) return;
  GoodputFact fact;
  fact.at_ms = at_ms;
  fact.kind = kind;
  facts.push_back(fact);
}

std::vector<GoodputFact> facts_of_attempt(const std::string& folder, const std::vector<std::int64_t>& submitted_ms) {
  std::uint64_t offset = 0;
  const auto events = read_events(join_path(folder, "events.jsonl"), offset);
  std::vector<GoodputFact> facts = facts_of({}, events.ok() ? *events : std::vector<Event>());
  for (const std::int64_t at_ms : submitted_ms) add_mark(facts, at_ms, GoodputFact::Kind::submitted);
  for (int restart = 0; restart < job_restarts_max; ++restart) {
    const auto claim = read_claim(join_path(folder, claim_file_name(restart)));
    if (!claim.ok()) break;
    add_mark(facts, claim->started_ms, GoodputFact::Kind::job_started);
    if (const auto record = read_record(join_path(folder, record_file_name(restart))); record.ok())
      add_mark(facts, record->ended_ms, GoodputFact::Kind::job_ended);
  }
  return facts;
}

}  // namespace

Result<std::vector<StageGoodput>> read_goodput(const std::string& run_dir, std::int64_t now_ms) {
  LH_TRY(const FrozenRun frozen, read_frozen_run(run_dir));
  LH_TRY(const EpochRead read, read_epochs(run_dir));
  RunLedger ledger(frozen.stage_ids());
  std::map<std::string, Submissions> submissions;
  for (const Fact& fact : read.facts) {
    ledger.apply(fact);
    if (asks_for_a_job(fact.kind)) submissions[fact.stage][fact.attempt].push_back(fact.wall_ms);
  }
  std::vector<StageGoodput> all;
  for (const LedgerStage& stage : ledger.stages) {
    std::vector<GoodputFact> facts;
    for (const auto& [attempt, submitted_ms] : submissions[stage.id]) {
      const auto more = facts_of_attempt(attempt_folder(run_dir, stage.id, attempt), submitted_ms);
      facts.insert(facts.end(), more.begin(), more.end());
    }
    if (facts.empty()) continue;
    std::stable_sort(facts.begin(), facts.end(),
                     [](const GoodputFact& a, const GoodputFact& b) { return a.at_ms < b.at_ms; });
    GoodputLedger goodput(facts.front().at_ms);
    for (const GoodputFact& fact : facts) goodput.add(fact);
    if (!goodput.trained()) continue;
    // After its end no time belongs to a stage; what its lead said last may be newer than what the controller saw.
    goodput.advance_to(is_final(stage.state) ? stage.ended_ms : now_ms);
    all.push_back({stage.id, std::move(goodput)});
  }
  return all;
}

}  // namespace longhaul
