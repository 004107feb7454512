// Milestones from the decision to the file system: stages that take them begin while the training goes on, in any order
// of news, also after a controller has died; and what happens when one never comes.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/manifest.h"
#include "contracts/records/milestone.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/artifact_index.h"
#include "orchestrator/runs/milestone_scanner.h"
#include "orchestrator/state/status_from_ledger.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// pretrain with milestones 20 and 40 of 60 steps; evaluate/step=20 and /step=40 take them, `after` the end.
FrozenRun milestone_run() {
  FrozenRun frozen;
  frozen.name = "run";
  frozen.plan.workflow = "w";
  PlannedStage pretrain;
  pretrain.stage = pretrain.kind = "pretrain";
  pretrain.common.retries = 0;
  pretrain.common.on_failure = "skip-dependents";
  pretrain.settings = Value::make_table();
  pretrain.settings.set("steps", 60);
  pretrain.settings.set(milestone_setting, 20);
  frozen.plan.stages.push_back(pretrain);
  for (const int step : {20, 40, 0}) {
    PlannedStage stage;
    stage.stage = step > 0 ? "evaluate" : "after";
    stage.variant = step > 0 ? format("step={}", step) : "";
    stage.kind = "command";
    stage.settings = Value::make_table();
    stage.needs = {"pretrain"};
    if (step > 0) stage.edges["pretrain"] = NeedEdge::milestone;
    PlannedInput input;
    input.name = "model";
    input.stages = {"pretrain"};
    input.milestone = step;
    stage.inputs.push_back(input);
    frozen.plan.stages.push_back(stage);
  }
  return frozen;
}

struct MilestoneRig {
  FrozenRun frozen = milestone_run();
  std::vector<Fact> log;
  Observations seen;

  // Always folded anew: nothing but the log is remembered.
  RunLedger ledger() const {
    RunLedger folded(frozen.stage_ids());
    for (const Fact& fact : log) folded.apply(fact);
    CHECK_MESSAGE(folded.refused.empty(), join(folded.refused, "; "));
    return folded;
  }
  std::string round() {
    RunLedger now = ledger();
    seen.prepared.clear();
    for (const PlannedStage* stage : wants_preparation(frozen.plan, now))
      seen.prepared[stage->id()] = {"", false, "key-" + stage->id(), {}, {}, cached(stage->id())};
    std::vector<std::string> words;
    for (const Fact& fact : decide(frozen.plan, {}, now, seen, "run")) {
      log.push_back(*parse_fact(fact_line(fact)));
      now.apply(fact);
      std::string word = to_string(fact.kind);
      if (!fact.stage.empty()) word += " " + fact.stage;
      if (fact.kind == FactKind::milestone) word += format("@{}", fact.fields.get_integer("step"));
      words.push_back(word);
    }
    for (const PendingAct& act : pending_acts(now).submit) {
      log.push_back({FactKind::submitted, act.stage->id, act.attempt->number, Value::make_table(), 0});
      log.back().fields.set("job", "job-" + act.attempt->key);
    }
    seen.requests.clear();
    return join(words, ", ");
  }
  std::optional<ArtifactSeen> cached(const std::string& id) const {
    return is_cached && id == "pretrain" ? std::optional(ArtifactSeen{"/old/out", "d", figures(60)}) : std::nullopt;
  }
  static Value figures(int steps) {
    Value table = Value::make_table();
    table.set("steps", steps);
    return table;
  }
  void publish(std::int64_t step) {
    seen.milestones["pretrain"][step] = {format("/run/stages/pretrain/milestones/{}", step), format("digest-{}", step),
                                         figures(static_cast<int>(step))};
  }
  void end(const std::string& id, const std::string& outcome, int steps = 60) {
    const RunLedger now = ledger();
    JobInfo info;
    info.key = now.find(id)->newest()->key;
    info.state = JobState::ended;
    info.record = JobRecord{};
    info.record->outcome = outcome;
    info.record->cause = outcome == "succeeded" ? "" : "rank 0 ended";
    info.record->exit_code = outcome == "succeeded" ? 0 : 1;
    seen.jobs[info.key] = info;
    if (outcome == "succeeded") seen.artifacts[id] = {"/out/" + id, "digest", figures(steps)};
  }
  void looked() { seen.milestones["pretrain"]; }

  bool is_cached = false;
};

}  // namespace

