// Folders of runs as controllers leave them, made without controllers.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/settings/training/training.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"
#include "tests/support/scratch.h"

namespace longhaul::testing {

// Written at a time of its own, so that rows have an order.
class ManyRuns {
 public:
  explicit ManyRuns(std::int64_t start_ms = 1'700'000'000'000) : clock(start_ms) {}

  ManualClock clock;
  std::string folder() const { return scratch_.file("runs"); }
  std::string cache() const { return scratch_.file("cache/longhaul"); }
  std::string run(const std::string& name) const { return join_path(folder(), name); }
  const Scratch& scratch() const { return scratch_; }

  // tokens (a command) and pretrain, of `hidden` columns; not begun.
  void make(const std::string& name, const std::string& workflow, std::int64_t hidden = 64) {
    FrozenRun frozen;
    frozen.name = name;
    frozen.created_ms = clock.wall_ms();
    frozen.plan.workflow = workflow;
    frozen.plan.stages.resize(2);
    frozen.plan.stages[0].stage = "tokens";
    frozen.plan.stages[0].kind = "command";
    frozen.plan.stages[0].settings = Value::make_table();
    PretrainSettings settings;
    settings.model.hidden_size = hidden;
    settings.steps = 500;
    frozen.plan.stages[1].stage = "pretrain";
    frozen.plan.stages[1].kind = "pretrain";
    frozen.plan.stages[1].needs = {"tokens"};
    frozen.plan.stages[1].common.nodes = 4;
    frozen.plan.stages[1].settings = pretrain_fields().to_value(settings);
    REQUIRE(make_directories(join_path(run(name), "log")).ok());
    REQUIRE(write_file_atomic(join_path(run(name), "resolved.toml"), frozen_run_text(frozen)).ok());
  }

  // A new epoch's controller writes these down and goes.
  void write(const std::string& name, std::vector<Fact> news) {
    std::vector<Fact> facts;
    auto log = EpochLog::claim(run(name), clock, facts);
    REQUIRE(log.ok());
    REQUIRE(log->append(news, clock).ok());
  }

  static Fact fact(FactKind kind, const std::string& stage, int attempt = 0, ValueTable fields = {}) {
    return {kind, stage, attempt, Value(std::move(fields)), 0};
  }
  static ValueMember field(const std::string& key, Value value) {
    ValueMember member;
    member.key = key;
    member.value = std::move(value);
    return member;
  }
  // Its job is started by `write` and has run for that long when it is over.
  std::vector<Fact> begun(const std::string& stage) const {
    return {fact(FactKind::ready, stage, 0, {field("key", "key of " + stage)}),
            fact(FactKind::submit, stage, 1, {field("key", "submission of " + stage)}),
            fact(FactKind::submitted, stage, 1, {field("job", "4711")}),
            fact(FactKind::started, stage, 1, {field("started_ms", static_cast<long long>(clock.wall_ms()))})};
  }
  Fact succeeded(const std::string& stage, ValueTable figures, std::int64_t ran_ms = 3'600'000) const {
    return fact(
        FactKind::succeeded, stage, 1,
        {field("artifact", "/artifacts/" + stage), field("digest", "d"), field("figures", Value(std::move(figures))),
         field("started_ms", static_cast<long long>(clock.wall_ms())),
         field("ended_ms", static_cast<long long>(clock.wall_ms() + ran_ms))});
  }
  // tokens is done; pretrain runs.
  void start(const std::string& name) {
    std::vector<Fact> facts = begun("tokens");
    facts.push_back(succeeded("tokens", {}));
    for (Fact& one : begun("pretrain")) facts.push_back(std::move(one));
    write(name, std::move(facts));
  }
  // What pretrain says while it runs.
  void say(const std::string& name, std::int64_t step, double loss) {
    const std::string attempt = attempt_folder(run(name), "pretrain", 1);
    REQUIRE(make_directories(attempt).ok());
    EventWriter events(clock, join_path(attempt, "events.jsonl"), 0);
    events.write("metric", Value(ValueTable{field("step", static_cast<long long>(step)), field("loss", loss)}));
    events.progress(static_cast<double>(step), 500, "steps");
  }
  void end_well(const std::string& name, double heldout_loss) {
    write(name, {succeeded("pretrain", {field("steps", 500.0), field("heldout_loss", heldout_loss)}),
                 fact(FactKind::run_ended, "", 0, {field("state", "succeeded")})});
  }
  void end_badly(const std::string& name, const std::string& cause) {
    write(name, {fact(FactKind::failed, "pretrain", 1, {field("cause", cause), field("fault", "bad_input")}),
                 fact(FactKind::run_ended, "", 0, {field("state", "failed")})});
  }

 private:
  Scratch scratch_;
};

}  // namespace longhaul::testing
