// Why a stage runs again: the parts of its key that differ from an earlier run's, in words.
#include "orchestrator/reuse/stage_reason.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "contracts/settings/training/training.h"
#include "contracts/tasks/task_settings.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/state/epoch_log.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

StageSeen stage_seen(std::int64_t steps = 100) {
  StageSeen seen;
  seen.task.kind = "pretrain";
  seen.task.key = "k";
  PretrainSettings settings;
  settings.steps = steps;
  seen.task.settings = pretrain_fields().to_value(settings);
  seen.task.inputs = {{"tokens", {"/a/tokens"}, "tokens", "digest of tokens"}};
  return seen;
}

StageSeen curation(const std::vector<InputFile>& files) {
  StageSeen seen;
  seen.task.kind = "command";
  seen.task.settings = Value::make_table();
  std::string digest;
  for (const InputFile& file : files) digest += file.path + file.digest;
  seen.task.inputs = {{"documents", {"/texts"}, "", digest}};
  seen.files = {{.input = "documents", .files = files}};
  return seen;
}

std::string changes(const StageSeen& then, const StageSeen& now) {
  return changes_text(stage_changes(then, now));
}

EarlierStage earlier(StageSeen seen, StageState state, const std::string& artifact = {}) {
  EarlierStage stage;
  stage.run = "w-1";
  stage.seen = std::move(seen);
  stage.state = state;
  stage.artifact = artifact;
  return stage;
}

}  // namespace

TEST_CASE("settings, programs and inputs that differ are named, and what changes the speed alone is not") {
  const StageSeen then = stage_seen();
  CHECK(changes(then, then).empty());
  CHECK(changes(then, stage_seen(200)) == "steps 100 -> 200");
  StageSeen now = stage_seen();
  now.task.settings.find("optimizer")->set("lr", 0.5);
  now.task.settings.set("micro_batch_size", 2);
  now.task.kind_version = 2;
  CHECK(starts_with(changes(then, now), "the program changed: pretrain version 1 -> 2, optimizer.lr 0.001 -> 0.5"));
  now = stage_seen();
  now.task.settings.find("checkpoint")->set("asynchronous", false);  // is it one that changes the speed alone?
  const bool speed_only = settings_of_key(now.task) == settings_of_key(then.task);
  CHECK(changes(then, now).empty() == speed_only);
  now = stage_seen();
  now.task.inputs[0].digest = "another";
  CHECK(changes(then, now) == "input tokens: another artifact of tokens");
  now.task.inputs[0].digest.clear();  // not known yet
  CHECK(changes(then, now).empty());
  now = stage_seen();
  now.task.inputs.push_back({"heldout", {"/x"}, "", "d"});
  CHECK(changes(then, now) == "input heldout: new");
  CHECK(changes(now, then) == "input heldout: gone");
  now = stage_seen();
  now.task.kind = "sft";
  CHECK(changes(then, now) == "kind pretrain -> sft");
}

TEST_CASE("files of a raw input are named one by one, and counted where there are many") {
  const StageSeen then = curation({{"texts/000.txt", 1, "a"}, {"texts/001.txt", 1, "b"}, {"texts/002.txt", 1, "c"}});
  CHECK(changes(then, curation({{"texts/000.txt", 1, "x"}, {"texts/001.txt", 1, "b"}, {"texts/002.txt", 1, "c"}})) ==
        "input changed: texts/000.txt");
  CHECK(changes(then, curation({{"texts/001.txt", 1, "b"}, {"texts/002.txt", 1, "c"}, {"texts/003.txt", 1, "d"}})) ==
        "input new: texts/003.txt, input gone: texts/000.txt");
  StageSeen unknown = curation({{"texts/000.txt", 1, "x"}});
  unknown.files.clear();
  CHECK(changes(then, unknown) == "input documents: changed");
  std::vector<InputFile> many;
  for (int i = 0; i < 30; ++i) many.push_back({format("t/{}", i), 1, "y"});
  CHECK(changes(then, curation(many)) == "input documents: 33 files differ");
  InputFiles too_many;
  for (std::size_t i = 0; i < InputFiles::kept_max; ++i) too_many.add({"t", 1, "y"});
  CHECK(too_many.complete);
  CHECK(too_many.files.size() == InputFiles::kept_max);
  too_many.add({"t", 1, "y"});
  CHECK_FALSE(too_many.complete);
  CHECK(too_many.files.empty());
  StageSeen cut = curation(many);
  cut.files[0].complete = false;
  CHECK(changes(then, cut) == "input documents: changed");
}

