// One round of decisions: what decide() has at hand, and its parts, each of which may emit facts. The order of the
// parts is the order of a round and stands in decide.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/decide/decide.h"

namespace longhaul {

// Over a copy of the ledger: each fact is folded at once, so later parts see earlier ones. Borrows all but that copy.
struct Round {
  const RunPlan& plan;
  const SchedulingRules& rules;
  const Observations& seen;
  const std::string& run_name;
  RunLedger now;
  std::vector<Fact> facts = {};
  std::optional<std::vector<NodeSuspicion>> suspects_found = {};

  void emit(FactKind kind, const std::string& stage, int attempt, Value fields);
  // The ledger's stages stand in plan order; `stage` is one of `now`.
  std::size_t position(const LedgerStage& stage) const { return static_cast<std::size_t>(&stage - now.stages.data()); }
  const PlannedStage& planned_of(const LedgerStage& stage) const { return plan.stages[position(stage)]; }
  const StageRules* rules_of(const LedgerStage& stage) const {
    return rules.stages.empty() ? nullptr : &rules.stages[position(stage)];
  }
  // Nodes to avoid, found once a round.
  const std::vector<NodeSuspicion>& suspects();
};

// {cause = ...}
Value because(const std::string& cause);
// An artifact in the fields of the fact that makes it known.
void put_artifact(Value& fields, const ArtifactSeen& artifact);

// --- round_requests.cc: what people ask. Whether a run that had ended is to be resumed.
bool answer_requests(Round& round);
// Also what had failed before the user asked and is only seen now: whoever drove the run may have died without knowing.
// Not what has a next job that is still to be cancelled: two would work in one folder.
void try_again(Round& round);
void look_at_notices(Round& round);
// An order ends when its lead says so, or with its stage.
void look_at_orders(Round& round);
void look_at_milestones(Round& round);

// --- round_jobs.cc: what became of the jobs that were submitted
void look_at_jobs(Round& round);
// A successor outlives its stage only until it is cancelled; one whose submission has no answer is looked for.
void look_at_successors(Round& round);
// Whether a stage in a chain of jobs will have something to do after the job that runs now.
bool wants_successor(const Round& round, const LedgerStage& stage, const StageRules& rules);

// --- round_stages.cc: stages that begin, and those that never will
void cancel_everything(Round& round);
void skip_what_cannot_run(Round& round);
void advance_stages(Round& round);
// What a run whose stages are all final has come to.
RunState state_at_end(const Round& round);

// --- round_submissions.cc: what is handed to the scheduler
// Ready stages in plan order, variants of one stage together as the tasks of an array where the site has them.
void submit_what_is_ready(Round& round);
// Positions of the stages that go with the one at `first` in one array, itself among them: variants of the same stage
// that are ready, ask for the same and were not tried since the user last asked (a further try goes alone, with its own
// exclusions).
std::vector<std::size_t> array_of(const Round& round, std::size_t first, int tasks_max);
// What a submission is to be, beyond what the plan says: decided once, so that doing it again is the same.
Value submission_intent(Round& round, const LedgerStage& stage, int number);

}  // namespace longhaul
