// decide() on a cluster that misbehaves, in virtual time: chains and arrays in random graphs with edges of every kind,
// milestones of which some never come, jobs that are queued again, held, preempted and lost, answers that do not come,
// controllers that die between any two acts, cancellations and resumes at random moments.
//
// Promised for every seed: the run ends, and nothing of it is left in the queue then; no fact is refused; a key is
// submitted once; no two jobs of a stage run at the same time; the queue holds no more than the site allows; what has
// succeeded stays so; what takes a milestone is ready when that is there, and given up only when it is not.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "contracts/records/milestone.h"
#include "orchestrator/decide/decide.h"
#include "tests/support/sanitized.h"

namespace longhaul {
namespace {

constexpr std::int64_t simulated_wall_ms = 3'600'000;  // of one job of a chain
constexpr std::int64_t simulated_steps = 4;            // of a training: milestones after 1, 2 and 3

struct SimulatedJob {
  JobInfo info;
  std::string stage, after;  // key of the job that has to end before
  std::int64_t work_ms = 0;  // that it has done when it ends
  bool live() const { return info.state == JobState::queued || info.state == JobState::running; }
};

class SimulatedCluster {
 public:
  explicit SimulatedCluster(PhiloxSequence& random) : random_(random) {}

  std::int64_t now_ms = 1'000'000'000;
  std::map<std::string, SimulatedJob> jobs;                  // by key
  std::map<std::string, std::int64_t> work_ms;               // by stage: left to do
  std::map<std::string, std::int64_t> all_work_ms;           // of trainings that publish milestones
  std::map<std::string, std::set<std::int64_t>> milestones;  // that they have published
  std::set<std::int64_t> never_published;                    // steps, of every training
  std::map<std::string, int> saved;                          // by stage: how often something was
  std::map<std::string, int> submissions;                    // by key
  std::set<std::string> chains;
  std::uint64_t trouble_percent = 0;

  bool chance(std::uint64_t percent) { return random_.next_below(100) < percent; }

  // nullopt: no answer, whatever became of the question.
  std::optional<Result<std::string>> submit(const LedgerStage& stage, const LedgerAttempt& attempt) {
    const bool known = jobs.contains(attempt.key);
    if (!known && attempt.cancel_wanted) {  // withdrawn: refused when it is certain that it is not there
      if (chance(50)) return std::nullopt;
      return Result<std::string>(make_error(ErrorCode::invalid_input, "cancelled before it was submitted"));
    }
    if (!known && chance(trouble_percent)) return std::nullopt;  // it did not arrive
    if (!known) {
      SimulatedJob job;
      job.stage = stage.id;
      job.info.key = attempt.key;
      job.info.id = std::to_string(jobs.size() + 1);
      for (const LedgerAttempt& earlier : stage.attempts)
        if (attempt.after > 0 && earlier.number == attempt.after) job.after = earlier.key;
      ++submissions[attempt.key];
      jobs.emplace(attempt.key, std::move(job));
    }
    if (chance(trouble_percent)) return std::nullopt;  // it did, and the answer did not
    return Result<std::string>(jobs[attempt.key].info.id);
  }

  void cancel(const std::string& id) {
    for (auto& [key, job] : jobs)
      if (job.info.id == id && job.live()) end(job, "cancelled", SchedulerEnd::cancelled);
  }
  void release(const std::string& id) {
    for (auto& [key, job] : jobs)
      if (job.info.id == id) job.info.held = false;
  }

  void pass(std::int64_t ms) {
    now_ms += ms;
    for (auto& [key, job] : jobs) {
      if (job.info.state == JobState::running) publish(job);
      if (job.info.state == JobState::running && chance(trouble_percent)) disturb(job);
      if (job.info.state == JobState::running && now_ms >= job.info.started_ms + job.work_ms) complete(job);
    }
    for (auto& [key, job] : jobs)
      if (job.info.state == JobState::queued && !job.info.held && chance(70)) start(job);
  }

