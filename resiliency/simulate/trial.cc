#include "resiliency/simulate/trial.h"

#include <algorithm>
#include <cmath>

#include "resiliency/retry_policy.h"
#include "resiliency/saved_progress.h"
#include "resiliency/simulate/fault_draws.h"
#include "resiliency/simulate/sim_hosts.h"
#include "resiliency/simulate/training_progress.h"

namespace longhaul {
namespace {

constexpr std::size_t history_kept = 400;  // restarts; older ones use up no budget

// Deadlines of former policies: a hang, an agent's silence, ranks that are not gone after SIGKILL.
constexpr double former_hang_s = 45, former_silence_s = 4.5, former_gone_s = 10;
constexpr const char* file_system = "file_system";

// A rank's, where the scenario says the shared file system: no class of the real table has that scope.
FaultScope scope_named(const std::string& name) {
  for (int scope = 0; scope <= static_cast<int>(FaultScope::user); ++scope)
    if (name == to_string(static_cast<FaultScope>(scope))) return static_cast<FaultScope>(scope);
  return FaultScope::rank;
}
FaultGroup group_named(const std::string& name) {
  if (name == "application") return FaultGroup::application;
  if (name == "preemption") return FaultGroup::preemption;
  return name == "memory" ? FaultGroup::memory : FaultGroup::infrastructure;
}
FaultClass class_of(FaultGroup group) {
  if (group == FaultGroup::application) return FaultClass::program;
  if (group == FaultGroup::preemption) return FaultClass::preempted;
  return group == FaultGroup::memory ? FaultClass::out_of_memory : FaultClass::node_fail;
}

// A kind of a scenario names no class of the table: what happens to a process or a machine may be the host's fault.
Accusation accusation_of(const FaultView& view) {
  if (view.group == FaultGroup::memory) return Accusation::never;
  return view.scope == FaultScope::rank || accuses_host(view.scope) ? Accusation::doubtful : Accusation::never;
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
  offers.spares_left = hosts.spares();
  offers.dp_replicas = hosts.replicas();
  offers.dp_replicas_min = scenario.training.replicas_min;
  offers.dp_replicas_lost_by_host = scenario.training.replicas_by_host;
  return offers;
}

// What lead and controller would remember of faults and ends.
class PolicyMemory {
 public:
  const TierHistory& history() const { return history_; }
  void remember(const FaultView& view, RestartTier tier);
  // The job has ended; whether the controller tries another. If not, an operator does, and all is forgotten.
  bool try_again_after(const FaultView& view);
  void forget() { ends_.clear(), history_.clear(); }
  std::vector<std::string> suspects(double now_s);

