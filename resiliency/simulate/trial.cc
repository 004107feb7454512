#include "resiliency/simulate/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "resiliency/checkpoint_interval.h"
#include "resiliency/retry_policy.h"
#include "resiliency/saved_progress.h"
#include "resiliency/simulate/save_clock.h"
#include "resiliency/taxonomy/goodput_floor.h"

namespace longhaul {
namespace {

constexpr double review_s = 1800;          // how often what was measured is told to a chooser
constexpr std::size_t history_kept = 400;  // restarts; older ones use up no budget
constexpr double never = std::numeric_limits<double>::infinity();

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

struct HostBack {
  double at_s = 0;
  int host = 0;
};

class Trial {
 public:
  Trial(const Scenario& scenario, std::uint64_t seed, int trial, double interval_s, bool with_days,
        const FormerPolicies& former)
      : scenario_(scenario),
        former_(former),
        times_(seed, 4 * static_cast<std::uint64_t>(trial)),
        kinds_(seed, 4 * static_cast<std::uint64_t>(trial) + 1),
        hosts_(seed, 4 * static_cast<std::uint64_t>(trial) + 2),
        base_step_s_(scenario.training.step.value),
        length_s_(scenario.training.length.value),
        mtbf_s_(scenario.mtbf_s()),
        memory_(scenario.saves.memory, prior_s(), base_step_s_, interval_s),
        // Without copies in memory checkpoints are the most frequent saves, and every fault needs one.
        global_(scenario.saves.global, scenario.saves.memory.enabled ? 4 * prior_s() : prior_s(), base_step_s_,
                scenario.saves.memory.enabled ? 0 : interval_s),
        replicas_(scenario.training.replicas),
        with_days_(with_days),
        ledger_(0, false) {
    for (int host = 0; host < scenario.hosts(); ++host) running_.push_back(host);
    next_host_ = scenario.hosts();
    for (int i = 0; i < scenario.cluster.spares; ++i) spares_.push_back(next_host_++);
    lemons_ = static_cast<int>(std::lround(scenario.cluster.lemon_share * scenario.hosts()));
  }

  SimulatedTrial run();

 private:
  double prior_s() const { return failure_prior_s(scenario_.hosts()); }
  std::int64_t ms(double at_s) const { return std::llround(at_s * 1e3); }
  double step_s() const { return base_step_s_ * scenario_.training.replicas / replicas_; }
  bool is_lemon(int host) const { return host < lemons_; }
  static std::string host_name(int host) { return format("h{}", host); }
  static int host_named(const std::string& name) { return std::stoi(name.substr(1)); }
  double exponential() { return -mtbf_s_ * std::log1p(-times_.next_uniform()); }
  double hazard() const;
  double next_fault_after(double at_s);

  void tell(GoodputFact::Kind kind, double at_s, double part_s = 0, std::int64_t step = -1);
  void train_until(double limit_s);
  void train_whole_cycles(double limit_s);
  void train_some_steps(double limit_s, std::int64_t steps);
  void save(SaveClock& saves, double limit_s);
  void review();
  void meet_fault(double fault_s);
  const SimFault& draw_kind();
  int draw_host();
  FaultView view_of(const SimFault& kind, int host, double verdict_s);
  std::vector<std::string> hosts_hit(const SimFault& kind, int host) const;
  std::vector<std::string> all_hosts() const;
  bool made_progress(double now_s);
  void stand_still(const SimFault& kind, int host, double fault_s);
  void judge(FaultView view, double fault_s, double verdict_s, double not_before_s = 0);
  void go_on_when_ready();
  bool last_write_ends() const;
  TierOffers offers() const;
  void recover(const FaultView& view, const TierDecision& decision, double fault_s, double verdict_s,
               double not_before_s);
  void leave(const std::vector<std::string>& names, RestartTier tier);
  void remember(const FaultView& view, RestartTier tier);
  bool new_job_allowed() const;
  void fresh_job(double now_s);
  void hosts_come_back();
  void grow();

