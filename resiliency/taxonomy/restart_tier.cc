#include "resiliency/taxonomy/restart_tier.h"

#include <algorithm>

#include "base/text/text.h"
#include "resiliency/taxonomy/goodput_floor.h"
#include "resiliency/taxonomy/lemon_host.h"

namespace longhaul {
namespace {

// One decision on its way: the tier climbs, and what was passed over is noted for the reason.
class TierClimb {
 public:
  TierClimb(const FaultView& fault, const TierHistory& history, const TierOffers& offers, const TierBudgets& budgets)
      : fault_(fault),
        history_(history),
        offers_(offers),
        budgets_(budgets),
        host_(judge_host(fault, history, budgets)),
        floor_(judge_floor(fault, history, budgets)) {}

  TierDecision decide();

 private:
  TierDecision stop(std::string why) const { return {RestartTier::stop, {}, std::move(why)}; }
  std::string hopeless() const;
  std::string without_progress() const;
  RestartTier lowest_tier() const;
  RestartTier highest_tier() const;
  bool host_must_go() const { return !fault_.host.empty() && (host_.lemon || fault_.accuses == Accusation::sure); }
  std::string host_clause(const std::vector<std::string>& leave) const;
  int used(RestartTier tier) const;
  int budget(RestartTier tier) const;
  // "" if the tier can be taken, else why not; fills in the hosts that it would leave.
  std::string objection(RestartTier tier, std::vector<std::string>& leave) const;
  std::string swap_objection(std::vector<std::string>& leave) const;
  std::string shrink_objection(std::vector<std::string>& leave) const;
  // Lost hosts, or the culprit where a fault has come back often enough to doubt its host.
  std::vector<std::string> hosts_that_must_go() const;

