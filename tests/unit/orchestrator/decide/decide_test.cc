// decide() by cases, and in a simulation: random graphs, random ends of jobs, controllers that die between any two
// acts, requests at random moments; weeks of virtual time in milliseconds.
//
// The simulation promises, for every seed: the run ends; no fact is refused; a job is submitted only when what its
// stage needs is there; every attempt is one job; no stage uses more attempts than it may; nothing runs again after it
// succeeded; what is cancelled before it was submitted has not failed; failures, skips and cancellations have a reason.
#include "orchestrator/decide/decide.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "tests/support/sanitized.h"
#include "tests/unit/orchestrator/scheduler/fake_scheduler.h"

using namespace longhaul;

namespace {

PlannedStage decide_stage(const std::string& id, std::vector<std::string> needs = {},
                          const std::string& on_failure = "stop", int retries = 0) {
  PlannedStage stage;
  stage.stage = id;
  stage.kind = "command";
  stage.common.on_failure = on_failure;
  stage.common.retries = retries;
  stage.needs = needs;
  for (const std::string& need : needs) {
    PlannedInput input;
    input.name = need;
    input.stages = {need};
    stage.inputs.push_back(std::move(input));
  }
  stage.settings = Value::make_table();
  return stage;
}

// A plan, its ledger and shortcuts to bring it somewhere.
struct DecideRig {
  RunPlan plan;
  RunLedger ledger;
  Observations seen;

  explicit DecideRig(std::vector<PlannedStage> stages) {
    plan.workflow = "w";
    plan.stages = std::move(stages);
    std::vector<std::string> ids;
    for (const PlannedStage& stage : plan.stages) ids.push_back(stage.id());
    ledger = RunLedger(ids);
  }
  void prepare() {
    seen.prepared.clear();
    for (const PlannedStage* stage : wants_preparation(plan, ledger))
      seen.prepared[stage->id()].key = "key-" + stage->id();
  }
  // One round whose submissions all arrive. Returns "kind stage" of all facts.
  std::string round() {
    prepare();
    std::vector<std::string> words;
    for (const Fact& fact : decide(plan, {}, ledger, seen, "run")) {
      ledger.apply(fact);
      words.push_back(std::string(to_string(fact.kind)) + (fact.stage.empty() ? "" : " " + fact.stage));
    }
    for (const PendingAct& act : pending_acts(ledger).submit) {
      const LedgerStage* stage = act.stage;
      Fact fact{FactKind::submitted, stage->id, stage->newest()->number, Value::make_table(), 0};
      fact.fields.set("job", "job-" + stage->newest()->key);
      ledger.apply(fact);
    }
    seen.requests.clear();
    CHECK(ledger.refused.empty());
    return join(words, ", ");
  }
  void end(const std::string& stage, const std::string& outcome, int exit_code = 0, double figure = 0) {
    JobInfo info;
    info.key = ledger.find(stage)->newest()->key;
    info.state = outcome == "lost" ? JobState::lost : JobState::ended;
    info.cause = "its lead is gone";
    if (outcome != "lost") {
      info.record = JobRecord{};
      info.record->outcome = outcome;
      info.record->cause = outcome == "succeeded" ? "" : "rank 0 ended";
      info.record->exit_code = exit_code;
    }
    seen.jobs[info.key] = info;
    if (outcome == "succeeded") {
      seen.artifacts[stage] = {"/out/" + stage, "digest", Value::make_table()};
      seen.artifacts[stage].figures.set("loss", figure);
    }
  }
};

}  // namespace

TEST_CASE("decide: what the scheduler has found out is a fact of the run, once") {
  DecideRig rig({decide_stage("a")});
  rig.seen.notices = {{"comment_changed", "this site changes --comment"}};
  CHECK(rig.round().find("noticed") != std::string::npos);
  CHECK(rig.round().find("noticed") == std::string::npos);
  rig.seen.notices.push_back({"clock_differs", "by a day"});
  CHECK(rig.round().find("noticed") != std::string::npos);
  REQUIRE(rig.ledger.notices.size() == 2);
  CHECK(rig.ledger.notices[1].text == "by a day");
}