 private:
  void start(SimulatedJob& job) {
    const auto before = jobs.find(job.after);
    if (before != jobs.end() && before->second.live()) return;
    for (const auto& [key, other] : jobs)
      CHECK_MESSAGE(!(other.stage == job.stage && other.info.state == JobState::running), "two jobs of ", job.stage);
    job.info.state = JobState::running;
    job.info.started_ms = now_ms;
    job.work_ms = chains.contains(job.stage) ? std::min(work_ms[job.stage], simulated_wall_ms) : work_ms[job.stage];
  }
  void publish(const SimulatedJob& job) {
    const auto all = all_work_ms.find(job.stage);
    if (all == all_work_ms.end()) return;
    const std::int64_t done = all->second - work_ms[job.stage] + std::min(now_ms - job.info.started_ms, job.work_ms);
    for (std::int64_t step = 1; step < simulated_steps; ++step)
      if (done * simulated_steps >= step * all->second && !never_published.contains(step))
        milestones[job.stage].insert(step);
  }
  void complete(SimulatedJob& job) {
    work_ms[job.stage] -= job.work_ms;
    ++saved[job.stage];
    if (work_ms[job.stage] > 0) {
      end(job, "failed", SchedulerEnd::none);
      job.info.record->ended_by = "wall_time";
    } else {
      end(job, chance(trouble_percent) ? "failed" : "succeeded", SchedulerEnd::none);
    }
    if (job.info.record->outcome == "failed") work_ms[job.stage] = std::max<std::int64_t>(1, work_ms[job.stage]);
  }
  void disturb(SimulatedJob& job) {
    switch (random_.next_below(4)) {
      case 0:
        job.info.state = JobState::lost;
        job.info.end = SchedulerEnd::node_fail;
        job.info.cause = "Slurm says NODE_FAIL";
        job.info.nodes = format("n{}", random_.next_below(5));
        return;
      case 1: return end(job, "cancelled", SchedulerEnd::preempted);
      case 2: job.info.held = true; [[fallthrough]];
      default:
        job.info.state = JobState::queued;
        job.info.reason = "launch_failed_requeued_held";
        job.info.started_ms = 0;
        ++job.info.restarts;
    }
  }
  void end(SimulatedJob& job, const std::string& outcome, SchedulerEnd end) {
    job.info.record = JobRecord{};
    job.info.record->outcome = outcome;
    job.info.record->cause = outcome == "succeeded" ? "" : outcome + " for a reason";
    job.info.record->exit_code = outcome == "failed" ? 1 : 0;
    job.info.record->started_ms = job.info.started_ms > 0 ? job.info.started_ms : now_ms;
    job.info.record->ended_ms = now_ms;
    job.info.record->scheduler_job = job.info.id;
    job.info.state = JobState::ended;
    job.info.end = end;
    job.info.held = false;
  }

  PhiloxSequence& random_;
};

class ClusterSimulation {
 public:
  explicit ClusterSimulation(std::uint64_t seed) : random_(seed), cluster_(random_) {
    plan_.workflow = "w";
    const int count = 1 + static_cast<int>(random_.next_below(6));
    for (int i = 0; i < count; ++i) add_stage(i);
    for (const PlannedStage& stage : plan_.stages) ids_.push_back(stage.id());
    const int sizes[] = {0, 2, 5};
    rules_.array_tasks_max = sizes[random_.next_below(3)];
    rules_.submitted_max = sizes[random_.next_below(3)];
    rules_.can_exclude = random_.next_below(2) == 0;
    cluster_.trouble_percent = random_.next_below(4) == 0 ? 0 : random_.next_below(25);
    dies_percent_ = random_.next_below(3) == 0 ? 0 : random_.next_below(10);
    if (random_.next_below(3) == 0) cluster_.never_published.insert(1 + static_cast<int>(random_.next_below(3)));
  }

  void run() {
    for (int rounds = 0; rounds < 20'000; ++rounds) {
      if (cluster_.chance(1) && asked_ < 4)
        requests_.push_back({format("{:03}", ++asked_), cluster_.chance(50) ? "cancel" : "resume"});
      round();
      const RunLedger now = ledger();
      check(now);
      if (now.ended && requests_.empty()) return check_end(now);
      cluster_.pass(static_cast<std::int64_t>(random_.next_below(1'200'000)));
    }
    FAIL("the run did not end");
  }
  int successors = 0, withdrawn = 0, tasks = 0;  // that there were: else nothing was tested
  int early = 0, given_up = 0;  // stages that began on a milestone of a training that went on; that missed theirs

 private:
  bool dies() { return cluster_.chance(dies_percent_); }