  const FaultView& fault_;
  const TierHistory& history_;
  const TierOffers& offers_;
  const TierBudgets& budgets_;
  const LemonVerdict host_;  // of the culprit's
  const FloorVerdict floor_;
};

std::string TierClimb::hopeless() const {
  if (fault_.group == FaultGroup::none) return fault_.fault + ": nothing to start again";
  if (fault_.group == FaultGroup::hopeless) return fault_.fault + " is not cured by trying again";
  return {};
}

std::string TierClimb::without_progress() const {
  if (fault_.made_progress) return {};
  int barren = accuses_host(fault_.scope) ? 0 : 1, same = 1;
  for (auto past = history_.rbegin(); past != history_.rend(); ++past) {
    if (past->made_progress || past->forgiven) break;
    if (!accuses_host(past->scope)) ++barren;
    if (past->cause == fault_.cause) ++same;
  }
  if (same >= budgets_.same_cause_max)
    return format("the same cause {} times without progress: {}", same, fault_.cause);
  if (barren >= budgets_.without_progress_max) return format("{} restarts without progress", barren);
  return {};
}

RestartTier TierClimb::lowest_tier() const {
  if (fault_.group == FaultGroup::preemption || fault_.group == FaultGroup::wall_time) return RestartTier::new_job;
  if (fault_.scope == FaultScope::job && fault_.group == FaultGroup::infrastructure) return RestartTier::new_job;
  if (!fault_.hosts_lost.empty() || floor_.of_host) return RestartTier::swap;
  if (floor_.below) return RestartTier::new_job;
  // For a host that still works no other job is asked for: where it cannot be swapped, it is kept.
  if (std::vector<std::string> leave; host_must_go() && objection(RestartTier::swap, leave).empty())
    return RestartTier::swap;
  if (fault_.skippable) return RestartTier::skip;
  // Memory that a process has filled comes back only with the process.
  if (fault_.all_ranks_alive && fault_.group != FaultGroup::memory) return RestartTier::in_process;
  return RestartTier::in_job;
}

RestartTier TierClimb::highest_tier() const {
  return fault_.scope == FaultScope::user ? RestartTier::in_job : RestartTier::new_job;
}

int TierClimb::used(RestartTier tier) const {
  return static_cast<int>(std::count_if(history_.begin(), history_.end(), [&](const PastRestart& past) {
    return !past.forgiven && past.tier == tier && past.cause == fault_.cause &&
           fault_.at_ms - past.at_ms < budgets_.forgotten_after_ms;
  }));
}

int TierClimb::budget(RestartTier tier) const {
  switch (tier) {
    case RestartTier::skip: return budgets_.skip;
    case RestartTier::in_process: return budgets_.in_process;
    case RestartTier::in_job: return fault_.group == FaultGroup::memory ? 1 : budgets_.in_job;
    case RestartTier::swap: return budgets_.swap;
    default: return -1;  // replicas and the controller's own budgets bound the rest
  }
}

std::vector<std::string> TierClimb::hosts_that_must_go() const {
  if (!fault_.hosts_lost.empty()) {  // one that was lost may have been left before, and is named twice
    std::vector<std::string> lost = fault_.hosts_lost;
    std::sort(lost.begin(), lost.end());
    lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
    return lost;
  }
  if (fault_.host.empty()) return {};
  return {fault_.host};
}

std::string TierClimb::swap_objection(std::vector<std::string>& leave) const {
  leave = hosts_that_must_go();
  if (leave.empty()) return "no host is known to be at fault";
  const int spares = offers_.spares_left, needed = static_cast<int>(leave.size());
  if (needed > spares) return format("{} host{} to leave, {} spare", needed, needed == 1 ? "" : "s", spares);
  if (needed < spares && host_.lemon) leave.push_back(fault_.host);
  return {};
}

std::string TierClimb::shrink_objection(std::vector<std::string>& leave) const {
  leave = hosts_that_must_go();
  if (leave.empty()) return "no host is known to be at fault";
  const int lost = static_cast<int>(leave.size()) * offers_.dp_replicas_lost_by_host;
  if (offers_.dp_replicas - lost < offers_.dp_replicas_min)
    return format("{} of {} replicas would be left, at least {} are asked for", std::max(0, offers_.dp_replicas - lost),
                  offers_.dp_replicas, offers_.dp_replicas_min);
  return {};
}

std::string TierClimb::objection(RestartTier tier, std::vector<std::string>& leave) const {
  leave.clear();
  if (const TierOffer& offer = offers_.of(tier); !offer.offered)
    return offer.refusal.empty() ? "not offered" : offer.refusal;
  if (const int most = budget(tier); most >= 0 && used(tier) >= most)
    return format("{} of {} used for this cause", used(tier), most);
  if (tier == RestartTier::swap) return swap_objection(leave);
  if (tier == RestartTier::shrink) return shrink_objection(leave);
  if (tier == RestartTier::new_job) {
    leave = fault_.hosts_lost;
    if (host_.lemon || floor_.of_host) leave.push_back(fault_.host);
  }
  return {};
}

// What speaks against the culprit's host, and what becomes of it.
std::string TierClimb::host_clause(const std::vector<std::string>& leave) const {
  if (floor_.below) return "; " + floor_.why;
  const bool leaves = std::find(leave.begin(), leave.end(), fault_.host) != leave.end();
  const bool sure = host_must_go() && !host_.lemon;
  if (sure && leaves) return format("; {} is left: {} accuses it for sure", fault_.host, fault_.fault);
  if (!host_.lemon) return host_.why.empty() ? std::string() : format("; {} stays: {}", fault_.host, host_.why);
  if (leaves) return format("; {} is left after {}", fault_.host, host_.why);
  std::vector<std::string> ignored;
  std::string no = objection(RestartTier::swap, ignored);
  if (no.empty()) no = "no spare is left for it";
  return format("; {} stays in spite of {} ({})", fault_.host, host_.why, no);
}

TierDecision TierClimb::decide() {
  for (std::string why : {hopeless(), without_progress()})
    if (!why.empty()) return stop(std::move(why));
  std::vector<std::string> passed, leave;
  const int highest = static_cast<int>(highest_tier());
  for (int level = static_cast<int>(lowest_tier()); level <= highest; ++level) {
    const RestartTier tier = static_cast<RestartTier>(level);
    // A replica fewer for a host that may be sound is dearer than one more try elsewhere.
    if (tier == RestartTier::shrink && fault_.hosts_lost.empty() && !floor_.of_host) continue;
    const std::string no = objection(tier, leave);
    if (!no.empty()) {
      passed.push_back(format("not {} ({})", to_string(tier), no));
      continue;
    }
    std::sort(leave.begin(), leave.end());
    leave.erase(std::unique(leave.begin(), leave.end()), leave.end());
    std::string reason = format("{} of scope {}", fault_.fault, to_string(fault_.scope));
    if (!passed.empty()) reason += ": " + join(passed, ", ");
    reason += host_clause(leave);
    return {tier, leave, std::move(reason), floor_.below};
  }
  return stop(format("{}: {}", fault_.fault, passed.empty() ? "no tier is left" : join(passed, ", ")));
}

}  // namespace

const char* to_string(RestartTier tier) {
  switch (tier) {
    case RestartTier::skip: return "skip";
    case RestartTier::in_process: return "in_process";
    case RestartTier::in_job: return "in_job";
    case RestartTier::swap: return "swap";
    case RestartTier::shrink: return "shrink";
    case RestartTier::new_job: return "new_job";
    case RestartTier::stop: return "stop";
  }
  return "unknown";
}

const TierOffer& TierOffers::of(RestartTier tier) const {
  static const TierOffer always;
  switch (tier) {
    case RestartTier::skip: return skip;
    case RestartTier::in_process: return in_process;
    case RestartTier::in_job: return in_job;
    case RestartTier::swap: return swap;
    case RestartTier::shrink: return shrink;
    case RestartTier::new_job: return new_job;
    case RestartTier::stop: break;
  }
  return always;
}

bool accuses_host(FaultScope scope) {
  return scope == FaultScope::gpu || scope == FaultScope::host || scope == FaultScope::link;
}

PastRestart past_restart(const FaultView& fault, RestartTier tier) {
  return {fault.at_ms, fault.cause, fault.scope, fault.host, fault.made_progress, tier, fault.fault, fault.accuses};
}

void forgive(TierHistory& history, std::int64_t now_ms, const TierBudgets& budgets) {
  for (PastRestart& past : history) past.forgiven |= !accuses_host(past.scope);
  std::erase_if(history, [&](const PastRestart& past) {
    const bool speaks = past.accuses != Accusation::never && !past.host.empty();
    const std::int64_t ago_ms = now_ms - past.at_ms;
    return past.forgiven && ago_ms >= goodput_window_ms && (!speaks || ago_ms >= budgets.lemon_memory_ms);
  });
}

TierDecision decide_tier(const FaultView& fault, const TierHistory& history, const TierOffers& offers,
                         const TierBudgets& budgets) {
  return TierClimb(fault, history, offers, budgets).decide();
}

}  // namespace longhaul
