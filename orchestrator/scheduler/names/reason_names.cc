#include "orchestrator/scheduler/names/reason_names.h"

#include <algorithm>

namespace longhaul {
namespace {

using W = WaitReason;
constexpr const char* ask_for_less =
    "the job asks for more than it may have; cancel it and ask for less, or in another class";
constexpr const char* wait_for_site = "it starts when the site changes that; ask the site";

constexpr SlurmReasonName reason_table[] = {
    {"None", W::passes, ""},
    {"Prolog", W::passes, ""},
    {"Priority", W::passes, ""},
    {"Dependency", W::passes, ""},
    {"Resources", W::passes, ""},
    {"BeginTime", W::passes, ""},
    {"Licenses", W::passes, ""},
    {"Reservation", W::passes, ""},
    {"ReqNodeNotAvail", W::passes, ""},
    {"FrontEndDown", W::passes, ""},
    {"SchedDefer", W::passes, ""},
    {"NodeDown", W::passes, ""},
    {"Cleaning", W::passes, ""},
    {"JobArrayTaskLimit", W::passes, ""},
    {"BurstBufferResources", W::passes, ""},
    {"BurstBufferStageIn", W::passes, ""},
    {"PowerNotAvail", W::passes, ""},
    {"PowerReserved", W::passes, ""},
    {"FedJobLock", W::passes, ""},
    {"NvidiaImexChannels", W::passes, ""},
    {"MaxPoweredUpNodes", W::passes, ""},
    {"MpiPortsBusy", W::passes, ""},
    {"AssociationJobLimit", W::passes, ""},
    {"QOSJobLimit", W::passes, ""},
    {"QOSUsageThreshold", W::passes, ""},
    {"AccountingPolicy", W::passes, ""},
    {"BlockFreeAction", W::passes, ""},
    {"BlockMaxError", W::passes, ""},
    // Of how a former life ended.
    {"SystemFailure", W::passes, ""},
    {"JobLaunchFailure", W::passes, ""},
    {"NonZeroExitCode", W::passes, ""},
    {"RaisedSignal", W::passes, ""},
    {"TimeLimit", W::passes, ""},
    {"InactiveLimit", W::passes, ""},
    {"OutOfMemory", W::passes, ""},
    {"launch_failed_requeued_held", W::passes, ""},  // held by Slurm: the controller releases it
    {"job_requeued_in_held_state", W::passes, ""},
    {"PartitionDown", W::person, wait_for_site},
    {"PartitionInactive", W::person, wait_for_site},
    {"JobHeldUser", W::person, "it is held; `scontrol release` by whoever held it lets it go"},
    {"JobHeldAdmin", W::person, "an administrator holds it; ask the site, or cancel it"},
    {"ReservationDeleted", W::person, "its reservation is gone; name another one, or none, and submit it again"},
    {"PartitionNodeLimit", W::never, "the partition does not have so many nodes for a job; ask for fewer"},
    {"PartitionTimeLimit", W::never, "the partition does not have so much time for a job; ask for less"},
    {"PartitionConfig", W::never, "the partition does not take such a job; ask for another class"},
    {"MaxMemPerLimit", W::never, ask_for_less},
    {"AssociationResourceLimit", W::never, ask_for_less},
    {"AssociationTimeLimit", W::never, ask_for_less},
    {"QOSResourceLimit", W::never, ask_for_less},
    {"QOSTimeLimit", W::never, ask_for_less},
    {"BadConstraints", W::never, "no node that is left has what the job asks for"},
    {"Constraints", W::never, "no node that is left has what the job asks for"},
    {"InvalidAccount", W::never, "its account is not one that may be used any more; correct account"},
    {"AccountNotAllowed", W::never, "its account may not use this partition; correct account or class"},
    {"InvalidQOS", W::never, "its QOS is not one that may be used any more; correct the class"},
    {"QOSNotAllowed", W::never, "its QOS may not be used in this partition; correct the class"},
    {"DependencyNeverSatisfied", W::never, "the job that it waits for ended in another way; cancel it"},
    {"ReservationInvalid", W::never, "its reservation is not one that it may use; correct the reservation"},
    {"BurstBufferOperation", W::never, "its burst buffer could not be made; the site knows why"},
    {"DeadLine", W::never, "it cannot end before its deadline any more"},
    {"JobHoldMaxRequeue", W::given_up,
     "it was queued again more often than MaxBatchRequeue allows, and is held for good"},
};

bool take_from_front(std::string& text, const char* name) {
  if (!text.starts_with(name)) return false;
  text.erase(0, std::string(name).size());
  return true;
}

bool has(const std::string& text, const char* name) {
  return text.find(name) != std::string::npos;
}

// "ReqNodeNotAvail, UnavailableNodes:n1" -> "ReqNodeNotAvail"; "(launch failed requeued held)" with underscores.
std::string bare(std::string reason) {
  std::replace(reason.begin(), reason.end(), ' ', '_');
  std::erase_if(reason, [](char c) { return c == '(' || c == ')'; });
  return reason.substr(0, reason.find_first_of(",:"));
}

const SlurmReasonName* find_reason(const std::string& reason) {
  const std::string name = bare(reason);
  const auto found =
      std::find_if(std::begin(reason_table), std::end(reason_table), [&](const auto& one) { return name == one.name; });
  return found == std::end(reason_table) ? nullptr : found;
}

enum class LimitShape { none, jobs, running, of_one_job, minutes };

LimitShape shape_of(const std::string& reason) {
  std::string name = bare(reason);
  const bool owned = take_from_front(name, "QOS") || take_from_front(name, "Assoc");
  const bool grp = take_from_front(name, "Grp"), max = !grp && take_from_front(name, "Max");
  const bool min = !grp && !max && take_from_front(name, "Min");
  if (!grp && !max && !min) return LimitShape::none;
  const bool of_many = has(name, "PerUser") || has(name, "PerAccount");
  if (!owned && !(max && of_many)) return LimitShape::none;
  if (min) return owned ? LimitShape::of_one_job : LimitShape::none;
  if (has(name, "Submit")) return LimitShape::jobs;
  if (has(name, "Jobs")) return LimitShape::jobs;
  if (has(name, "RunMin")) return LimitShape::running;
  if (has(name, "MinutesPerJob") || has(name, "PerJob") || has(name, "PerNode")) return LimitShape::of_one_job;
  if (has(name, "Minutes") || has(name, "Wall")) return LimitShape::minutes;
  return LimitShape::running;
}

}  // namespace

std::span<const SlurmReasonName> slurm_reason_names() {
  return reason_table;
}

WaitReason wait_reason(const std::string& reason) {
  if (reason.empty()) return W::passes;
  if (const SlurmReasonName* known = find_reason(reason)) return known->means;
  switch (shape_of(reason)) {
    case LimitShape::none: return W::no_such_limit;
    case LimitShape::of_one_job: return W::never;
    case LimitShape::minutes: return W::budget;
    default: return W::passes;
  }
}

std::string wait_advice(const std::string& reason) {
  if (const SlurmReasonName* known = find_reason(reason)) return known->advice;
  switch (wait_reason(reason)) {
    case W::never: return ask_for_less;
    case W::budget:
      return "the hours of its account or QOS are used up; it starts when the site counts anew or gives more";
    default: return {};
  }
}

// Slurm refuses a job for what it may have only where the job is too large by itself (DenyOnLimit in sacctmgr(1): "as
// stand-alone jobs"; slurm/src/slurmctld/acct_policy.c, _qos_policy_validate()), and for counts of jobs.
LimitKind limit_kind(const std::string& name) {
  static constexpr const char* sizes[] = {
      "PartitionNodeLimit",   "PartitionTimeLimit", "MaxMemPerLimit", "AssociationResourceLimit",
      "AssociationTimeLimit", "QOSResourceLimit",   "QOSTimeLimit"};
  static constexpr const char* counts[] = {"AssociationJobLimit", "QOSJobLimit", "JobArrayTaskLimit"};
  const auto is_one_of = [&](const auto& names) {
    return std::find_if(std::begin(names), std::end(names), [&](const char* one) { return name == one; }) !=
           std::end(names);
  };
  if (is_one_of(sizes)) return LimitKind::size;
  if (is_one_of(counts)) return LimitKind::count;
  switch (shape_of(name)) {
    case LimitShape::none: return LimitKind::none;
    case LimitShape::jobs: return LimitKind::count;
    case LimitShape::minutes: return LimitKind::budget;
    default: return has(name, "RunMin") ? LimitKind::budget : LimitKind::size;
  }
}

}  // namespace longhaul