TEST_CASE("decide: a job that left neither a record nor an end has ended when that is found out") {
  DecideRig rig({decide_stage("a", {}, "continue")});
  rig.seen.now_ms = 1'000;
  rig.round();
  rig.end("a", "lost");
  rig.seen.now_ms = 90'000;
  rig.prepare();
  const auto facts = decide(rig.plan, {}, rig.ledger, rig.seen, "run");
  const auto ended = std::find_if(facts.begin(), facts.end(), [](const Fact& fact) {
    return fact.kind == FactKind::retry || fact.kind == FactKind::failed;
  });
  REQUIRE(ended != facts.end());
  CHECK(ended->fields.get_integer("ended_ms") == 90'000);
}

TEST_CASE("a chain goes one by one, a fork side by side, and the end is said once") {
  DecideRig rig({decide_stage("a"), decide_stage("b", {"a"}), decide_stage("c", {"a"})});
  CHECK(rig.round() == "ready a, submit a");
  CHECK(rig.round() == "");
  rig.end("a", "succeeded");
  CHECK(rig.round() == "succeeded a");
  CHECK(rig.round() == "ready b, ready c, submit b, submit c");
  rig.end("b", "succeeded");
  rig.end("c", "succeeded");
  CHECK(rig.round() == "succeeded b, succeeded c, run_ended");
  CHECK(rig.ledger.state == RunState::succeeded);
  CHECK(rig.round() == "");
}

TEST_CASE("what a failure does to the rest is the stage's on_failure") {
  struct Case {
    const char* on_failure;
    const char* facts;
    RunState state;
  };
  // a fails while the independent d has not begun; b takes a's artifact; c only has to come after a.
  const Case cases[] = {
      {"stop", "failed a, skipped b, skipped c", RunState::failed},
      {"skip-dependents", "failed a, skipped b, skipped c", RunState::failed},
      {"continue", "failed a, skipped b", RunState::succeeded},
  };
  for (const Case& c : cases) {
    CAPTURE(c.on_failure);
    PlannedStage after = decide_stage("c");
    after.needs = {"a"};
    DecideRig rig({decide_stage("a", {}, c.on_failure), decide_stage("b", {"a"}), after, decide_stage("d")});
    CHECK(rig.round() == "ready a, ready d, submit a, submit d");
    rig.end("a", "failed", 1);
    CHECK(rig.round() == c.facts);
    if (c.state == RunState::succeeded) {
      CHECK(rig.round() == "ready c, submit c");
      rig.end("c", "succeeded");
    }
    rig.end("d", "succeeded");
    rig.round();
    CHECK(rig.ledger.ended);
    CHECK(rig.ledger.state == c.state);
    CHECK(!rig.ledger.find("b")->cause.empty());
  }
}

TEST_CASE("retries are counted, and a resume starts the count again") {
  DecideRig rig({decide_stage("a", {}, "stop", 1), decide_stage("b", {"a"})});
  rig.round();
  rig.end("a", "lost");
  CHECK(rig.round() == "retry a, submit a");
  rig.end("a", "failed", 1);
  CHECK(rig.round() == "failed a, skipped b, run_ended");
  CHECK(rig.ledger.state == RunState::failed);
  CHECK(rig.round() == "");
  rig.seen.requests = {{"1", "resume"}};
  CHECK(rig.round() == "request, reset a, reset b");
  CHECK(rig.round() == "ready a, submit a");
  CHECK(rig.ledger.find("a")->newest()->number == 3);
  rig.end("a", "lost");
  CHECK(rig.round() == "retry a, submit a");
  rig.end("a", "succeeded");
  rig.round();
  rig.round();
  rig.end("b", "succeeded");
  CHECK(rig.round() == "succeeded b, run_ended");
  CHECK(rig.ledger.state == RunState::succeeded);
}

TEST_CASE("a resume also tries again what had failed unseen before it was asked") {
  DecideRig rig({decide_stage("a"), decide_stage("b", {"a"})});
  rig.round();
  rig.end("a", "failed", 1);
  rig.seen.requests = {{"1", "resume"}};
  CHECK(rig.round() == "request, failed a, reset a");
  CHECK(rig.round() == "ready a, submit a");
}

TEST_CASE("cancel ends what runs, keeps what is done, submits nothing more; a job that was faster stays succeeded") {
  DecideRig rig({decide_stage("a"), decide_stage("b"), decide_stage("c", {"a"})});
  rig.round();
  rig.seen.requests = {{"1", "cancel"}, {"2", "dance"}};
  CHECK(rig.round() == "request, request, cancel_job a, cancel_job b, cancelled c");
  CHECK(pending_acts(rig.ledger).cancel.size() == 2);
  rig.seen.requests = {{"1", "cancel"}, {"3", "resume"}};  // the first was answered; its file is still there
  CHECK(rig.round() == "request");
  CHECK(rig.ledger.cancel_requested);
  rig.end("a", "cancelled");
  rig.end("b", "succeeded");
  CHECK(rig.round() == "cancelled a, succeeded b, run_ended");
  CHECK(rig.ledger.state == RunState::cancelled);
  rig.seen.jobs.clear();
  rig.seen.requests = {{"4", "resume"}};
  CHECK(rig.round() == "request, reset a, reset c");
  CHECK(rig.round() == "ready a, submit a");
}

TEST_CASE("a job asked to stop by somebody else is tried again, not taken for our cancellation") {
  DecideRig rig({decide_stage("a", {}, "stop", 1)});
  rig.round();
  rig.end("a", "cancelled");
  CHECK(rig.round() == "retry a, submit a");
}

TEST_CASE("a record that says succeeded counts only with a whole artifact") {
  DecideRig rig({decide_stage("a")});
  rig.round();
  rig.end("a", "succeeded");
  rig.seen.artifacts.clear();
  rig.seen.broken["a"] = "manifest missing";
  CHECK(rig.round() == "failed a, run_ended");
  CHECK(rig.ledger.find("a")->cause == "manifest missing");
}

TEST_CASE("not found is not failed: a job that the snapshot does not name stays as it is") {
  DecideRig rig({decide_stage("a")});
  rig.round();
  CHECK(rig.round() == "");
  CHECK(rig.ledger.find("a")->state == StageState::submitted);
}

TEST_CASE("unreadable input fails the stage before anything is submitted; an artifact of the key makes it cached") {
  DecideRig rig({decide_stage("a", {}, "continue"), decide_stage("b")});
  rig.prepare();
  rig.seen.prepared["a"].problem = "cannot read /data/x";
  rig.seen.prepared["b"].cached = ArtifactSeen{"/elsewhere/out", "d", Value::make_table()};
  const auto facts = decide(rig.plan, {}, rig.ledger, rig.seen, "run");
  for (const Fact& fact : facts) rig.ledger.apply(fact);
  CHECK(rig.ledger.find("a")->state == StageState::failed);
  CHECK(rig.ledger.find("a")->cause == "cannot read /data/x");
  CHECK(rig.ledger.find("b")->state == StageState::cached);
  CHECK(rig.ledger.find("b")->artifact == "/elsewhere/out");
  CHECK(rig.ledger.ended);
}

TEST_CASE("best picks the variant by its figure; variants without it, or failed ones, do not count") {
  const auto variants = [] {
    DecideRig rig(
        {decide_stage("v1", {}, "continue"), decide_stage("v2", {}, "continue"), decide_stage("v3", {}, "continue")});
    rig.round();
    return rig;
  };
  PlannedInput input;
  input.name = "model";
  input.stages = {"v1", "v2", "v3"};
  input.best_metric = "loss";
  DecideRig rig = variants();
  rig.end("v1", "succeeded", 0, 2.5);
  rig.end("v2", "succeeded", 0, 1.5);
  rig.end("v3", "failed", 1);
  rig.round();
  CHECK(*choose_source(input, rig.ledger) == "v2");
  input.best_is_max = true;
  CHECK(*choose_source(input, rig.ledger) == "v1");
  input.best_metric = "accuracy";
  CHECK(choose_source(input, rig.ledger).error().code == ErrorCode::invalid_input);
  // A figure that is not a number is none, wherever it stands.
  for (const bool first : {false, true}) {
    CAPTURE(first);
    DecideRig undefined = variants();
    undefined.end(first ? "v1" : "v2", "succeeded", 0, std::nan(""));
    undefined.end(first ? "v2" : "v1", "succeeded", 0, 1.5);
    undefined.end("v3", "succeeded", 0, 2.5);
    undefined.round();
    input.best_metric = "loss", input.best_is_max = false;
    CHECK(*choose_source(input, undefined.ledger) == (first ? "v2" : "v1"));
    input.best_is_max = true;
    CHECK(*choose_source(input, undefined.ledger) == "v3");
  }
  // Of equal figures the first of the matrix, whichever ended first.
  DecideRig equal = variants();
  equal.end("v3", "succeeded", 0, 1.5);
  equal.end("v2", "succeeded", 0, 1.5);
  equal.end("v1", "succeeded", 0, 1.25);
  equal.round();
  CHECK(*choose_source(input, equal.ledger) == "v2");  // the largest
  DecideRig smallest = variants();
  for (const char* variant : {"v3", "v2", "v1"}) smallest.end(variant, "succeeded", 0, 1.5);
  smallest.round();
  input.best_is_max = false;
  CHECK(*choose_source(input, smallest.ledger) == "v1");
  DecideRig all_undefined = variants();
  for (const char* variant : {"v1", "v2", "v3"}) all_undefined.end(variant, "succeeded", 0, std::nan(""));
  all_undefined.round();
  CHECK_FALSE(choose_source(input, all_undefined.ledger).ok());
  DecideRig nothing = variants();
  CHECK(choose_source(input, nothing.ledger).error().code == ErrorCode::not_found);
}

TEST_CASE("submission keys are the same for every controller, differ for every attempt, and are safe as file names") {
  CHECK(submission_key("run", "sft/lr=1e-05", 1) == submission_key("run", "sft/lr=1e-05", 1));
  std::set<std::string> keys;
  for (const char* run : {"r1", "r2"})
    for (const char* stage : {"a", "a/x=1", "a_x=1", "a/x_1"})
      for (int attempt = 1; attempt <= 3; ++attempt) keys.insert(submission_key(run, stage, attempt));
  CHECK(keys.size() == 24);
  for (const std::string& key : keys) CHECK(key.find('/') == std::string::npos);
}

namespace {

// The controller's round over a fake scheduler and a log in memory; dies where `dies()` says so.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed), scheduler_(clock_, 4, [this](const std::string& key) { return play(key); }) {
    const int count = 1 + static_cast<int>(random_.next_below(12));
    for (int i = 0; i < count; ++i) {
      std::vector<std::string> needs;
      for (int j = 0; j < i; ++j)
        if (random_.next_below(4) == 0) needs.push_back(format("s{}", j));
      const char* policies[] = {"stop", "continue", "skip-dependents"};
      plan_.stages.push_back(decide_stage(format("s{}", i), needs, policies[random_.next_below(3)],
                                          static_cast<int>(random_.next_below(4))));
      ids_.push_back(plan_.stages.back().id());
    }
    plan_.workflow = "w";
    fails_percent_ = random_.next_below(3) == 0 ? 0 : random_.next_below(60);
    dies_percent_ = random_.next_below(3) == 0 ? 0 : random_.next_below(40);
  }

  void run() {
    bool alive = true;
    for (int rounds = 0; rounds < 5000; ++rounds) {
      // More requests arrive while no controller lives: only then can an intent be withdrawn before it is acted upon.
      if (random_.next_below(100) < (alive ? 2U : 20U) && requests_made_ < 4)
        requests_.push_back({format("{:03}", ++requests_made_), random_.next_below(2) ? "cancel" : "resume"});
      alive = round();
      if (!alive) ++deaths_;
      const RunLedger now = ledger();
      check(now);
      if (now.ended && requests_.empty()) return;
      clock_.advance_ms(static_cast<std::int64_t>(random_.next_below(3000)));
    }
    FAIL("the run did not end");
  }
  int deaths() const { return deaths_; }
  int withdrawn() const { return withdrawn_; }  // intents that were cancelled before anybody acted upon them

 private:
  bool dies() { return random_.next_below(100) < dies_percent_ / 4; }

  FakeScheduler::Script play(const std::string&) {
    FakeScheduler::Script script{static_cast<std::int64_t>(random_.next_below(20'000)), "succeeded", {}};
    if (random_.next_below(100) < fails_percent_) {
      const char* outcomes[] = {"failed", "lost", "cancelled"};
      script.outcome = outcomes[random_.next_below(3)];
      script.cause = format("cause {}", random_.next_below(3));
    }
    return script;
  }

  RunLedger ledger() const {
    RunLedger folded(ids_);
    for (const Fact& fact : log_) folded.apply(fact);
    return folded;
  }

  // False: the controller died on the way; the next round is another one's, with nothing but the log.
  bool round() {
    RunLedger now = ledger();
    Observations seen;
    seen.requests = requests_;
    const auto jobs = scheduler_.snapshot({});
    for (const JobInfo& job : *jobs) seen.jobs[job.key] = job;
    for (const LedgerStage& stage : now.stages)
      if (stage.job_open() && seen.jobs.contains(stage.newest()->key) && seen.jobs[stage.newest()->key].record)
        seen.artifacts[stage.id] = {"/" + stage.id, "d", Value::make_table()};
    for (const PlannedStage* stage : wants_preparation(plan_, now)) seen.prepared[stage->id()].key = stage->id();
    if (dies()) return false;
    for (Fact& fact : decide(plan_, {}, now, seen, "run")) {
      log_.push_back(fact);
      now.apply(fact);
    }
    if (dies()) return false;
    const PendingActs acts = pending_acts(now);
    std::vector<Fact> outcomes;
    for (const PendingAct& act : acts.submit) {
      const LedgerStage* stage = act.stage;
      if (dies()) return false;
      submit_checked(*stage, now, outcomes);
    }
    for (const PendingAct& act : acts.cancel) {
      const LedgerStage* stage = act.stage;
      if (dies()) return false;
      if (stage->newest()->job.empty()) continue;
      CHECK(scheduler_.cancel(stage->newest()->job).ok());
      outcomes.push_back({FactKind::cancel_sent, stage->id, stage->newest()->number, {}, 0});
    }
    if (dies()) return false;
    log_.insert(log_.end(), outcomes.begin(), outcomes.end());
    if (dies()) return false;
    std::erase_if(requests_, [&](const RequestSeen& request) { return now.answered(request.id); });
    return true;
  }

  void submit_checked(const LedgerStage& stage, const RunLedger& now, std::vector<Fact>& outcomes) {
    for (const PlannedInput& input : plan_.find(stage.id)->inputs) CHECK(now.find(input.stages[0])->has_artifact());
    const auto id = scheduler_.submit_one({.key = stage.newest()->key,
                                           .attempt_dir = {},
                                           .worker = {},
                                           .slots = 1 + static_cast<int>(random_.next_below(3)),
                                           .withdrawn = stage.newest()->cancel_wanted,
                                           .script = {},
                                           .after = {},
                                           .array_tasks = {}});
    Fact fact{id.ok() ? FactKind::submitted : FactKind::refused, stage.id, stage.newest()->number, Value::make_table(),
              0};
    fact.fields.set(id.ok() ? "job" : "cause", id.ok() ? *id : id.error().what);
    outcomes.push_back(std::move(fact));
    withdrawn_ += id.ok() ? 0 : 1;
  }

  void check(const RunLedger& now) {
    CHECK_MESSAGE(now.refused.empty(), (now.refused.empty() ? "" : now.refused[0]));
    std::size_t attempts = 0;
    for (const LedgerStage& stage : now.stages) {
      attempts += stage.attempts.size();
      CHECK(stage.attempts.size() - stage.attempts_before_reset <=
            static_cast<std::size_t>(plan_.find(stage.id)->common.retries) + 1);
      if (stage.state == StageState::failed || stage.state == StageState::skipped ||
          stage.state == StageState::cancelled)
        CHECK(!stage.cause.empty());
      if (stage.newest() && !stage.newest()->refused.empty()) CHECK(stage.state != StageState::failed);
      if (succeeded_.contains(stage.id)) CHECK(stage.has_artifact());
      if (stage.has_artifact()) succeeded_.insert(stage.id);
    }
    for (const auto& [key, times] : scheduler_.submissions()) CHECK(times == 1);
    CHECK(scheduler_.submissions().size() <= attempts);
  }

  ManualClock clock_;
  PhiloxSequence random_;
  FakeScheduler scheduler_;
  RunPlan plan_;
  std::vector<std::string> ids_;
  std::vector<Fact> log_;
  std::vector<RequestSeen> requests_;
  std::set<std::string> succeeded_;
  int requests_made_ = 0, deaths_ = 0, withdrawn_ = 0;
  std::uint64_t fails_percent_ = 0, dies_percent_ = 0;
};

}  // namespace

TEST_CASE("simulated runs keep their promises whatever fails and whoever dies") {
  int deaths = 0, withdrawn = 0;
  constexpr int seeds = testing::sanitized ? 40 : 400;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Simulation simulation(seed);
    simulation.run();
    deaths += simulation.deaths();
    withdrawn += simulation.withdrawn();
  }
  CHECK(deaths > seeds);  // else the simulation tests nothing
  CHECK(withdrawn > 0);
}
