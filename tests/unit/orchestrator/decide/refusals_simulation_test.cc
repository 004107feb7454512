// Runs driven by the leads of their jobs on a Slurm that refuses submissions for a while, now and again: for limits,
// for an administrator's pause, in words that nobody knows, by silence, by answers that are lost. In virtual time, with
// the product's decisions, its Slurm scheduler over a fake Slurm, its rules of how long a lead stays and who follows
// it.
//
// Promised for every seed: each stage ends well with one job; no key is submitted twice; whatever was refused for more
// than ten minutes was reported; no lead stays longer than it may.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/digest/philox.h"
#include "contracts/records/held_allocation.h"
#include "orchestrator/controller/follower.h"
#include "orchestrator/decide/held_up.h"
#include "orchestrator/scheduler/names/refusals.h"
#include "tests/support/sanitized.h"
#include "tests/unit/orchestrator/controller/cluster_rig.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

namespace longhaul {
namespace {

constexpr int job_gpus = 8;
constexpr std::int64_t minute_ms = 60'000;
constexpr const char* follower_key = "driver";

// Times in which Slurm takes no jobs.
class Weather {
 public:
  Weather(PhiloxSequence& random, std::int64_t now_ms) : random_(random), changes_ms_(now_ms + good_ms()) {}

  void advance(FakeSlurm& slurm, std::int64_t now_ms) {
    while (now_ms >= changes_ms_) {
      bad_ = !bad_;
      kind_ = static_cast<int>(random_.next_below(4));
      changes_ms_ += bad_ ? bad_ms() : good_ms();
      if (bad_ && kind_ == 3) slurm.down_until_ms = changes_ms_;
    }
    if (random_.next_below(50) == 0) slurm.answers_to_lose = 1, slurm.appears_after_ms = 3'000;
  }
  std::optional<Error> refusal() const {
    if (!bad_ || kind_ == 3) return std::nullopt;
    if (kind_ == 0) return refusal_error("QOSMaxSubmitJobPerUserLimit", Refusal::limit);
    if (kind_ == 1) return refusal_error("System submissions disabled", Refusal::busy);
    return refusal_error("lua: not today", Refusal::unknown);
  }

 private:
  std::int64_t good_ms() { return static_cast<std::int64_t>(1 + random_.next_below(40)) * minute_ms; }
  std::int64_t bad_ms() {
    const bool lasts = random_.next_below(20) == 0 && kind_ != 3;  // a silence is over before a follower's hour is
    return static_cast<std::int64_t>(1 + random_.next_below(lasts ? 600 : 30)) * minute_ms;
  }
  PhiloxSequence& random_;
  std::int64_t changes_ms_;
  bool bad_ = false;
  int kind_ = 0;
};

struct DrivenRun {
  explicit DrivenRun(std::uint64_t seed) : random(seed, 7), weather(random, world.clock.wall_ms()) {
    for (const char* name : {"a", "b", "c"}) rig.stage(name).needs = needs_of(name);
    world.slurm.refuse = [this](const SlurmSubmission&) {
      const auto refused = weather.refusal();
      refusals += refused ? 1 : 0;
      return refused;
    };
    world.slurm.play = [this](const std::string& key, int) {
      FakeSlurm::Play play;
      play.duration_ms = key == follower_key ? 60 * minute_ms : (5 + random.next_below(60)) * minute_ms;
      play.leaves_claim = play.leaves_record = key != follower_key;
      return play;
    };
  }
  static std::vector<std::string> needs_of(const std::string& name) {
    if (name == "b") return {"a"};
    return name == "c" ? std::vector<std::string>{"b"} : std::vector<std::string>{};
  }