  const Scenario& scenario_;
  const FormerPolicies former_;
  PhiloxSequence times_, kinds_, hosts_;
  double base_step_s_, length_s_, mtbf_s_;
  SaveClock memory_, global_;
  int replicas_;
  bool with_days_;
  GoodputLedger ledger_;
  GoodputWindow window_;  // of it

  double now_s_ = 0, into_step_s_ = 0, next_fault_s_ = 0, reviewed_s_ = 0, steps_s_ = 0, busy_until_s_ = 0;
  double load_s_ = 0;        // of the recovery that ends at busy_until_s_
  bool recovering_ = false;  // another fault came before that
  std::int64_t step_ = 0, furthest_ = 0, reviewed_step_ = 0;
  SavedProgress progress_{0};  // a training begins without a checkpoint
  std::vector<int> running_, spares_;
  std::vector<HostBack> repairs_;
  int lemons_ = 0, next_host_ = 0, missing_ = 0;
  TierHistory history_;
  std::vector<PastEnd> ends_;
  std::vector<NodeEvidence> evidence_;
  SimulatedTrial result_;
};

void Trial::tell(GoodputFact::Kind kind, double at_s, double part_s, std::int64_t step) {
  if (at_s > length_s_) return ledger_.advance_to(ms(length_s_));
  GoodputFact fact;
  fact.at_ms = ms(at_s);
  fact.kind = kind;
  fact.part_ms = std::llround(part_s * 1e3);
  fact.step = step;
  ledger_.add(fact);
}

void Trial::train_some_steps(double limit_s, std::int64_t steps) {
  // At most `steps`, as far as time goes; what is left of a step is carried on.
  const double available_s = into_step_s_ + limit_s - now_s_;
  const double one_s = step_s();
  const std::int64_t done = std::min<std::int64_t>(steps, static_cast<std::int64_t>(available_s / one_s + 1e-9));
  const double used_s =
      done < steps ? limit_s - now_s_ : std::max(0.0, static_cast<double>(done) * one_s - into_step_s_);
  into_step_s_ = done < steps ? std::max(0.0, available_s - static_cast<double>(done) * one_s) : 0;
  now_s_ += used_s;
  steps_s_ += used_s;
  step_ += done;
  if (done > 0) tell(GoodputFact::Kind::step, now_s_ - into_step_s_, 0, step_);
}

// One that finds the one before unfinished waits for its end first.
void Trial::save(SaveClock& saves, double limit_s) {
  const double wait_s = std::max(0.0, saves.whole_at_s() - now_s_), all_s = wait_s + saves.stall_s();
  const double begun_s = now_s_ + wait_s, stall_s = std::min(all_s, limit_s - now_s_);
  now_s_ += stall_s;
  tell(GoodputFact::Kind::stalled, now_s_, stall_s);
  if (now_s_ < limit_s || stall_s == all_s) saves.saved(step_, begun_s);
}

// Many intervals of the most frequent saves at once: nothing happens in them but steps and saves.
void Trial::train_whole_cycles(double limit_s) {
  SaveClock& saves = memory_.enabled() ? memory_ : global_;
  if (into_step_s_ > 0 || saves.due_step() - step_ != saves.every_steps()) return;
  const double steps_s = static_cast<double>(saves.every_steps()) * step_s(), cycle_s = steps_s + saves.stall_s();
  if (cycle_s < saves.write_s() || saves.whole_at_s() > now_s_ + steps_s) return;  // one waits for the other
  auto cycles = static_cast<std::int64_t>((limit_s - now_s_) / cycle_s) - 1;
  if (&saves != &global_) {
    const std::int64_t left = global_.due_step() - step_;
    cycles = std::min(cycles, left / saves.every_steps() - 1);
  }
  if (cycles < 2) return;
  const auto count = static_cast<double>(cycles);
  const double stalled_s = (count - 1) * saves.stall_s();
  now_s_ += count * steps_s + stalled_s;
  steps_s_ += count * steps_s;
  step_ += cycles * saves.every_steps();
  tell(GoodputFact::Kind::stalled, now_s_, stalled_s);
  tell(GoodputFact::Kind::step, now_s_, 0, step_);
  // The one before the last is whole, or would have been waited for; the last follows as one of its own.
  saves.back_to(step_ - saves.every_steps());
}

void Trial::train_until(double limit_s) {
  while (now_s_ < limit_s) {
    const std::int64_t due = std::min(memory_.due_step(), global_.due_step());
    if (step_ >= due) {
      if (step_ >= global_.due_step()) save(global_, limit_s);
      if (now_s_ < limit_s && step_ >= memory_.due_step()) save(memory_, limit_s);
      continue;
    }
    train_whole_cycles(limit_s);
    if (now_s_ < limit_s) train_some_steps(limit_s, std::min(memory_.due_step(), global_.due_step()) - step_);
  }
  furthest_ = std::max(furthest_, step_);
}

void Trial::review() {
  const double seconds = now_s_ - reviewed_s_;
  const std::int64_t steps = std::max<std::int64_t>(0, step_ - reviewed_step_);
  window_.note(ms(now_s_), ledger_.ms(TimeClass::training));
  if (seconds > 0)
    for (SaveClock* saves : {&memory_, &global_}) saves->ran(seconds, steps, steps > 0 ? steps_s_ : 0);
  reviewed_s_ = now_s_, reviewed_step_ = step_, steps_s_ = 0;
}

const SimFault& Trial::draw_kind() {
  double left = kinds_.next_uniform() / mtbf_s_;
  for (const SimFault& fault : scenario_.faults)
    if ((left -= scenario_.faults_per_s(fault)) < 0) return fault;
  return scenario_.faults.back();
}

// Of the rate with every lemon in place: a lemon that was left fails no more.
double Trial::hazard() const {
  const double factor = scenario_.cluster.lemon_factor;
  const auto lemons = std::count_if(running_.begin(), running_.end(), [&](int host) { return is_lemon(host); });
  const double now = factor * static_cast<double>(lemons) + static_cast<double>(scenario_.hosts() - lemons);
  return now / (factor * lemons_ + scenario_.hosts() - lemons_);
}

double Trial::next_fault_after(double at_s) {
  do at_s += exponential();
  while (lemons_ > 0 && hosts_.next_uniform() >= hazard());
  return at_s;
}

int Trial::draw_host() {
  const double lemon = scenario_.cluster.lemon_factor;
  // By rejection: a sound host is kept as often as it weighs less than a lemon.
  for (int tries = 0; tries < 1000; ++tries) {
    const int host = running_[hosts_.next_below(running_.size())];
    if (lemon <= 1 || is_lemon(host) || hosts_.next_uniform() * lemon < 1) return host;
  }
  return running_.front();
}

// Of a rack, or of a switch: those of the hosts that run.
std::vector<std::string> Trial::hosts_hit(const SimFault& kind, int host) const {
  std::vector<std::string> names;
  for (const int other : running_)
    if (other / kind.hosts == host / kind.hosts) names.push_back(host_name(other));
  return names;
}

std::vector<std::string> Trial::all_hosts() const {
  std::vector<std::string> names;
  for (const int host : running_) names.push_back(host_name(host));
  return names;
}

bool Trial::made_progress(double now_s) {
  const bool further = progress_.saw(global_.whole(now_s));
  return former_.anything_is_progress || further;
}

FaultView Trial::view_of(const SimFault& kind, int host, double verdict_s) {
  FaultView view;
  view.fault = kind.name;
  view.group = group_named(kind.group);
  view.scope = scope_named(kind.scope);
  view.rank = host * scenario_.cluster.gpus_per_host;
  view.host = host_name(host);
  if (kind.loses_host) view.hosts_lost = hosts_hit(kind, host);
  view.all_ranks_alive = kind.all_ranks_alive;
  view.skippable = kind.skippable;
  view.cause = accuses_host(view.scope) || kind.loses_host ? kind.name + " of " + view.host : kind.name;
  view.accuses = kind.lasts.value > 0 ? Accusation::never : accusation_of(view);
  view.at_ms = ms(verdict_s);
  return view;
}

TierOffers Trial::offers() const {
  TierOffers offers;
  const auto offer = [](const SimTier& tier) { return TierOffer{tier.offered, tier.refusal}; };
  const SimRestarts& restart = scenario_.restart;
  offers.skip = offer(restart.skip);
  offers.in_process = offer(restart.in_process);
  offers.in_job = offer(restart.in_job);
  offers.swap = offer(restart.swap);
  offers.shrink = offer(restart.shrink);
  offers.new_job = offer(restart.new_job);
  offers.spares_left = static_cast<int>(spares_.size());
  offers.dp_replicas = replicas_;
  offers.dp_replicas_min = scenario_.training.replicas_min;
  offers.dp_replicas_lost_by_host = scenario_.training.replicas_by_host;
  return offers;
}

void Trial::leave(const std::vector<std::string>& names, RestartTier tier) {
  for (const std::string& name : names) {
    const auto host = std::find(running_.begin(), running_.end(), host_named(name));
    if (host == running_.end()) continue;
    repairs_.push_back({now_s_ + scenario_.cluster.repair.value, *host});
    ++result_.hosts_left;
    if (tier == RestartTier::swap && !spares_.empty()) {
      *host = spares_.back();
      spares_.pop_back();
    } else {
      running_.erase(host);
      ++missing_;
      replicas_ = std::max(scenario_.training.replicas_min, replicas_ - scenario_.training.replicas_by_host);
    }
  }
}

void Trial::remember(const FaultView& view, RestartTier tier) {
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

bool Trial::new_job_allowed() const {
  RetryBudgets budgets;
  budgets.resumable = budgets.can_exclude = true;
  return decide_retry(ends_, budgets).again;
}

// All hosts and spares anew, without those that the controller suspects; a suspect's place takes another of the site.
void Trial::fresh_job(double now_s) {
  constexpr std::int64_t suspicion_ms = 24 * 3'600'000;
  std::set<int> suspects;
  for (const NodeSuspicion& suspect : suspect_nodes(evidence_, ms(now_s), suspicion_ms))
    suspects.insert(host_named(suspect.node));
  std::erase_if(evidence_, [&](const NodeEvidence& seen) { return ms(now_s) - seen.at_ms > 16 * suspicion_ms; });
  for (int& host : running_)
    if (suspects.contains(host)) host = next_host_++;
  while (static_cast<int>(running_.size()) < scenario_.hosts()) running_.push_back(next_host_++);
  spares_.clear();
  for (int i = 0; i < scenario_.cluster.spares; ++i) spares_.push_back(next_host_++);
  repairs_.clear();
  missing_ = 0;
  replicas_ = scenario_.training.replicas;
}

void Trial::recover(const FaultView& view, const TierDecision& decision, double fault_s, double verdict_s,
                    double not_before_s) {
  using Kind = GoodputFact::Kind;
  RestartTier tier = decision.tier;
  double queue_s = 0;
  remember(view, tier);
  if (tier == RestartTier::new_job || tier == RestartTier::stop) {
    ends_.push_back({class_of(view.group), view.cause, view.made_progress, view.host});
    if (tier == RestartTier::stop || !new_job_allowed()) {
      tier = RestartTier::stop;
      ++result_.operators;
      queue_s = scenario_.training.operator_s.value;
      ends_.clear();
      history_.clear();
    }
    queue_s += scenario_.restart.new_job.queue.value;
  }
  ++result_.tiers[static_cast<std::size_t>(tier)];
  const SimTier& costs = scenario_.restart.of(tier);
  leave(decision.hosts_to_leave, tier);
  next_fault_s_ = next_fault_after(fault_s);
  now_s_ = verdict_s + costs.stop.value;
  if (tier >= RestartTier::in_job) tell(Kind::ranks_ended, now_s_);
  if (tier >= RestartTier::new_job) {
    tell(Kind::job_ended, now_s_);
    tell(Kind::submitted, now_s_ + queue_s - scenario_.restart.new_job.queue.value);
    now_s_ += queue_s;
    tell(Kind::job_started, now_s_);
    fresh_job(now_s_);
    // Nothing of ours was there to fail while the job waited.
    if (next_fault_s_ < now_s_) next_fault_s_ = next_fault_after(now_s_);
  }
  const bool from_memory = memory_.enabled() && costs.copy == "memory" && tier < RestartTier::new_job;
  const std::int64_t restored = std::max(global_.whole(now_s_), from_memory ? memory_.whole(now_s_) : 0);
  if (!from_memory) global_.failed();
  memory_.failed();
  memory_.back_to(restored);  // what was loaded is the newest copy from now on
  result_.lost_steps += std::max<std::int64_t>(0, step_ - restored);
  step_ = reviewed_step_ = restored;
  into_step_s_ = 0;
  load_s_ = costs.load.value;
  busy_until_s_ = std::max(now_s_ + costs.start.value, not_before_s) + load_s_;
  recovering_ = true;
  go_on_when_ready();
}

// Another fault may come first: the loading is told of when it is done.
void Trial::go_on_when_ready() {
  if (busy_until_s_ <= next_fault_s_) {
    now_s_ = busy_until_s_;
    recovering_ = false;
    tell(GoodputFact::Kind::ready, now_s_, load_s_, step_);
  } else {
    now_s_ = std::max(now_s_, next_fault_s_);
  }
}

void Trial::meet_fault(double fault_s) {
  const SimFault& kind = draw_kind();
  const int host = draw_host();
  ++result_.faults;
  if (kind.lasts.value > 0) return stand_still(kind, host, fault_s);
  review();
  // A fault that comes before the verdict of the one before is looked at after it.
  const double verdict_s = std::max(now_s_, fault_s + kind.detect.value);
  judge(view_of(kind, host, verdict_s), fault_s, verdict_s);
}

// What passes by itself. Where it takes too long, the ranks are ended and loaded again when it is over.
void Trial::stand_still(const SimFault& kind, int host, double fault_s) {
  const bool of_files = kind.scope == file_system;
  const double over_s = std::max(now_s_, fault_s) + kind.lasts.value;
  ++result_.standstills;
  if (of_files) global_.stood_still(fault_s, kind.lasts.value);
  if (former_.standstill_is_a_fault || kind.lasts.value > scenario_.training.patience.value) {
    const double former_s = (of_files ? former_hang_s : former_silence_s) + former_gone_s;
    const double verdict_s =
        std::max(now_s_, fault_s + (former_.standstill_is_a_fault ? former_s : scenario_.training.patience.value));
    FaultView view = view_of(kind, host, verdict_s);
    if (former_.standstill_is_a_fault) {
      view.hosts_lost = hosts_hit(kind, host);
      if (of_files) view.hosts_lost = all_hosts();
    }
    review();
    return judge(view, fault_s, verdict_s, over_s);
  }
  next_fault_s_ = next_fault_after(fault_s);
  if (recovering_) {
    busy_until_s_ += kind.lasts.value;
    return go_on_when_ready();
  }
  tell(GoodputFact::Kind::stalled, over_s, over_s - now_s_);
  now_s_ = over_s;
}

void Trial::judge(FaultView view, double fault_s, double verdict_s, double not_before_s) {
  memory_.lose_unfinished(fault_s);
  global_.lose_unfinished(fault_s);
  view.made_progress = made_progress(fault_s);
  GoodputFact fact;
  fact.kind = GoodputFact::Kind::fault;
  fact.at_ms = ms(std::min(verdict_s, length_s_));
  fact.part_ms = fact.at_ms - ms(std::min(fault_s, length_s_));
  fact.step = step_;
  GoodputLedger so_far = ledger_;
  so_far.add(fact);
  window_.note(ms(verdict_s), so_far.ms(TimeClass::training));
  view.recent = window_.recent();
  const TierDecision decision = decide_tier(view, history_, offers());
  fact.processes_stay = decision.tier <= RestartTier::in_process;
  ledger_.add(fact);
  recover(view, decision, fault_s, verdict_s, not_before_s);
}

// Whether the last save comes to its end: where that was a hang, three launches did not, and then somebody had to.
bool Trial::last_write_ends() const {
  const double act_s = std::max({former_hang_s, 5 * global_.stall_s(), 2.5 * base_step_s_});
  return !former_.last_write_is_a_hang || global_.write_s() <= act_s;
}

void Trial::hosts_come_back() {
  for (std::size_t i = 0; i < repairs_.size();) {
    if (repairs_[i].at_s > now_s_) {
      ++i;
      continue;
    }
    spares_.push_back(repairs_[i].host);
    repairs_.erase(repairs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (missing_ > 0 && !spares_.empty()) grow();
}

// A shrunken training takes its hosts back: a save, then a restart in which nothing is lost.
void Trial::grow() {
  while (missing_ > 0 && !spares_.empty()) {
    running_.push_back(spares_.back());
    spares_.pop_back();
    --missing_;
  }
  replicas_ = scenario_.training.replicas - std::min(missing_ * scenario_.training.replicas_by_host,
                                                     scenario_.training.replicas - scenario_.training.replicas_min);
  SaveClock& saves = memory_.enabled() ? memory_ : global_;
  save(saves, never);
  const SimTier& costs = scenario_.restart.swap;
  saves.back_to(step_);
  now_s_ += costs.stop.value;
  tell(GoodputFact::Kind::ranks_ended, now_s_);
  now_s_ += costs.start.value;
  tell(GoodputFact::Kind::launched, now_s_);
  now_s_ += costs.load.value;
  tell(GoodputFact::Kind::ready, now_s_, costs.load.value, step_);
  into_step_s_ = 0;
}

SimulatedTrial Trial::run() {
  constexpr double day_s = 86'400;
  next_fault_s_ = next_fault_after(0);
  tell(GoodputFact::Kind::ready, 0, 0, 0);
  double next_day_s = day_s;
  while (now_s_ < length_s_) {
    if (next_fault_s_ <= now_s_) {
      meet_fault(next_fault_s_);
      continue;
    }
    double limit_s = std::min({length_s_, next_fault_s_, reviewed_s_ + review_s});
    for (const HostBack& back : repairs_)
      if (missing_ > 0) limit_s = std::min(limit_s, std::max(now_s_, back.at_s));
    train_until(limit_s);
    if (now_s_ >= reviewed_s_ + review_s) review();
    if (now_s_ < next_fault_s_) hosts_come_back();
    for (; with_days_ && next_day_s <= now_s_; next_day_s += day_s)
      result_.days.push_back({next_day_s / day_s, static_cast<double>(furthest_) * base_step_s_ / now_s_});
  }
  ledger_.advance_to(ms(length_s_));
  result_.ends = last_write_ends();
  furthest_ = std::max(furthest_, step_);
  result_.steps = furthest_;
  result_.effective = static_cast<double>(furthest_) * base_step_s_ / length_s_;
  for (int time = 0; time < time_classes; ++time)
    result_.shares[static_cast<std::size_t>(time)] = ledger_.share(static_cast<TimeClass>(time));
  const SaveClock& saves = memory_.enabled() ? memory_ : global_;
  result_.interval_s = static_cast<double>(saves.every_steps()) * step_s();
  return result_;
}

}  // namespace

SimulatedTrial run_trial(const Scenario& scenario, std::uint64_t seed, int trial, double interval_s, bool with_days,
                         const FormerPolicies& former) {
  return Trial(scenario, seed, trial, interval_s, with_days, former).run();
}

}  // namespace longhaul