  void add_stage(int number) {
    const int variants = random_.next_below(3) == 0 ? 2 + static_cast<int>(random_.next_below(4)) : 1;
    const bool chain = random_.next_below(2) == 0;
    const std::size_t before = plan_.stages.size();
    for (int v = 0; v < variants; ++v) {
      PlannedStage stage;
      stage.stage = format("s{}", number);
      if (variants > 1) stage.variant = format("v{}", v);
      stage.kind = "pretrain";
      stage.settings = Value::make_table();
      const char* policies[] = {"stop", "continue", "skip-dependents"};
      stage.common.on_failure = policies[random_.next_below(3)];
      stage.common.retries = static_cast<int>(random_.next_below(3));
      stage.common.time_limit.value = static_cast<double>(random_.next_below(4)) * 3600;
      for (std::size_t i = 0; i < before; ++i) {
        if (random_.next_below(5) != 0) continue;
        const std::string need = plan_.stages[i].id();
        stage.needs.push_back(need);
        const NeedEdge edges[] = {NeedEdge::afterok, NeedEdge::afterok, NeedEdge::afterany, NeedEdge::afternotok};
        if (const NeedEdge edge = edges[random_.next_below(4)]; edge != NeedEdge::afterok) stage.edges[need] = edge;
      }
      for (std::size_t i = 0; i < before; ++i)
        if (random_.next_below(2) == 0) take_milestone(stage, plan_.stages[i]);
      if (chain) cluster_.chains.insert(stage.id());
      cluster_.work_ms[stage.id()] = 1 + static_cast<std::int64_t>(random_.next_below(3 * simulated_wall_ms));
      if (variants == 1 && random_.next_below(2) == 0) {
        stage.settings.set("steps", simulated_steps);
        stage.settings.set(milestone_setting, 1);
        cluster_.all_work_ms[stage.id()] = cluster_.work_ms[stage.id()];
      }
      plan_.stages.push_back(std::move(stage));
      rules_.stages.push_back({.resumable = chain,
                               .chain = chain,
                               .wall_s = chain ? static_cast<double>(simulated_wall_ms) * 1e-3 : 0,
                               .shape = random_.next_below(4) == 0 ? "odd" : "even"});
    }
  }

  // Of a training that is not needed in another way.
  void take_milestone(PlannedStage& stage, const PlannedStage& training) {
    const auto steps = milestone_steps(training.settings);
    if (steps.empty() || std::find(stage.needs.begin(), stage.needs.end(), training.id()) != stage.needs.end()) return;
    PlannedInput input;
    input.name = training.stage;
    input.stages = {training.id()};
    input.milestone = steps[random_.next_below(steps.size())];
    stage.needs.push_back(training.id());
    stage.edges[training.id()] = NeedEdge::milestone;
    stage.inputs.push_back(std::move(input));
  }

  RunLedger ledger() const {
    RunLedger folded(ids_);
    for (const Fact& fact : log_) folded.apply(fact);
    return folded;
  }

  Observations observe(const RunLedger& now) {
    Observations seen;
    seen.now_ms = cluster_.now_ms;
    seen.requests = requests_;
    for (const auto& [key, job] : cluster_.jobs) seen.jobs[key] = job.info;
    for (const LedgerStage& stage : now.stages) {
      if (!stage.job_open()) continue;
      const auto job = seen.jobs.find(stage.newest()->key);
      if (job == seen.jobs.end()) continue;
      if (job->second.record && job->second.record->outcome == "succeeded")
        seen.artifacts[stage.id] = {"/" + stage.id, "d", Value::make_table()};
      seen.saved[stage.id].step = cluster_.saved[stage.id] == 0 ? -1 : cluster_.saved[stage.id];
    }
    for (const LedgerStage& stage : now.stages) {
      if (!cluster_.all_work_ms.contains(stage.id) || stage.key.empty()) continue;
      auto& found = seen.milestones[stage.id];
      for (const std::int64_t step : cluster_.milestones[stage.id])
        if (!stage.milestones.contains(step))
          found[step] = {format("/{}@{}", stage.id, step), "d", Value::make_table()};
    }
    for (const PlannedStage* stage : wants_preparation(plan_, now)) seen.prepared[stage->id()].key = stage->id();
    return seen;
  }

  // Its inputs are fixed then: a training that is tried again does not take them back.
  void check_ready(const RunLedger& now, const Fact& fact) {
    for (const PlannedInput& input : plan_.find(fact.stage)->inputs) {
      const LedgerStage* training = now.find(input.stages.front());
      CHECK_MESSAGE(training->milestones.contains(input.milestone), fact.stage, " was ready too early");
      early += !is_final(training->state);
    }
  }

