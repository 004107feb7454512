#include "contracts/settings/job/named_fault.h"

#include <signal.h>

#include <algorithm>

#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"

namespace longhaul {
namespace {

using M = FaultMeans;

// clang-format off
const std::vector<NamedFault> rows = {
    {"GPU_ERROR", M::none, 0, "", "it takes a kernel with a wrong access inside the program on the GPU, and this version has none"},
    {"GPU_SLEEP", M::none, 0, "", "it takes a kernel that does not end inside the program on the GPU, and this version has none; SIGSTOP stops the process"},
    {"WORKLOAD_EXC", M::point, 0, "engine_step_begin error", "the next optimizer step of the rank ends with an error before it has begun"},
    {"ASYNC_EXC", M::point, 0, "engine_backward error", "an error between two operations of the rank's step, wherever it is"},
    {"SIGNAL_EXC", M::message, 0, "", "a signal handler in a Python program that uses longhaul_beat.py raises an exception, wherever its main thread is"},
    {"OS_ABORT", M::signal, SIGABRT, "", "SIGABRT to the rank, as abort(3) raises it"},
    {"LOCK_GIL", M::message, 0, "", "a Python program that uses longhaul_beat.py sleeps for good with the lock of its interpreter: no thread of it goes on"},
    {"SEGFAULT", M::signal, SIGSEGV, "", "SIGSEGV to the rank"},
    {"SIGINT", M::signal, SIGINT, "", "SIGINT to the rank"},
    {"SIGKILL", M::signal, SIGKILL, "", "SIGKILL to the rank"},
    {"SIGTERM", M::signal, SIGTERM, "", "SIGTERM to the rank, though nobody asked the stage to stop"},
    {"SIGSTOP", M::signal, SIGSTOP, "", "SIGSTOP to the rank: it stands still and lives"},
    {"hung_rank", M::point, 0, "engine_backward delay_ms=3600000", "the rank stands still for an hour between two operations of its step, outside of any collective; its process runs"},
    {"slow_rank", M::slow, 0, "", "the rank is stopped for half of the time, for `lasts`"},
    {"frozen_host", M::freeze_host, 0, "", "the ranks and the agent of the rank's node are stopped for good, and the lead if it is there"},
    {"cut_network", M::site_command, 0, "", "the site's command cuts the rank's node off from the network for `lasts`"},
    {"dropped_heartbeat", M::silence_agent, 0, "", "the agent of the rank's node says nothing for `lasts`; its ranks go on"},
    {"full_disk", M::point, 0, "checkpoint_before_shard disk_full", "the rank's next shard of a checkpoint cannot be written: no space left on device"},
    {"corrupted_shard", M::damage_file, 0, "", "one byte of the rank's shard of the newest checkpoint is changed on disk"},
    {"dead_lead", M::end_lead, 0, "", "SIGKILL to the lead by itself"},
    {"dead_standby", M::end_standby, 0, "", "SIGKILL to the agent that would follow the lead, by itself"},
    {"slurmctld_down", M::site_command, 0, "", "the site's command ends the controller of the cluster for `lasts`"},
    {"xid", M::gpu_script, 0, "", "the simulated NVML of the rank's node reports the event `xid` on the rank's GPU; a real driver cannot be made to"},
    {"ecc_storm", M::gpu_script, 0, "", "the simulated NVML of the rank's node reports XID 95 on the rank's GPU, and its counters of memory errors grow for `lasts`"},
    {"nan_loss", M::point, 0, "engine_loss error", "the loss of the rank's part of the next step is not a number"},
    {"flipped_bit", M::point, 0, "engine_contribution flip=5", "one bit of what the rank gives to the next sum of gradients changes on its way; corruption.check finds it"},
};
// clang-format on

}  // namespace

const std::vector<NamedFault>& named_faults() {
  return rows;
}

const NamedFault* find_named_fault(const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const NamedFault& row) { return name == row.name; });
  return found == rows.end() ? nullptr : &*found;
}