TEST_CASE("no more than three changes are reported, and long texts are not quoted") {
  StageSeen now = stage_seen();
  for (const char* key : {"steps", "seed", "sequence_length", "global_batch_size", "micro_batch_size"})
    now.task.settings.set(key, 7);
  CHECK(ends_with(changes(stage_seen(), now), "and 2 more changes"));
  StageSeen then = stage_seen();
  then.task.settings.set("script", "echo\nmore");
  now = stage_seen();
  now.task.settings.set("script", std::string(300, 'x'));
  CHECK(changes(then, now) == "script changed");
}

TEST_CASE("the reason of a stage is one sentence") {
  const auto why = [](ReasonFacts facts) { return reason_of("s", facts).text; };
  CHECK(why({.now = stage_seen()}) == "no earlier run of this workflow has done it");
  CHECK(why({.now = stage_seen(), .disbelieved = "/x is of uid 7"}) == "its artifact is not taken: /x is of uid 7");
  CHECK(why({.now = stage_seen(200), .earlier = earlier(stage_seen(), StageState::succeeded, "/a")}) ==
        "steps 100 -> 200, since w-1");
  CHECK(why({.now = stage_seen(200),
             .waits_for = {"tokens"},
             .earlier = earlier(stage_seen(), StageState::succeeded, "/a")}) ==
        "steps 100 -> 200, since w-1; tokens runs first");
  CHECK(why({.now = stage_seen(), .waits_for = {"a", "b"}}) == "a, b run first");
  EarlierStage failed = earlier(stage_seen(), StageState::failed);
  failed.cause = "no text";
  CHECK(why({.now = stage_seen(), .earlier = failed}) ==
        "nothing has changed, but it was not done in w-1: failed (no text)");
  CHECK(why({.now = stage_seen(), .earlier = earlier(stage_seen(), StageState::succeeded, "/not/there")}) ==
        "its artifact of w-1 is gone: /not/there");
  CHECK(starts_with(why({.now = stage_seen(), .earlier = earlier(stage_seen(), StageState::succeeded, "/tmp")}),
                    "its artifact of w-1 is not offered to other runs"));
  StageSeen served;
  served.task.kind = "deploy";
  CHECK(starts_with(why({.now = served}), "it starts a server"));
  const StageReason cached =
      reason_of("s", {.now = stage_seen(), .cached = ArtifactSeen{"/p/runs/w-7/stages/s/out", "d", {}}});
  CHECK(cached.cached);
  CHECK(cached.run == "w-7");
  CHECK(cached.text == "cached from w-7");
}