TEST_CASE("what takes a milestone begins when it is published, while the training goes on") {
  MilestoneRig rig;
  CHECK(rig.round() == "ready pretrain, submit pretrain");
  rig.looked();
  CHECK(rig.round() == "");
  rig.publish(20);
  CHECK(rig.round() == "milestone pretrain@20");
  CHECK(rig.round() == "ready evaluate/step=20, submit evaluate/step=20");
  CHECK(rig.round() == "");
  rig.end("evaluate/step=20", "succeeded");
  CHECK(rig.round() == "succeeded evaluate/step=20");
  CHECK(!is_final(rig.ledger().find("pretrain")->state));
  const RunLedger now = rig.ledger();
  const auto source = choose_source(rig.frozen.plan.stages[1].inputs[0], now);
  CHECK(*source == "pretrain");
  CHECK(choose_source(rig.frozen.plan.stages[2].inputs[0], now).error().code == ErrorCode::not_found);
  // The last one and the end are seen together.
  rig.publish(40);
  rig.end("pretrain", "succeeded");
  CHECK(rig.round() == "succeeded pretrain, milestone pretrain@40");
  CHECK(rig.round() == "ready evaluate/step=40, ready after, submit evaluate/step=40, submit after");
  rig.end("evaluate/step=40", "succeeded");
  rig.end("after", "succeeded");
  rig.round();
  CHECK(rig.ledger().state == RunState::succeeded);
}

TEST_CASE("a training that fails keeps what it published; what waits for the rest is skipped with the reason") {
  MilestoneRig rig;
  rig.round();
  rig.publish(20);
  rig.round();
  rig.end("pretrain", "failed");
  CHECK(rig.round() ==
        "failed pretrain, skipped evaluate/step=40, skipped after, ready evaluate/step=20, submit "
        "evaluate/step=20");
  CHECK(rig.ledger().find("evaluate/step=40")->cause ==
        "it needs the milestone of step 40 of pretrain, which is failed and did not come so far");
  rig.end("evaluate/step=20", "succeeded");
  CHECK(rig.round() == "succeeded evaluate/step=20, run_ended");
  CHECK(rig.ledger().state == RunState::failed);
  // A resume tries the training again; its earlier milestone is seen again and 20 is not evaluated twice.
  rig.seen.requests = {{"1", "resume"}};
  CHECK(rig.round() == "request, reset pretrain, reset evaluate/step=40, reset after");
  CHECK(rig.round() == "ready pretrain, submit pretrain");
  CHECK(rig.round() == "milestone pretrain@20");
  rig.publish(40);
  CHECK(rig.round() == "milestone pretrain@40");
  CHECK(rig.round() == "ready evaluate/step=40, submit evaluate/step=40");
}

TEST_CASE("nobody gives a milestone up before somebody has looked after the training's end") {
  MilestoneRig rig;
  rig.is_cached = true;
  CHECK(rig.round() == "ready pretrain, cached pretrain");
  CHECK(rig.round() == "ready after, submit after");
  rig.publish(20);
  CHECK(rig.round() == "milestone pretrain@20, skipped evaluate/step=40");
  const std::string cause = rig.ledger().find("evaluate/step=40")->cause;
  CHECK(cause.find("which is taken from an earlier run that published none there") != std::string::npos);
  CHECK(cause.find("site.artifacts") != std::string::npos);
  rig.round();
  rig.end("after", "succeeded");
  rig.end("evaluate/step=20", "succeeded");
  rig.round();
  // What the plan promised is missing, although nothing failed.
  CHECK(rig.ledger().ended);
  CHECK(rig.ledger().state == RunState::failed);
}

TEST_CASE("a training that was asked to end early promised no later milestone") {
  MilestoneRig rig;
  rig.round();
  rig.publish(20);
  rig.round();
  rig.end("pretrain", "succeeded", 30);
  rig.seen.artifacts["pretrain"].figures.set("steered", 1);
  CHECK(rig.round() == "succeeded pretrain, skipped evaluate/step=40, ready evaluate/step=20, submit evaluate/step=20");
  CHECK(rig.ledger().find("evaluate/step=40")->cause ==
        "it needs the milestone of step 40 of pretrain, which ended after step 30");
  rig.round();
  rig.end("evaluate/step=20", "succeeded");
  rig.end("after", "succeeded");
  rig.round();
  CHECK(rig.ledger().state == RunState::succeeded);
}

TEST_CASE("a cancelled training takes what waits for its milestones with it") {
  MilestoneRig rig;
  rig.round();
  rig.publish(20);
  rig.seen.requests = {{"1", "cancel"}};
  CHECK(rig.round() ==
        "request, milestone pretrain@20, cancel_job pretrain, cancelled evaluate/step=20, cancelled "
        "evaluate/step=40, cancelled after");
}

namespace {

struct MilestoneFolders {
  testing::Scratch scratch;
  FrozenRun frozen = milestone_run();
  std::string run = scratch.file("run");
  RunLedger ledger{frozen.stage_ids()};

