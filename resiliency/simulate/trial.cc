#include "resiliency/simulate/trial.h"

#include <algorithm>
#include <cmath>

#include "resiliency/restart_decision.h"
#include "resiliency/retry_policy.h"
#include "resiliency/saved_progress.h"
#include "resiliency/simulate/fault_draws.h"
#include "resiliency/simulate/sim_hosts.h"
#include "resiliency/simulate/training_progress.h"

namespace longhaul {
namespace {

// Deadlines of former policies: a hang, an agent's silence, ranks that are not gone after SIGKILL.
constexpr double former_hang_s = 45, former_silence_s = 4.5, former_gone_s = 10;

ResiliencySettings settings_of(const Scenario& scenario) {
  ResiliencySettings settings;
  settings.spares = scenario.cluster.spares;
  settings.restarts = scenario.training.restarts;
  settings.host_suspicion = scenario.training.host_suspicion;
  settings.min_replicas = scenario.training.replicas_min;
  return settings;
}

TierOffers offers_of(const Scenario& scenario, const SimHosts& hosts) {
  TierOffers offers;
  const auto offer = [](const SimTier& tier) { return TierOffer{tier.offered, tier.refusal}; };
  const SimRestarts& restart = scenario.restart;
  offers.skip = offer(restart.skip);
  offers.in_process = offer(restart.in_process);
  offers.in_job = offer(restart.in_job);
  offers.swap = offer(restart.swap);
  offers.shrink = offer(restart.shrink);
  offers.new_job = offer(restart.new_job);
  limit_offers(settings_of(scenario), hosts.spares(), offers);
  offers.dp_replicas = hosts.replicas();
  offers.dp_replicas_min = scenario.training.replicas_min;
  offers.dp_replicas_lost_by_host = scenario.training.replicas_by_host;
  return offers;
}

// What lead and controller would remember of faults and ends: the lead's history is of one job, the controller's of all
// since somebody has seen to the training.
class PolicyMemory {
 public:
  // The lead's: what follows this fault.
  TierDecision decide(const FaultView& view, const TierOffers& offers, const ResiliencySettings& settings);
  // The job has ended; whether the controller tries another. If not, an operator does, and all is forgotten.
  bool try_again_after(const FaultView& view, FaultClass fault, bool made_progress);
  // Those that the next job does without.
  std::vector<std::string> suspects(double now_s);

 private:
  TierHistory history_;
  std::vector<std::string> left_;  // by the lead of this job
  std::vector<PastEnd> ends_;
  std::vector<NodeEvidence> evidence_;
};

TierDecision PolicyMemory::decide(const FaultView& view, const TierOffers& offers, const ResiliencySettings& settings) {
  RestartDecision decided = decide_restart(view, std::move(history_), offers, settings);
  history_ = std::move(decided.history);
  const std::vector<std::string>& leave = decided.decision.hosts_to_leave;
  left_.insert(left_.end(), leave.begin(), leave.end());
  return std::move(decided.decision);
}

bool PolicyMemory::try_again_after(const FaultView& view, FaultClass fault, bool made_progress) {
  const std::string lost = view.hosts_lost.empty() ? std::string() : view.hosts_lost.front();
  add_evidence({lost, fault, view.at_ms, "the simulated job", view.cause, left_}, evidence_);
  history_.clear(), left_.clear();
  ends_.push_back({fault, view.cause, made_progress, lost});
  RetryBudgets budgets;
  budgets.resumable = budgets.can_exclude = true;
  const bool again = decide_retry(ends_, budgets).again;
  if (!again) ends_.clear();
  return again;
}

std::vector<std::string> PolicyMemory::suspects(double now_s) {
  constexpr std::int64_t suspicion_ms = 24 * 3'600'000;
  std::vector<std::string> names;
  for (const NodeSuspicion& suspect : suspect_nodes(evidence_, simulated_ms(now_s), suspicion_ms))
    names.push_back(suspect.node);
  std::erase_if(evidence_,
                [&](const NodeEvidence& seen) { return simulated_ms(now_s) - seen.at_ms > 16 * suspicion_ms; });
  return names;
}

// A training begins without a checkpoint. Anything that ranks may go on from, copies on the nodes among it; whole
// checkpoints, as the lead sees them at each fault, and as the controller does at each end of a job.
struct SeenProgress {
  SavedProgress copies{0}, checkpoints{0}, at_ends{0};
};

class Trial {
 public:
  Trial(const Scenario& scenario, FaultDraws draws, double interval_s, bool with_days, const FormerPolicies& former)
      : scenario_(scenario),
        former_(former),
        with_days_(with_days),
        settings_(settings_of(scenario)),
        draws_(std::move(draws)),
        hosts_(scenario),
        training_(scenario, interval_s) {}