const FieldTable<FaultRequest>& fault_request_fields() {
  using F = FaultRequest;
  static const auto table =
      FieldTable<F>()
          .field("name", &F::name, {.help = "one of the faults of docs/reference/faults.md", .required = true})
          .field("rank", &F::rank, {.help = "to whom it happens, or whose node", .min = 0, .max = 1 << 16})
          .field("step", &F::step,
                 {.help = "once a rank of the present launch has reached this step; 0: does not count", .min = 0})
          .field("after", &F::after,
                 {.help = "once the stage's first job has run for so long; 0s: does not count", .min = 0})
          .field("lasts", &F::lasts,
                 {.help = "of slow_rank, dropped_heartbeat, ecc_storm, cut_network and slurmctld_down",
                  .min = 0.1,
                  .max = 3600})
          .field("every_launch", &F::every_launch,
                 {.help = "again in every launch, as a mistake of the program would be"})
          .field("xid", &F::xid, {.help = "of the fault xid: the number of the driver's event", .min = 0, .max = 9999});
  return table;
}

namespace {

// "": the stage can be given this fault; else what is missing, and what to do about it.
struct Obstacle {
  std::string what, remedy;
};
Obstacle obstacle_to(const NamedFault& fault, const FaultTarget& target) {
  const std::string& kind = target.stage_kind;
  switch (fault.means) {
    case M::none: return {"cannot be injected here", fault.what};
    case M::point:
    case M::damage_file:
      if (kind.empty() || trains(kind)) break;
      return {"needs a training of our own engine", "a " + kind + " stage can be sent signals: SIGKILL, SIGSTOP, ..."};
    case M::message:
      if (kind.empty() || kind == "command") break;
      return {"needs a Python program, and there is none in a " + kind + " stage",
              "a command stage with longhaul_beat.py has one; here ASYNC_EXC and SIGSTOP are the nearest"};
    case M::gpu_script:
      if (target.health_watched) break;
      return {"needs somebody who looks at the GPUs, and resiliency.health is \"off\"", "say \"watch\" or \"act\""};
    case M::site_command:
      if (!target.commands || !target.commands->of(fault.name).empty()) break;
      return {"needs a command of the site, and its site file has none",
              format("[faults] {} = \"PROGRAM {}{{seconds}}\" in the site file; docs/resiliency.md says what it does",
                     fault.name, std::string(fault.name) == "cut_network" ? "{host} " : "")};
    default: break;
  }
  return {};
}

}  // namespace

void check_fault_request(const FaultRequest& request, const Value& written, const std::string& where,
                         const FaultTarget& target, bool timed, Diagnostics& diagnostics) {
  const auto place = [&](const char* key) {
    const Value* value = written.find(key);
    return value ? value->pos : written.pos;
  };
  const NamedFault* fault = find_named_fault(request.name);
  if (!fault) {
    std::vector<std::string> names;
    for (const NamedFault& row : rows) names.emplace_back(row.name);
    const std::string nearest = nearest_word(request.name, names);
    diagnostics.add(place("name"), where + ": there is no fault '" + request.name + "'",
                    nearest.empty() ? "faults: " + join(names, ", ") : "did you mean '" + nearest + "'?");
  } else if (const Obstacle obstacle = obstacle_to(*fault, target); !obstacle.what.empty()) {
    diagnostics.add(place("name"), where + ": " + request.name + " " + obstacle.what, obstacle.remedy);
  }
  if (request.name == "xid" && request.xid == 0)
    diagnostics.add(place("name"), where + ": xid does not say which", "xid = 79");
  else if (fault && request.name != "xid" && request.xid != 0)
    diagnostics.add(place("xid"), where + ".xid is of the fault xid", "name = \"xid\"");
  if (request.rank >= target.ranks)
    diagnostics.add(place("rank"),
                    format("{}.rank = {}, and the stage has {} ranks", where, request.rank, target.ranks),
                    format("0 to {}", target.ranks - 1));
  const bool at_step = request.step > 0, later = request.after.value > 0;
  if (at_step && later)
    diagnostics.add(place("after"), where + " has both step and after", "say when by one of them");
  else if (timed && !at_step && !later)
    diagnostics.add(written.pos, where + " does not say when", "step = 20, or after = \"30s\"");
}

std::string fault_request_text(const FaultRequest& request) {
  const std::string name = request.xid > 0 ? format("{} {}", request.name, request.xid) : request.name;
  std::string text = format("{} of rank {}", name, request.rank);
  if (request.step > 0) text += format(" at step {}", request.step);
  if (request.after.value > 0) text += " after " + human_duration(request.after.value);
  if (request.every_launch) text += " of every launch";
  return text;
}

}  // namespace longhaul