  // May end anywhere: the next round is another controller's, with nothing but the log.
  void round() {
    RunLedger now = ledger();
    const Observations seen = observe(now);
    if (dies()) return;
    for (Fact& fact : decide(plan_, rules_, now, seen, "run")) {
      fact.wall_ms = cluster_.now_ms;
      successors += fact.kind == FactKind::submit_next;
      tasks += fact.kind == FactKind::submit && !fact.text("array").empty();
      if (fact.kind == FactKind::ready) check_ready(now, fact);
      log_.push_back(fact);
      now.apply(fact);
    }
    const PendingActs acts = pending_acts(now);
    for (const PendingAct& act : acts.submit) {
      if (dies()) return;
      const auto answer = cluster_.submit(*act.stage, *act.attempt);
      if (!answer) continue;
      withdrawn += !answer->ok();
      outcome(now, answer->ok() ? FactKind::submitted : FactKind::refused, act, answer->ok() ? "job" : "cause",
              answer->ok() ? **answer : answer->error().what);
    }
    for (const PendingAct& act : acts.cancel) {
      if (dies()) return;
      if (act.attempt->job.empty() || cluster_.chance(cluster_.trouble_percent)) continue;
      cluster_.cancel(act.attempt->job);
      outcome(now, FactKind::cancel_sent, act);
    }
    for (const PendingAct& act : acts.release) {
      if (dies()) return;
      cluster_.release(act.attempt->job);
      outcome(now, FactKind::released, act);
    }
    std::erase_if(requests_, [&](const RequestSeen& request) { return now.answered(request.id); });
  }
  void outcome(RunLedger& now, FactKind kind, const PendingAct& act, const std::string& field = {},
               const std::string& text = {}) {
    Fact fact{kind, act.stage->id, act.attempt->number, Value::make_table(), cluster_.now_ms};
    if (!field.empty()) fact.fields.set(field, text);
    if (dies()) return;  // done, and nobody knows
    now.apply(fact);
    log_.push_back(std::move(fact));
  }

  void check(const RunLedger& now) {
    REQUIRE_MESSAGE(now.refused.empty(), (now.refused.empty() ? "" : now.refused[0]));
    int open = 0;
    std::set<std::string> keys;
    for (const LedgerStage& stage : now.stages) {
      open += (stage.job_open() ? 1 : 0) + (stage.successor_open() ? 1 : 0);
      for (const LedgerAttempt& attempt : stage.attempts) CHECK(keys.insert(attempt.key).second);
      if (stage.successor) CHECK(keys.insert(stage.successor->key).second);
      if (succeeded_.contains(stage.id)) CHECK(stage.has_artifact());
      if (stage.has_artifact()) succeeded_.insert(stage.id);
    }
    if (rules_.submitted_max > 0) CHECK(open <= rules_.submitted_max);
    for (const auto& [key, times] : cluster_.submissions) CHECK(times == 1);
  }
  void check_end(const RunLedger& now) {
    for (const auto& [key, job] : cluster_.jobs) CHECK_MESSAGE(!job.live(), "left behind: ", key);
    for (const LedgerStage& stage : now.stages) {
      CHECK(is_final(stage.state));
      if (!stage.has_artifact()) CHECK(!stage.cause.empty());
      for (const PlannedInput& input : plan_.find(stage.id)->inputs) {
        const LedgerStage* training = now.find(input.stages.front());
        const std::string missing = format("it needs the milestone of step {} of {}", input.milestone, training->id);
        if (!starts_with(stage.cause, missing) || training->key.empty()) continue;
        ++given_up;
        CHECK_MESSAGE(!cluster_.milestones[training->id].contains(input.milestone), stage.id, ": ", stage.cause);
      }
    }
  }

  PhiloxSequence random_;
  SimulatedCluster cluster_;
  RunPlan plan_;
  SchedulingRules rules_;
  std::vector<std::string> ids_;
  std::vector<Fact> log_;
  std::vector<RequestSeen> requests_;
  std::set<std::string> succeeded_;
  int asked_ = 0;
  std::uint64_t dies_percent_ = 0;
};

}  // namespace

TEST_CASE("simulated clusters: chains, arrays, edges, milestones keep their promises whatever is lost or held") {
  int successors = 0, withdrawn = 0, tasks = 0, early = 0, given_up = 0;
  constexpr int seeds = testing::sanitized ? 50 : 500;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    ClusterSimulation simulation(seed);
    simulation.run();
    successors += simulation.successors;
    withdrawn += simulation.withdrawn;
    tasks += simulation.tasks;
    early += simulation.early;
    given_up += simulation.given_up;
  }
  CHECK(successors > seeds / 5);
  CHECK(withdrawn > seeds / 50);
  CHECK(tasks > seeds / 5);
  CHECK(early > seeds / 10);
  CHECK(given_up > seeds / 25);
}

}  // namespace longhaul