 private:
  TierHistory history_;
  std::vector<PastEnd> ends_;
  std::vector<NodeEvidence> evidence_;
};

void PolicyMemory::remember(const FaultView& view, RestartTier tier) {
  history_.push_back(past_restart(view, tier));
  if (history_.size() > 2 * history_kept)
    history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(history_kept));
  if (view.accuses != Accusation::never)
    for (const std::string& host : view.hosts_lost)
      evidence_.push_back({host, FaultClass::node_fail, view.at_ms, view.fault, view.cause});
  if (view.hosts_lost.empty() && accuses_host(view.scope) && view.accuses != Accusation::never)
    evidence_.push_back({view.host, FaultClass::node_fail, view.at_ms, view.fault, view.cause});
  else if (view.hosts_lost.empty() && view.accuses == Accusation::doubtful)
    evidence_.push_back({view.host, FaultClass::crash, view.at_ms, view.fault, view.cause});
}

bool PolicyMemory::try_again_after(const FaultView& view) {
  ends_.push_back({class_of(view.group), view.cause, view.made_progress, view.host});
  RetryBudgets budgets;
  budgets.resumable = budgets.can_exclude = true;
  return decide_retry(ends_, budgets).again;
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

class Trial {
 public:
  Trial(const Scenario& scenario, std::uint64_t seed, int trial, double interval_s, bool with_days,
        const FormerPolicies& former)
      : scenario_(scenario),
        former_(former),
        with_days_(with_days),
        draws_(scenario, seed, trial),
        hosts_(scenario),
        training_(scenario, interval_s) {}

  SimulatedTrial run();

 private:
  using Kind = GoodputFact::Kind;

  void meet_fault(double fault_s);
  FaultView view_of(const SimFault& kind, int host, double verdict_s) const;
  void stand_still(const SimFault& kind, int host, double fault_s);
  void judge(FaultView view, double fault_s, double verdict_s, double not_before_s = 0);
  void recover(const FaultView& view, const TierDecision& decision, double fault_s, double verdict_s,
               double not_before_s);
  double queue_for(const FaultView& view, RestartTier& tier);
  void start_new_job(double queue_s);
  void go_on_when_ready();
  void take_hosts_back();
  bool last_write_ends() const;
  SimulatedTrial result();

  const Scenario& scenario_;
  const FormerPolicies former_;
  const bool with_days_;
  FaultDraws draws_;
  SimHosts hosts_;
  TrainingProgress training_;
  PolicyMemory memory_;
  SavedProgress progress_{0};  // a training begins without a checkpoint
  SimulatedTrial result_;

  double next_fault_s_ = 0, busy_until_s_ = 0;
  double load_s_ = 0;        // of the recovery that ends at busy_until_s_
  bool recovering_ = false;  // another fault came before that
};

FaultView Trial::view_of(const SimFault& kind, int host, double verdict_s) const {
  FaultView view;
  view.fault = kind.name;
  view.group = group_named(kind.group);
  view.scope = scope_named(kind.scope);
  view.rank = host * scenario_.cluster.gpus_per_host;
  view.host = sim_host_name(host);
  if (kind.loses_host) view.hosts_lost = hosts_.side_by_side(host, kind.hosts);
  view.all_ranks_alive = kind.all_ranks_alive;
  view.skippable = kind.skippable;
  view.cause = accuses_host(view.scope) || kind.loses_host ? kind.name + " of " + view.host : kind.name;
  view.accuses = kind.lasts.value > 0 ? Accusation::never : accusation_of(view);
  view.at_ms = simulated_ms(verdict_s);
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
  judge(view_of(kind, host, verdict_s), fault_s, verdict_s);
}

// What passes by itself. Where it takes too long, the ranks are ended and loaded again when it is over.
void Trial::stand_still(const SimFault& kind, int host, double fault_s) {
  const bool of_files = kind.scope == file_system;
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
    return judge(view, fault_s, verdict_s, over_s);
  }
  next_fault_s_ = draws_.next_after(fault_s, hosts_);
  if (recovering_) {
    busy_until_s_ += lasts_s;
    return go_on_when_ready();
  }
  training_.report(Kind::stalled, over_s, over_s - training_.now_s());
  training_.wait_until(over_s);
}

void Trial::judge(FaultView view, double fault_s, double verdict_s, double not_before_s) {
  GoodputFact fact = training_.fault(fault_s, verdict_s);
  const bool further = progress_.saw(training_.global().whole(fault_s));
  view.made_progress = former_.anything_is_progress || further;
  view.recent = training_.recent_with(fact, verdict_s);
  const TierDecision decision = decide_tier(view, memory_.history(), offers_of(scenario_, hosts_));
  fact.processes_stay = decision.tier <= RestartTier::in_process;
  training_.add(fact);
  recover(view, decision, fault_s, verdict_s, not_before_s);
}

// For how long nothing runs before a new job starts; a stop, where the controller tries no other one, needs somebody.
double Trial::queue_for(const FaultView& view, RestartTier& tier) {
  if (tier != RestartTier::new_job && tier != RestartTier::stop) return 0;
  double queue_s = 0;
  const bool again = memory_.try_again_after(view);
  if (tier == RestartTier::stop || !again) {
    tier = RestartTier::stop;
    ++result_.operators;
    queue_s = scenario_.training.operator_s.value;
    memory_.forget();
  }
  return queue_s + scenario_.restart.new_job.queue.value;
}

void Trial::start_new_job(double queue_s) {
  training_.report(Kind::job_ended);
  const double started_s = training_.now_s() + queue_s;
  training_.report(Kind::submitted, started_s - scenario_.restart.new_job.queue.value);
  training_.wait_until(started_s);
  training_.report(Kind::job_started);
  hosts_.renew(memory_.suspects(started_s));
  // Nothing of ours was there to fail while the job waited.
  if (next_fault_s_ < started_s) next_fault_s_ = draws_.next_after(started_s, hosts_);
}

void Trial::recover(const FaultView& view, const TierDecision& decision, double fault_s, double verdict_s,
                    double not_before_s) {
  RestartTier tier = decision.tier;
  memory_.remember(view, tier);
  const double queue_s = queue_for(view, tier);
  ++result_.tiers[static_cast<std::size_t>(tier)];
  const SimTier& costs = scenario_.restart.of(tier);
  result_.hosts_left += hosts_.leave(decision.hosts_to_leave, tier, training_.now_s());
  next_fault_s_ = draws_.next_after(fault_s, hosts_);
  training_.wait_until(verdict_s + costs.stop.value);
  if (tier >= RestartTier::in_job) training_.report(Kind::ranks_ended);
  if (tier >= RestartTier::new_job) start_new_job(queue_s);
  training_.run_with(hosts_.replicas());
  result_.lost_steps +=
      training_.go_back(scenario_.saves.memory.enabled && costs.copy == "memory" && tier < RestartTier::new_job);
  load_s_ = costs.load.value;
  busy_until_s_ = std::max(training_.now_s() + costs.start.value, not_before_s) + load_s_;
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
  return Trial(scenario, seed, trial, interval_s, with_days, former).run();
}

}  // namespace longhaul