  // A controller's rounds, as `longhaul tick --until-quiet` makes them: for so long at most; whether something is open.
  bool tick(std::int64_t patience_ms, bool leave_refused) {
    world.new_controller();
    const std::int64_t until = world.clock.wall_ms() + patience_ms;
    std::int64_t pause_ms = 500;
    next_try_ms.clear();
    for (;;) {
      const bool changed = round();
      const bool running = !rig.ledger.ended;
      const PendingActs acts = pending_acts(rig.ledger);
      const bool open = running && (silent || !acts.submit.empty());
      const bool refused = !silent && std::ranges::all_of(acts.submit, [&](const PendingAct& act) {
        return next_try_ms.contains(act.attempt->key);
      });
      if (!changed && (!open || (leave_refused && refused))) return open;
      if (world.clock.wall_ms() >= until) return open;
      if (changed) continue;
      pause_ms = std::min<std::int64_t>(2 * pause_ms, 30'000);
      pass(std::min(pause_ms, std::max<std::int64_t>(1, until - world.clock.wall_ms())));
    }
  }

  bool round() {
    rig.seen.now_ms = world.clock.wall_ms();
    rig.seen.jobs.clear();
    std::vector<OpenJob> open;
    for (const LedgerStage& stage : rig.ledger.stages)
      if (stage.job_open()) open.push_back(world.open(stage.newest()->key, stage.newest()->job));
    silent = false;
    if (!open.empty()) {
      const auto jobs = world.scheduler->snapshot(open);
      silent = !jobs.ok();
      if (jobs.ok())
        for (const JobInfo& job : *jobs) rig.seen.jobs[job.key] = job;
    }
    rig.seen.artifacts.clear();
    for (const LedgerStage& stage : rig.ledger.stages) {
      const auto job = stage.job_open() ? rig.seen.jobs.find(stage.newest()->key) : rig.seen.jobs.end();
      if (job != rig.seen.jobs.end() && job->second.record && job->second.record->outcome == "succeeded")
        rig.seen.artifacts[stage.id] = {"/out/" + stage.id, "digest", Value::make_table()};
    }
    rig.seen.prepared.clear();
    for (const PlannedStage* ready : wants_preparation(rig.plan, rig.ledger))
      rig.seen.prepared[ready->id()].key = "key-" + ready->id();
    const std::int64_t facts = rig.ledger.facts;
    std::set<std::string> fresh;
    for (Fact& fact : decide(rig.plan, rig.rules, rig.ledger, rig.seen, "run")) {
      fact.wall_ms = rig.seen.now_ms;
      if (fact.kind == FactKind::submit) fresh.insert(fact.text("key"));
      rig.ledger.apply(fact);
    }
    act(fresh);
    for (const LedgerStage& stage : rig.ledger.stages)
      if (stage.job_open() && !stage.newest()->held_up.by.empty() &&
          world.clock.wall_ms() - stage.newest()->held_up.since_ms >= refusal_reported_after_ms)
        reported.insert(stage.newest()->key);
    return rig.ledger.facts != facts;
  }

  void act(const std::set<std::string>& fresh) {
    const PendingActs acts = pending_acts(rig.ledger);
    for (const PendingAct& act : acts.submit) {
      const LedgerAttempt attempt = *act.attempt;
      const std::string stage = act.stage->id;
      const std::int64_t now_ms = world.clock.wall_ms();
      const auto next = next_try_ms.find(attempt.key);
      if (next != next_try_ms.end() && now_ms < next->second) continue;
      const auto answer = world.scheduler->submit_one(world.job(attempt.key, !fresh.contains(attempt.key)));
      if (answer.ok()) {
        next_try_ms.erase(attempt.key);
        if (attempt.held_up.since_ms > 0) waited_ms[attempt.key] = now_ms - attempt.held_up.since_ms;
        rig.write_fact(FactKind::submitted, stage, attempt.number, "job", *answer);
        continue;
      }
      const Refusal refusal = refusal_in(answer.error());
      REQUIRE(refusal != Refusal::never);
      if (refusal == Refusal::silence) continue;
      next_try_ms[attempt.key] = now_ms + 30'000;
      const RefusalAct verdict = act_on_refusal(refusal, attempt.held_up, now_ms, rig.rules.submit_patience_ms);
      CHECK(verdict != RefusalAct::fail);
      if (verdict == RefusalAct::say)
        rig.write_fact(FactKind::held_up, stage, attempt.number, "by", to_string(refusal));
    }
  }

  // tend_follower(), of a controller in the job `own`; whether it could.
  bool tend_follower(const std::string& own, bool open) {
    std::vector<LiveJob> live;
    for (const LedgerStage& stage : rig.ledger.stages)
      if (stage.job_open() && !stage.newest()->job.empty()) live.push_back({stage.newest()->job, job_gpus});
    if (rig.ledger.ended) live.clear();
    const FollowerPlan plan = plan_follower(follower, live, own, open && !rig.ledger.ended);
    const auto port = world.slurm.port();
    using Act = FollowerPlan::Act;
    if (plan.act == Act::keep) return true;
    if (plan.act == Act::end) {
      if (!port->cancel(follower.job).ok()) return false;
      follower = {};
      return true;
    }
    if (plan.act == Act::move) {
      const Status moved = port->update(follower.job, {{"dependency", follower_dependency(plan.behind)}});
      if (moved.ok()) {
        follower.behind = plan.behind;
        return true;
      }
      if (moved.error().code == ErrorCode::unavailable) return false;
    }
    SlurmSubmission submission;
    submission.script = world.scratch.file("job.sbatch");
    submission.options = {{"comment", follower_key}};
    if (!plan.behind.empty()) submission.options.emplace_back("dependency", follower_dependency(plan.behind));
    const auto id = port->submit({submission}).front();
    if (!id.ok() && !own.empty() && own == follower.job) return requeued = port->requeue(own, false).ok();
    if (!id.ok()) return false;
    follower = {*id, plan.behind};
    return true;
  }

  // What the lead of a job does when its ranks have ended (make_last_rounds()).
  void last_rounds(const std::string& job) {
    const auto followed = [&] { return std::ranges::count(follower.behind, job) > 0; };
    const std::int64_t begin = world.clock.wall_ms();
    std::int64_t pause_ms = 1'000;
    for (;;) {
      const std::int64_t held_ms = world.clock.wall_ms() - begin;
      const std::int64_t most_ms =
          followed() ? held_followed_ms_max : static_cast<std::int64_t>(held_gpu_minutes_max * 60'000 / job_gpus);
      if (held_ms >= most_ms) break;
      const bool open = tick(most_ms - held_ms - 1'000, true);
      const bool tended = tend_follower(job, open);
      if (!open || (tended && followed())) break;
      pass(std::min(pause_ms, most_ms));
      pause_ms = std::min<std::int64_t>(2 * pause_ms, minute_ms);
    }
    const std::int64_t held_ms = world.clock.wall_ms() - begin;
    longest_held_ms = std::max(longest_held_ms, held_ms);
    held_followed += held_ms <= held_followed_ms_max ? 1 : 0;
    ++leads;
  }

  void pass(std::int64_t ms) {
    world.clock.advance_ms(ms);
    weather.advance(world.slurm, world.clock.wall_ms());
  }

  // Until the run has ended. Nobody but leads and followers makes a round after the first.
  void drive() {
    tend_follower("", tick(15 * minute_ms, false));
    const std::int64_t until = world.clock.wall_ms() + 30LL * 24 * 60 * minute_ms;
    std::set<std::string> began, ended;
    std::string following;
    while (!rig.ledger.ended && world.clock.wall_ms() < until) {
      pass(5'000);
      for (const SlurmJob& job : seen_jobs()) {
        const bool runs = job.state == "RUNNING";
        const std::string life = format("{}.{}", job.id, job.restarts);
        if (job.comment == follower_key && runs && following != life) {
          following = life;
          requeued = false;
          tend_follower(job.id, tick(58 * minute_ms, false));
          if (!requeued) (void)world.slurm.port()->cancel(job.id).ok();
        } else if (job.comment != follower_key && runs && began.insert(job.id).second) {
          tend_follower(job.id, tick(10'000, true));  // the round soon after a costly job's start
        } else if (job.comment != follower_key && job.state == "COMPLETED" && ended.insert(job.id).second) {
          last_rounds(job.id);
        }
      }
      if (rig.ledger.ended || std::ranges::any_of(seen_jobs(), is_live)) continue;
      ++(rig.of("a").newest() && !rig.of("a").newest()->job.empty() ? left_alone : at_login);  // a person asks for it
      tend_follower("", tick(15 * minute_ms, false));
    }
  }
  std::vector<SlurmJob> seen_jobs() {
    const std::int64_t down_until_ms = std::exchange(world.slurm.down_until_ms, 0);  // what happens, happens
    const auto jobs = world.slurm.port()->jobs();
    world.slurm.down_until_ms = down_until_ms;
    return *jobs;
  }

  SlurmWorld world;
  ClusterRig rig;
  PhiloxSequence random;
  Weather weather;
  Follower follower;
  std::map<std::string, std::int64_t> next_try_ms, waited_ms;
  std::set<std::string> reported;
  bool silent = false, requeued = false;
  int refusals = 0, left_alone = 0, at_login = 0, leads = 0, held_followed = 0;
  std::int64_t longest_held_ms = 0;
};

}  // namespace

TEST_CASE(
    "simulation: runs driven by leads lose no stage to refusals, submit none twice, and say what they waited for") {
  const char* asked = std::getenv("LONGHAUL_RUNS");
  const int runs = asked ? std::atoi(asked) : testing::sanitized ? 15 : 200;
  int refusals = 0, left_alone = 0, reported = 0, leads = 0, short_ones = 0;
  std::int64_t longest_held_ms = 0;
  for (int i = 0; i < runs; ++i) {
    const auto seed = static_cast<std::uint64_t>(20261127 + i);
    CAPTURE(seed);
    DrivenRun run(seed);
    run.drive();
    REQUIRE(run.rig.ledger.ended);
    CHECK(run.rig.ledger.state == RunState::succeeded);
    for (const LedgerStage& stage : run.rig.ledger.stages) {
      CAPTURE(stage.id);
      CHECK(stage.state == StageState::succeeded);
      CHECK(stage.attempts.size() == 1);
      CHECK(run.world.slurm.submissions(stage.newest()->key) == 1);
      const auto waited = run.waited_ms.find(stage.newest()->key);
      if (waited != run.waited_ms.end() && waited->second >= refusal_reported_after_ms + minute_ms)
        CHECK(run.reported.contains(stage.newest()->key));
    }
    CHECK(run.longest_held_ms <= static_cast<std::int64_t>(held_gpu_minutes_max * 60'000 / job_gpus) + 1'000);
    refusals += run.refusals, left_alone += run.left_alone, reported += static_cast<int>(run.reported.size());
    leads += run.leads, short_ones += run.held_followed;
    longest_held_ms = std::max(longest_held_ms, run.longest_held_ms);
  }
  MESSAGE(runs << " runs, " << refusals << " refusals, " << reported << " stages reported, " << left_alone
               << " times nobody was left to go on; " << short_ones << " of " << leads
               << " leads left within 12 s, the longest after " << longest_held_ms / 1000 << " s");
  CHECK(left_alone <= std::max(1, runs / 100));  // a silence at the very end of a follower's hour: a person is asked
  CHECK(refusals > runs);
  CHECK(reported > 0);
}

}  // namespace longhaul