  MilestoneFolders() {
    frozen.artifact_root = scratch.file("artifacts");
    fold(FactKind::ready, "pretrain", {{"key", "K"}});
  }
  void fold(FactKind kind, const std::string& stage, std::vector<std::pair<std::string, std::string>> fields = {}) {
    Fact fact{kind, stage, 1, Value::make_table(), 0};
    for (const auto& [name, value] : fields) fact.fields.set(name, value);
    ledger.apply(fact);
  }
  void take(const std::map<std::int64_t, ArtifactSeen>& seen) {
    for (const auto& [step, artifact] : seen) {
      Fact fact{FactKind::milestone, "pretrain", 0, Value::make_table(), 0};
      fact.fields.set("step", static_cast<long long>(step));
      fact.fields.set("artifact", artifact.folder);
      fact.fields.set("digest", artifact.digest);
      ledger.apply(fact);
    }
    CHECK(ledger.refused.empty());
  }
  std::string publish(std::int64_t step, const std::string& key = "K", bool steered = false) {
    const std::string folder = milestone_folder(milestones_folder(run, "pretrain"), step);
    REQUIRE(make_directories(folder).ok());
    REQUIRE(write_file_atomic(folder + "/model", format("model {}", step)).ok());
    if (steered) REQUIRE(write_file_atomic(folder + "/artifact.json", R"({"figures": {"steered": 1}})").ok());
    Manifest manifest = *make_manifest(folder);
    manifest.key = milestone_key(key, step);
    REQUIRE(write_manifest(folder, manifest).ok());
    return folder;
  }
};

}  // namespace

TEST_CASE("published milestones are found, registered, and found again by the run that takes the training from there") {
  MilestoneFolders one;
  const MilestoneScanner scanner(one.run, one.frozen);
  CHECK(scanner.look(one.ledger).at("pretrain").empty());
  const std::string folder = one.publish(20);
  one.publish(40, "another key");  // left by a training with other inputs
  auto seen = scanner.look(one.ledger).at("pretrain");
  REQUIRE(seen.size() == 1);
  CHECK(seen.at(20).folder == folder);
  one.take(seen);
  CHECK(scanner.look(one.ledger).at("pretrain").empty());
  CHECK(find_artifact(one.frozen.artifact_root, milestone_key("K", 20), artifact_trust(""))->folder == folder);

  // The task of a consumer names the milestone, and its key follows from the milestone's content.
  const PreparedStage prepared = prepare_stage(one.frozen.plan.stages[1], one.ledger, "");
  REQUIRE(prepared.problem.empty());
  CHECK(prepared.inputs[0].stage == "pretrain@20");
  CHECK(prepared.inputs[0].paths == std::vector<std::string>{folder});
  CHECK(prepared.inputs[0].digest == read_manifest(folder)->digest());

  // Another run, whose training is cached: what it waits for is in the index, and nothing else.
  MilestoneFolders two;
  two.frozen.artifact_root = one.frozen.artifact_root;
  const MilestoneScanner other(two.run, two.frozen);
  CHECK(other.look(two.ledger).at("pretrain").empty());  // it may train anew
  two.fold(FactKind::cached, "pretrain", {{"artifact", "/old/out"}});
  seen = other.look(two.ledger).at("pretrain");
  REQUIRE(seen.size() == 1);
  CHECK(seen.at(20).folder == folder);
  two.take(seen);
  REQUIRE(remove_tree(folder + "/model").ok());
  MilestoneFolders three;
  three.frozen.artifact_root = one.frozen.artifact_root;
  three.fold(FactKind::cached, "pretrain", {{"artifact", "/old/out"}});
  CHECK(MilestoneScanner(three.run, three.frozen).look(three.ledger).at("pretrain").empty());
  // Once nobody waits any more, nobody looks.
  for (const char* id : {"evaluate/step=20", "evaluate/step=40"}) three.fold(FactKind::skipped, id, {{"cause", "x"}});
  CHECK(MilestoneScanner(three.run, three.frozen).look(three.ledger).empty());
}

TEST_CASE("a milestone that orders steered is this run's alone; a fork has those of before its checkpoint") {
  MilestoneFolders one;
  one.publish(20, "K", true);
  CHECK(MilestoneScanner(one.run, one.frozen).look(one.ledger).at("pretrain").size() == 1);
  CHECK(!find_artifact(one.frozen.artifact_root, milestone_key("K", 20), artifact_trust("")).ok());

  MilestoneFolders fork;
  fork.frozen.fork = {"old", "pretrain", 20, {}};
  fork.publish(20, "key of the old run's stage");
  fork.publish(40, "key of the old run's stage");
  const auto seen = MilestoneScanner(fork.run, fork.frozen).look(fork.ledger).at("pretrain");
  CHECK(seen.contains(20));
  CHECK(!seen.contains(40));
}

TEST_CASE("status says which milestone a stage waits for") {
  MilestoneFolders one;
  const auto status = [&] { return status_from_ledger(one.run, one.frozen, one.ledger); };
  CHECK(status().find("evaluate/step=20")->waits_for == "milestone 20 of pretrain");
  CHECK(status().find("after")->waits_for.empty());
  one.publish(20);
  one.take(MilestoneScanner(one.run, one.frozen).look(one.ledger).at("pretrain"));
  CHECK(status().find("evaluate/step=20")->waits_for.empty());
  CHECK(status().find("evaluate/step=40")->waits_for == "milestone 40 of pretrain");
  CHECK(status().find("pretrain")->milestones == std::vector<std::int64_t>{20});
  CHECK(to_json(run_status_to_value(status())).find("\"waits_for\":\"milestone 40 of pretrain\"") != std::string::npos);
}