  SimulatedTrial run();

 private:
  using Kind = GoodputFact::Kind;

  void meet_fault(double fault_s);
  FaultView view_of(const SimFault& kind, int host, double verdict_s) const;
  void stand_still(const SimFault& kind, int host, double fault_s);
  void judge(const SimFault& kind, FaultView view, double fault_s, double verdict_s, double not_before_s = 0);
  void recover(const SimFault& kind, const FaultView& view, const TierDecision& decision, double fault_s,
               double verdict_s, double not_before_s);
  double queue_for(const SimFault& kind, const FaultView& view, RestartTier& tier);
  void start_new_job(double queue_s);
  void go_on_when_ready();
  void take_hosts_back();
  bool last_write_ends() const;
  SimulatedTrial result();

  const Scenario& scenario_;
  const FormerPolicies former_;
  const bool with_days_;
  const ResiliencySettings settings_;
  FaultDraws draws_;
  SimHosts hosts_;
  TrainingProgress training_;
  PolicyMemory memory_;
  SeenProgress seen_;
  SimulatedTrial result_;

  double next_fault_s_ = 0, busy_until_s_ = 0;
  double load_s_ = 0;        // of the recovery that ends at busy_until_s_
  bool recovering_ = false;  // another fault came before that
};

// A kind without a class has a group of its own, and a cause by its name.
FaultView Trial::view_of(const SimFault& kind, int host, double verdict_s) const {
  DiagnosedFault found;
  found.fault = kind.stands_for();
  found.scope = kind.scope_of();
  if (kind.culprit) {
    found.rank = host * scenario_.cluster.gpus_per_host;
    found.host = sim_host_name(host);
  }
  found.cause = accuses_host(found.scope) ? kind.name + " of " + found.host : kind.name;
  if (kind.loses_host) found.host_lost = found.host;
  found.of_shared_storage = kind.is_of_storage();
  if (found.fault == FaultClass::slow_rank) found.slow_host = found.host;
  found.of_sums = found.fault == FaultClass::silent_corruption;
  found.at_ms = simulated_ms(verdict_s);
  FaultView view = longhaul::view_of(found, settings_);
  if (kind.loses_host) view.hosts_lost = hosts_.side_by_side(host, kind.hosts);
  if (kind.fault_class.empty()) view.fault = kind.name, view.group = kind.group_of_budget();
  if (kind.lasts.value > 0) view.accuses = Accusation::never;
  view.all_ranks_alive = kind.all_ranks_alive;
  view.skippable = kind.skippable;
  return view;
}

void Trial::meet_fault(double fault_s) {
  const SimFault& kind = draws_.kind();
  const int host = draws_.host(hosts_);
  ++result_.faults;
  if (kind.lasts.value > 0) return stand_still(kind, host, fault_s);
  training_.review();
  // A fault that comes before the verdict of the one before is looked at after it.
  const double verdict_s = std::max(training_.now_s(), fault_s + kind.detect.value);
  judge(kind, view_of(kind, host, verdict_s), fault_s, verdict_s);
}

// What passes by itself. Where it takes too long, the ranks are ended and loaded again when it is over.
void Trial::stand_still(const SimFault& kind, int host, double fault_s) {
  const bool of_files = kind.is_of_storage();
  const double lasts_s = kind.lasts.value, over_s = std::max(training_.now_s(), fault_s) + lasts_s;
  ++result_.standstills;
  if (of_files) training_.files_stand_still(fault_s, lasts_s);
  if (former_.standstill_is_a_fault || lasts_s > scenario_.training.patience.value) {
    const double former_s = (of_files ? former_hang_s : former_silence_s) + former_gone_s;
    const double patience_s = former_.standstill_is_a_fault ? former_s : scenario_.training.patience.value;
    const double verdict_s = std::max(training_.now_s(), fault_s + patience_s);
    FaultView view = view_of(kind, host, verdict_s);
    if (former_.standstill_is_a_fault)
      view.hosts_lost = of_files ? hosts_.running_names() : hosts_.side_by_side(host, kind.hosts);
    training_.review();
    return judge(kind, view, fault_s, verdict_s, over_s);
  }
  next_fault_s_ = draws_.next_after(fault_s, hosts_);
  if (recovering_) {
    busy_until_s_ += lasts_s;
    return go_on_when_ready();
  }
  training_.report(Kind::stalled, over_s, over_s - training_.now_s());
  training_.wait_until(over_s);
}

void Trial::judge(const SimFault& kind, FaultView view, double fault_s, double verdict_s, double not_before_s) {
  GoodputFact fact = training_.fault(fault_s, verdict_s);
  const bool copied = seen_.copies.saw(training_.newest_copy(fault_s));
  view.saved_checkpoint = seen_.checkpoints.saw(training_.global().whole(fault_s));
  view.made_progress = former_.anything_is_progress || copied || view.saved_checkpoint;
  view.recent = training_.recent_with(fact, verdict_s);
  const TierDecision decision = memory_.decide(view, offers_of(scenario_, hosts_), settings_);
  fact.processes_stay = decision.tier <= RestartTier::in_process;
  training_.add(fact);
  recover(kind, view, decision, fault_s, verdict_s, not_before_s);
}

// For how long nothing runs before a new job starts. Also after a lead's stop the controller is asked, whose budgets
// are its own; where it tries no other job, somebody has to.
double Trial::queue_for(const SimFault& kind, const FaultView& view, RestartTier& tier) {
  if (tier != RestartTier::new_job && tier != RestartTier::stop) return 0;
  double queue_s = 0;
  const bool further = seen_.at_ends.saw(seen_.checkpoints.newest()) || former_.anything_is_progress;
  if (!memory_.try_again_after(view, kind.stands_for(), further)) {
    tier = RestartTier::stop;
    ++result_.operators;
    queue_s = scenario_.training.operator_s.value;
  }
  return queue_s + scenario_.restart.new_job.queue.value;
}

void Trial::start_new_job(double queue_s) {
  training_.report(Kind::job_ended);
  const double started_s = training_.now_s() + queue_s;
  training_.report(Kind::submitted, started_s - scenario_.restart.new_job.queue.value);
  training_.wait_until(started_s);
  training_.report(Kind::job_started);
  training_.begin_job();
  hosts_.renew(memory_.suspects(started_s));
  // Nothing of ours was there to fail while the job waited.
  if (next_fault_s_ < started_s) next_fault_s_ = draws_.next_after(started_s, hosts_);
}

void Trial::recover(const SimFault& kind, const FaultView& view, const TierDecision& decision, double fault_s,
                    double verdict_s, double not_before_s) {
  RestartTier tier = decision.tier;
  const double queue_s = queue_for(kind, view, tier);
  ++result_.tiers[static_cast<std::size_t>(tier)];
  const SimTier& costs = scenario_.restart.of(tier);
  result_.hosts_left += hosts_.leave(decision.hosts_to_leave, tier, training_.now_s());
  next_fault_s_ = draws_.next_after(fault_s, hosts_);
  training_.wait_until(verdict_s + costs.stop.value);
  if (tier >= RestartTier::in_job) training_.report(Kind::ranks_ended);
  if (tier >= RestartTier::new_job) start_new_job(queue_s);
  training_.run_with(hosts_.replicas());
  const bool from_memory = scenario_.saves.memory.enabled && costs.copy == "memory" && tier < RestartTier::new_job;
  const std::int64_t lost = tier == RestartTier::skip ? training_.leave_step_out() : training_.go_back(from_memory);
  result_.lost_steps += lost;
  load_s_ = costs.load.value;
  busy_until_s_ = std::max(training_.now_s() + costs.start.value, not_before_s) + load_s_;
  if (draws_.is_played())
    result_.decisions.push_back({view, decision.hosts_to_leave, tier, decision.reason, lost, busy_until_s_ - fault_s});
  recovering_ = true;
  go_on_when_ready();
}

// Another fault may come first: the loading is reported when it is done.
void Trial::go_on_when_ready() {
  recovering_ = busy_until_s_ > next_fault_s_;
  if (recovering_) return training_.wait_until(std::max(training_.now_s(), next_fault_s_));
  training_.wait_until(busy_until_s_);
  training_.report(Kind::ready, busy_until_s_, load_s_, training_.step());
}

// Whether the last save comes to its end: where that was a hang, three launches did not, and then somebody had to.
bool Trial::last_write_ends() const {
  const double act_s = std::max({former_hang_s, 5 * training_.global().stall_s(), 2.5 * scenario_.training.step.value});
  return !former_.last_write_is_a_hang || training_.global().write_s() <= act_s;
}

// A shrunken training takes its hosts back: a save, then a restart in which nothing is lost.
void Trial::take_hosts_back() {
  hosts_.take_back_repaired(training_.now_s());
  if (!hosts_.grow()) return;
  training_.run_with(hosts_.replicas());
  training_.restart_after_save(scenario_.restart.swap);
}

SimulatedTrial Trial::run() {
  constexpr double day_s = 86'400;
  const double length_s = scenario_.training.length.value;
  next_fault_s_ = draws_.next_after(0, hosts_);
  training_.report(Kind::ready, 0, 0, 0);
  double next_day_s = day_s;
  while (training_.now_s() < length_s) {
    if (next_fault_s_ <= training_.now_s()) {
      meet_fault(next_fault_s_);
      continue;
    }
    training_.train_until(
        std::min({length_s, next_fault_s_, training_.next_review_s(), hosts_.next_growth_s(training_.now_s())}));
    if (training_.now_s() >= training_.next_review_s()) training_.review();
    if (training_.now_s() < next_fault_s_) take_hosts_back();
    for (; with_days_ && next_day_s <= training_.now_s(); next_day_s += day_s)
      result_.days.push_back({next_day_s / day_s, training_.effective_after(training_.now_s())});
  }
  return result();
}

SimulatedTrial Trial::result() {
  training_.end();
  result_.ends = last_write_ends();
  result_.steps = training_.furthest();
  result_.effective = training_.effective_after(scenario_.training.length.value);
  for (int time = 0; time < time_classes; ++time)
    result_.shares[static_cast<std::size_t>(time)] = training_.ledger().share(static_cast<TimeClass>(time));
  result_.interval_s = training_.interval_s();
  return std::move(result_);
}

}  // namespace

SimulatedTrial run_trial(const Scenario& scenario, std::uint64_t seed, int trial, double interval_s, bool with_days,
                         const FormerPolicies& former) {
  return Trial(scenario, FaultDraws(scenario, seed, trial), interval_s, with_days, former).run();
}

SimulatedTrial play_faults(const Scenario& scenario, std::vector<PlayedFault> faults) {
  return Trial(scenario, FaultDraws(scenario, std::move(faults)), 0, false, {}).run();
}

}  // namespace longhaul
