#include "orchestrator/reuse/stage_reason.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/workflow/trials/trial_stage.h"

namespace longhaul {
namespace {

constexpr const char* served_kind = "deploy";

std::string since(const EarlierStage& earlier) {
  return ", since " + earlier.run;
}

// The earlier run's stage has the same key: what became of it there?
std::string same_key_text(const ReasonFacts& facts) {
  const EarlierStage& earlier = *facts.earlier;
  if (!facts.disbelieved.empty()) return "its artifact is not taken: " + facts.disbelieved;
  if (!facts.now.task.key.empty() && facts.now.task.key != earlier.seen.task.key)
    return format("its key is another than in {}, though no setting and no input is", earlier.run);
  if (earlier.artifact.empty()) {
    const std::string cause = earlier.cause.empty() ? std::string() : " (" + earlier.cause + ")";
    return format("nothing has changed, but it was not done in {}: {}{}", earlier.run, to_string(earlier.state), cause);
  }
  if (!is_directory(earlier.artifact)) return format("its artifact of {} is gone: {}", earlier.run, earlier.artifact);
  return format("its artifact of {} is not offered to other runs: it is not whole, or was steered", earlier.run);
}

// A stage's inputs as far as they are known before its sources have run.
StageSeen seen_so_far(const PlannedStage& planned, const RunLedger& ledger) {
  StageSeen seen;
  LedgerStage stage;
  for (const PlannedInput& input : planned.inputs) {
    TaskInput taken;
    taken.name = input.name;
    if (input.stages.empty()) {
      taken.paths = input.paths;
      InputFiles files{.input = input.name};
      const auto digest = digest_raw_input(input.paths, &files);
      if (digest.ok()) taken.digest = *digest;
      seen.files.push_back(std::move(files));
    } else {
      taken.stage = input.stages.front();
      const LedgerStage* from = input.stages.size() == 1 && input.milestone == 0 ? ledger.find(taken.stage) : nullptr;
      if (from && from->has_artifact())
        taken.digest = input.within.empty() ? from->digest : from->digest + "/" + input.within;
    }
    stage.inputs.push_back(std::move(taken));
  }
  seen.task = make_task(planned, {}, stage, 1);
  seen.task.key.clear();
  return seen;
}

StageSeen seen_when_ready(const PlannedStage& planned, const PreparedStage& prepared) {
  StageSeen seen;
  LedgerStage stage;
  stage.key = prepared.key;
  stage.inputs = prepared.inputs;
  const auto complete = prepared.found.is_null() ? Result<PlannedStage>(planned) : with_found(planned, prepared.found);
  seen.task = make_task(complete.ok() ? *complete : planned, {}, stage, 1);
  seen.files = prepared.raw_files;
  return seen;
}

// Read back from the text that a run keeps, in which a table's own tables stand behind its other keys: the key of a
// stage depends on their order.
RunPlan as_a_run_has_it(const RunPlan& plan) {
  const auto text = parse_toml(to_toml(run_plan_to_value(plan)), "");
  auto read = text.ok() ? run_plan_from_value(*text) : Result<RunPlan>(text.error());
  return read.ok() ? std::move(read).value() : plan;
}

}  // namespace

std::string run_of_artifact(const std::string& folder) {
  const std::size_t stages = folder.rfind("/stages/");
  return stages == std::string::npos ? std::string() : file_name(folder.substr(0, stages));
}

StageReason reason_of(const std::string& stage, const ReasonFacts& facts) {
  StageReason reason;
  reason.stage = stage;
  reason.waits_for = facts.waits_for;
  if (facts.cached) {
    reason.cached = true;
    reason.run = run_of_artifact(facts.cached->folder);
    reason.text = "cached from " + (reason.run.empty() ? facts.cached->folder : reason.run);
    return reason;
  }
  if (facts.now.task.kind == served_kind) {
    reason.text = "it starts a server, which no earlier run can have left";
    return reason;
  }
  std::vector<std::string> parts;
  if (facts.earlier) {
    reason.run = facts.earlier->run;
    reason.changes = stage_changes(facts.earlier->seen, facts.now);
    if (!reason.changes.empty()) parts.push_back(changes_text(reason.changes) + since(*facts.earlier));
  }
  if (!facts.waits_for.empty())
    parts.push_back(join(facts.waits_for, ", ") + (facts.waits_for.size() == 1 ? " runs first" : " run first"));
  if (!parts.empty())
    reason.text = join(parts, "; ");
  else if (!facts.earlier)
    reason.text = facts.disbelieved.empty() ? "no earlier run of this workflow has done it"
                                            : "its artifact is not taken: " + facts.disbelieved;
  else
    reason.text = same_key_text(facts);
  return reason;
}

StageReason reason_when_ready(const PlannedStage& planned, const PreparedStage& prepared, EarlierRuns& earlier) {
  ReasonFacts facts{.now = seen_when_ready(planned, prepared)};
  facts.cached = prepared.cached;
  facts.disbelieved = prepared.disbelieved;
  if (!prepared.cached) facts.earlier = earlier.find(planned.id());
  return reason_of(planned.id(), facts);
}

std::vector<StageReason> plan_reasons(const RunPlan& given, const std::string& runs_dir,
                                      const std::string& artifact_root, const ArtifactTrust& trust,
                                      ReuseOutline& outline) {
  EarlierRuns earlier(runs_dir, given.workflow);
  const RunPlan plan = as_a_run_has_it(given);
  outline = reuse_outline(plan, artifact_root, trust, earlier.any());
  std::vector<StageReason> reasons;
  for (const PlannedStage& planned : plan.stages) {
    const auto looked_at = outline.prepared.find(planned.id());
    if (looked_at != outline.prepared.end()) {
      reasons.push_back(looked_at->second.problem.empty()
                            ? reason_when_ready(planned, looked_at->second, earlier)
                            : StageReason{.stage = planned.id(), .text = looked_at->second.problem});
      continue;
    }
    ReasonFacts facts;
    for (const std::string& need : planned.needs) {
      const LedgerStage* source = outline.ledger.find(need);
      if (!source || !source->has_artifact()) facts.waits_for.push_back(need);
    }
    facts.earlier = earlier.find(planned.id());
    facts.now = facts.earlier ? seen_so_far(planned, outline.ledger) : StageSeen{};
    facts.now.task.kind = planned.kind;
    reasons.push_back(reason_of(planned.id(), facts));
  }
  return reasons;
}

std::string reasons_text(const std::vector<StageReason>& reasons) {
  std::string text;
  for (const StageReason& reason : reasons)
    if (!reason.cached) text += format("{} runs: {}\n", reason.stage, reason.text);
  return text;
}

Value reasons_value(const std::vector<StageReason>& reasons) {
  Value list = Value::make_array();
  for (const StageReason& reason : reasons) {
    Value one = Value::make_table();
    one.set("stage", reason.stage);
    one.set("cached", reason.cached);
    one.set("run", reason.run);
    one.set("why", reason.text);
    one.set("waits_for", ValueArray(reason.waits_for.begin(), reason.waits_for.end()));
    Value& changes = one.set("changes", Value::make_array());
    for (const StageChange& change : reason.changes) {
      Value part = Value::make_table();
      part.set("what", change.what);
      part.set("name", change.name);
      part.set("from", change.from);
      part.set("to", change.to);
      changes.push_back(std::move(part));
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace longhaul
