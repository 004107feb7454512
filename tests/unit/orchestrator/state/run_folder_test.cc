// resolved.toml: what is frozen is what is read, in every field.
#include "orchestrator/state/run_folder.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

FrozenRun run_with_everything() {
  FrozenRun run;
  run.name = "w-20260302-041109-1a2b";
  run.artifact_root = "/a b/artifacts";
  run.software = "longhaul 0.1.0 (git 1a2b3c4)";
  run.workflow_path = "/home/x/wörk \"flow\".toml";
  run.driver = "scrontab";
  run.created_ms = 1'772'424'669'201;
  run.fork = {"older-run", "pretrain", 4000, {"lr=1e-5", "note=\"a, b\""}};
  run.plan.workflow = "w";
  run.plan.budget_node_hours = 12.5;

  PlannedStage plain;
  plain.stage = "corpus";
  plain.kind = "command";
  plain.settings = Value::make_table();
  PlannedInput raw;
  raw.name = "documents";
  raw.paths = {"/data/a b.jsonl", "/data/c'd.jsonl"};
  plain.inputs = {raw};
  plain.where = {"a b.toml", 12, 3};

  PlannedStage rich;
  rich.stage = "sft";
  rich.variant = "lr=1e-05,lora_rank=16";
  rich.kind = "sft";
  rich.kind_version = 3;
  rich.common.nodes = 4;
  rich.common.ranks = 16;
  rich.common.threads = 2;
  rich.common.time_limit.value = 90.5;
  rich.common.retries = 0;
  rich.common.infrastructure_retries = 9;
  rich.common.on_failure = "skip-dependents";
  rich.common.job.throttle = 7;
  rich.common.job.resumable = "yes";
  rich.common.job.environment = {{"A", "x y"}, {"B", "\"$(rm)\"\n"}};
  rich.common.job.options = {"--comment=a b"};
  rich.dims.tp = 2;
  rich.settings = Value::make_table();
  rich.settings.set("lr", 1e-5);
  rich.settings.set("steps", 9'007'199'254'740'993LL);
  rich.settings.set("on", true);
  rich.settings.set("list", ValueArray{1, 2});
  Value nested = Value::make_table();
  nested.set("text", "line\n[plan]\nanother");
  rich.settings.set("nested", nested);
  PlannedInput best;
  best.name = "model";
  best.stages = {"corpus"};
  best.within = "final/model";
  best.best_metric = "loss";
  best.best_is_max = true;
  PlannedInput milestone;
  milestone.name = "tokens";
  milestone.stages = {"pretrain"};
  milestone.milestone = 500;
  rich.inputs = {best, milestone};
  rich.needs = {"corpus", "clean/x=1", "pretrain"};
  rich.edges = {{"clean/x=1", NeedEdge::afterany}, {"corpus", NeedEdge::afternotok}, {"pretrain", NeedEdge::milestone}};
  rich.where = {"C:\\flows\\w.toml", 7, 0};
  run.plan.stages = {plain, rich};
  return run;
}

Result<FrozenRun> read_frozen_text(const std::string& text) {
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("resolved.toml"), text).ok());
  return read_frozen_run(scratch.path());
}

}  // namespace

TEST_CASE("resolved.toml: a run comes back as it was frozen") {
  const FrozenRun run = run_with_everything();
  const std::string text = frozen_run_text(run);
  const auto back = read_frozen_text(text);
  REQUIRE_MESSAGE(back.ok(), (back.ok() ? "" : back.error().message()));
  CHECK(frozen_run_text(*back) == text);
  CHECK(back->name == run.name);
  CHECK(back->artifact_root == run.artifact_root);
  CHECK(back->software == run.software);
  CHECK(back->workflow_path == run.workflow_path);
  CHECK(back->driver == "scrontab");
  CHECK(back->created_ms == run.created_ms);
  CHECK(back->fork.text() == run.fork.text());
  CHECK(back->plan.budget_node_hours == 12.5);
  CHECK(back->stage_ids() == std::vector<std::string>{"corpus", "sft/lr=1e-05,lora_rank=16"});
  const PlannedStage &plain = back->plan.stages[0], &rich = back->plan.stages[1];
  CHECK(plain.inputs[0].paths == run.plan.stages[0].inputs[0].paths);
  CHECK(plain.common.retries == StageCommon{}.retries);
  CHECK(plain.edge_to("anything") == NeedEdge::afterok);
  CHECK(rich.kind_version == 3);
  CHECK(rich.common.nodes == 4);
  CHECK(rich.common.time_limit.value == 90.5);
  CHECK(rich.common.retries == 0);
  CHECK(rich.common.infrastructure_retries == 9);
  CHECK(rich.common.on_failure == "skip-dependents");
  CHECK(rich.common.job.throttle == 7);
  CHECK(rich.common.job.environment == run.plan.stages[1].common.job.environment);
  CHECK(rich.common.job.options == run.plan.stages[1].common.job.options);
  CHECK(rich.dims.tp == 2);
  CHECK(rich.settings == run.plan.stages[1].settings);
  CHECK(rich.needs == run.plan.stages[1].needs);
  CHECK(rich.edge_to("clean/x=1") == NeedEdge::afterany);
  CHECK(rich.edge_to("corpus") == NeedEdge::afternotok);
  CHECK(rich.edge_to("pretrain") == NeedEdge::milestone);
  CHECK(rich.milestones_of("pretrain") == std::vector<std::int64_t>{500});
  REQUIRE(rich.inputs.size() == 2);
  CHECK(rich.inputs[0].milestone == 0);
  CHECK(rich.inputs[0].stages == std::vector<std::string>{"corpus"});
  CHECK(rich.inputs[0].within == "final/model");
  CHECK(rich.inputs[0].best_metric == "loss");
  CHECK(rich.inputs[0].best_is_max);
}