TEST_CASE("a plan says of every stage whether it is cached and from which run, and what made it run") {
  testing::Scratch scratch;
  const std::string runs = scratch.file("runs"), root = scratch.file("artifacts"), texts = scratch.file("texts");
  REQUIRE(make_directories(texts).ok());
  REQUIRE(write_file_atomic(texts + "/000.txt", "one").ok());
  REQUIRE(write_file_atomic(texts + "/001.txt", "two").ok());
  const auto plan_of = [&](const std::string& script) {
    RunPlan plan;
    plan.workflow = "w";
    CommandSettings settings;
    for (const char* id : {"corpus", "tokens", "report"}) {
      PlannedStage stage;
      stage.stage = id;
      stage.kind = "command";
      settings.script = std::string(id) == "tokens" ? script : "true";
      // A table before other keys: a run's own text of the plan has it behind them.
      stage.settings.set("environment", Value::make_table()).set("A", "1");
      const Value others = command_fields().to_value(settings);
      for (const ValueMember& member : others.as_table())
        if (member.key != "environment") stage.settings.set(member.key, member.value);
      PlannedInput input;
      input.name = "in";
      if (std::string(id) == "corpus") input.paths = {texts};
      if (std::string(id) == "tokens") input.stages = stage.needs = {"corpus"};
      if (std::string(id) == "report") input.stages = stage.needs = {"tokens"};
      stage.inputs = {input};
      plan.stages.push_back(std::move(stage));
    }
    return plan;
  };
  const ArtifactTrust trust = artifact_trust("");
  const auto reasons = [&](const RunPlan& plan) {
    ReuseOutline outline;
    std::vector<std::string> lines;
    for (const StageReason& one : plan_reasons(plan, runs, root, trust, outline))
      lines.push_back(one.stage + ": " + one.text);
    return join(lines, "\n");
  };
  const RunPlan first = plan_of("true");
  CHECK(reasons(first) ==
        "corpus: no earlier run of this workflow has done it\ntokens: corpus runs first\nreport: tokens runs first");

  // A run that made corpus and tokens, as its controller would leave it.
  const std::string name = "w-20261101-120000-ab12", run = join_path(runs, name);
  FrozenRun frozen;
  frozen.plan = first;
  frozen.name = name;
  REQUIRE(make_directories(run + "/log").ok());
  REQUIRE(write_file_atomic(run + "/resolved.toml", frozen_run_text(frozen)).ok());
  const auto as_kept = read_frozen_run(run);
  REQUIRE(as_kept.ok());
  ManualClock clock;
  std::vector<Fact> facts;
  auto log = EpochLog::claim(run, clock, facts);
  REQUIRE(log.ok());
  RunLedger ledger(frozen.stage_ids());
  for (const char* id : {"corpus", "tokens"}) {
    const PlannedStage& planned = *as_kept->plan.find(id);
    const PreparedStage prepared = prepare_stage(planned, ledger, root, trust);
    REQUIRE(prepared.problem.empty());
    if (!prepared.raw_files.empty()) REQUIRE(write_input_files(stage_folder(run, id), prepared.raw_files).ok());
    const std::string out = stage_folder(run, id) + "/out";
    REQUIRE(make_directories(out).ok());
    REQUIRE(write_file_atomic(out + "/text", id).ok());
    Manifest manifest = *make_manifest(out);
    manifest.stage = id;
    manifest.kind = "command";
    manifest.key = prepared.key;
    REQUIRE(write_manifest(out, manifest).ok());
    const auto artifact = read_artifact(out, prepared.key);
    REQUIRE(artifact.ok());
    REQUIRE(register_artifact(root, prepared.key, *artifact, trust).ok());
    std::vector<Fact> news(4);
    news[0] = {FactKind::ready, id, 0, Value::make_table(), 0};
    news[0].fields.set("key", prepared.key);
    news[0].fields.set("inputs", inputs_to_value(prepared.inputs));
    news[1] = {FactKind::submit, id, 1, Value::make_table(), 0};
    news[2] = {FactKind::submitted, id, 1, Value::make_table(), 0};
    news[3] = {FactKind::succeeded, id, 1, Value::make_table(), 0};
    news[3].fields.set("artifact", artifact->folder);
    news[3].fields.set("digest", artifact->digest);
    REQUIRE(log->append(news, clock).ok());
    for (const Fact& fact : news) ledger.apply(fact);
  }

  CHECK(EarlierRuns(runs, "w", "w-20261101-120000-0001").any());  // made in the same second
  CHECK_FALSE(EarlierRuns(runs, "w", name).any());
  CHECK_FALSE(EarlierRuns(runs, "w", "w-20261101-115959-ffff").any());
  CHECK(reasons(first) == "corpus: cached from " + name + "\ntokens: cached from " + name +
                              "\nreport: no earlier run of this workflow has done it");
  CHECK(reasons(plan_of("false")) == "corpus: cached from " + name + "\ntokens: script \"true\" -> \"false\", since " +
                                         name + "\nreport: tokens runs first");
  REQUIRE(write_file_atomic(texts + "/000.txt", "ONE").ok());
  CHECK(reasons(first) == "corpus: input changed: texts/000.txt, since " + name +
                              "\ntokens: corpus runs first\nreport: tokens runs first");
  REQUIRE(write_file_atomic(texts + "/000.txt", "one").ok());
  REQUIRE(remove_tree(run + "/stages/tokens/out").ok());
  CHECK(reasons(first) == "corpus: cached from " + name + "\ntokens: its artifact of " + name + " is gone: " + run +
                              "/stages/tokens/out\nreport: tokens runs first");
  // A run of another workflow, and one whose files are damaged, are no reason to fail.
  REQUIRE(make_directories(runs + "/w-20261102-120000-ab12/log").ok());
  REQUIRE(write_file_atomic(runs + "/w-20261102-120000-ab12/resolved.toml", "nonsense").ok());
  REQUIRE(make_directories(runs + "/ww-20261102-120000-ab12").ok());
  CHECK(starts_with(reasons(first), "corpus: cached from " + name));
}

}  // namespace longhaul