TEST_CASE("resolved.toml: places in the workflow survive, whatever its file is called") {
  const SourcePos places[] = {
      {"a b.toml", 12, 3}, {"C:\\flows\\w.toml", 7, 0}, {"12:34", 5, 6}, {"", 0, 0}, {"w.toml", 100000, 99}};
  for (const SourcePos& place : places) {
    CAPTURE(place.file);
    FrozenRun run = run_with_everything();
    run.plan.stages[0].where = place;
    const auto back = read_frozen_text(frozen_run_text(run));
    REQUIRE(back.ok());
    CHECK(back->plan.stages[0].where.file == place.file);
    CHECK(back->plan.stages[0].where.line == place.line);
    CHECK(back->plan.stages[0].where.column == place.column);
  }
  // A plan whose places were cut short by hand still reports the file.
  FrozenRun run = run_with_everything();
  run.plan.stages[0].where = {"only-a-name", 1, 1};
  const auto back = read_frozen_text(replace_all(frozen_run_text(run), "only-a-name:1:1", "only-a-name"));
  REQUIRE(back.ok());
  CHECK(back->plan.stages[0].where.file == "only-a-name");
  CHECK(back->plan.stages[0].where.line == 0);
}

TEST_CASE("resolved.toml: the header alone reports everything but the plan") {
  const FrozenRun run = run_with_everything();
  const testing::Scratch scratch;
  REQUIRE(write_file_atomic(scratch.file("resolved.toml"), frozen_run_text(run)).ok());
  const auto header = read_frozen_header(scratch.path());
  REQUIRE_MESSAGE(header.ok(), (header.ok() ? "" : header.error().message()));
  CHECK(header->name == run.name);
  CHECK(header->driver == run.driver);
  CHECK(header->created_ms == run.created_ms);
  CHECK(header->fork.text() == run.fork.text());
  CHECK(header->workflow_path == run.workflow_path);
  CHECK(header->plan.stages.empty());
}

TEST_CASE("resolved.toml: what is not a run of this format is refused, and says where") {
  const std::string text = frozen_run_text(run_with_everything());
  CHECK(read_frozen_run("/nowhere").error().code == ErrorCode::not_found);
  for (const auto& [from, to] : {std::pair{"longhaul run", "something else"}, {"\nformat = 1\n", "\nformat = 99\n"}}) {
    CAPTURE(to);
    const std::string changed = replace_all(text, from, to);
    REQUIRE(changed != text);
    const auto refused = read_frozen_text(changed);
    REQUIRE_FALSE(refused.ok());
    CHECK((refused.error().code == ErrorCode::corrupt || refused.error().code == ErrorCode::unsupported));
  }
  const auto no_plan = read_frozen_text("file = \"longhaul run\"\nformat = 1\n");
  CHECK(no_plan.error().code == ErrorCode::corrupt);
  CHECK(no_plan.error().what.find("resolved.toml") != std::string::npos);
  const auto cut = read_frozen_text(text.substr(0, text.size() / 2) + "\n[[");
  REQUIRE_FALSE(cut.ok());
  CHECK(cut.error().message().find("resolved.toml") != std::string::npos);
}

TEST_CASE("a plan whose stage stands under another name is corrupt") {
  Value value = run_plan_to_value(run_with_everything().plan);
  CHECK(run_plan_from_value(value).ok());
  value.find("stage")->as_table()[0].key = "renamed";
  CHECK(run_plan_from_value(value).error().code == ErrorCode::corrupt);
  value.find("stage")->as_table()[0].value.erase("settings");
  CHECK(run_plan_from_value(value).error().code == ErrorCode::corrupt);
  value.set("format", 2);
  CHECK(run_plan_from_value(value).error().code == ErrorCode::unsupported);
}

TEST_CASE("folders of stages and attempts") {
  CHECK(stage_folder("/run", "sft/lr=1e-05") == "/run/stages/sft/lr=1e-05");
  CHECK(attempt_folder("/run", "a", 12) == "/run/stages/a/attempts/12");
  CHECK(doorbell_path("/run") == "/run/log/doorbell");
}

}  // namespace longhaul
