#include "worker/lead/injection/fault_injector.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"
#include "resiliency/inject/gpu_script.h"
#include "worker/lead/agents/heard_hosts.h"

namespace longhaul {
namespace {

const char* text_of(FaultMeans means) {
  switch (means) {
    case FaultMeans::signal: return "signal";
    case FaultMeans::point: return "point in the engine";
    case FaultMeans::slow: return "signals STOP and CONT";
    case FaultMeans::freeze_host: return "signal STOP by the agent";
    case FaultMeans::silence_agent: return "silence of the agent";
    case FaultMeans::end_standby: return "signal KILL of the agent to itself";
    case FaultMeans::end_lead: return "signal KILL of the lead to itself";
    case FaultMeans::damage_file: return "a byte on disk";
    case FaultMeans::gpu_script: return "the script of simulated GPUs";
    case FaultMeans::site_command: return "a command of the site";
    case FaultMeans::message: return "a message to the program";
    case FaultMeans::none: break;
  }
  return "none";
}

// The GPU of a rank: as many as there are ranks before it on its node.
int device_of(const Launch& launch, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= launch.rank_host.size()) return 0;
  return static_cast<int>(std::count(launch.rank_host.begin(), launch.rank_host.begin() + rank, launch.rank_host[at]));
}

AgentOrder order_of(const Injection& injection, const std::string& what) {
  AgentOrder order;
  order.kind = AgentOrder::Kind::fault;
  order.folder = what, order.id = injection.id;
  return order;
}

}  // namespace

FaultInjector::FaultInjector(const FaultSettings& settings, int ranks, std::string stage_dir, const Clock& clock,
                             EventWriter& events, Logger& log)
    : book_(settings, ranks),
      site_(settings.commands),
      site_commands_(clock),
      folder_(join_path(std::move(stage_dir), "faults")),
      clock_(clock),
      events_(events),
      log_(log) {}

Status FaultInjector::begin() {
  LH_CHECK(make_directories(folder_));
  const std::string path = join_path(folder_, "begun");
  const Status created = create_file_exclusive(path, std::to_string(clock_.wall_ms()));
  if (!created.ok() && created.error().code != ErrorCode::conflict) return created;
  LH_TRY(const std::string text, read_file(path, 100));
  begun_ms_ = std::atoll(text.c_str());
  return {};
}

OrderOutcome FaultInjector::take(const Order& order) {
  if (!order.fault.is_table()) return {false, "refused: no fault is named"};
  const auto request = fault_request_fields().parse(order.fault, "fault");
  if (!request.ok()) return {false, "refused: " + request.error().message()};
  book_.add({"ordered-" + order.id, *request});
  return {true, "taken: " + fault_request_text(*request)};
}

void FaultInjector::look(const InjectionScene& scene) {
  keep_slow(scene);
  look_for_problems(scene);
  const double since_s = static_cast<double>(clock_.wall_ms() - begun_ms_) * 1e-3;
  for (const Injection& injection : book_.due(since_s, scene.launch.launch, scene.ranks.newest_step())) {
    std::string why;
    const Did did = inject(injection.fault, injection, scene, why);
    if (did == Did::not_now) continue;
    book_.done(injection.id, scene.launch.launch);
    if (did == Did::never) report_not_injected(fault_request_text(injection.fault) + ": " + why);
  }
}

void FaultInjector::report_not_injected(const std::string& what) {
  events_.message("warn", "not injected: " + what);
  log_.warn("event=not_injected what='" + what + "'");
}

// Of what was begun. Each is reported once in the life of the stage, as an agent goes on to report it.
void FaultInjector::look_for_problems(const InjectionScene& scene) {
  for (const std::string& problem : site_commands_.look()) report_not_injected(problem);
  if (!scene.agents) return;
  for (const auto& [host, agent] : scene.agents->agents())
    for (const FaultProblem& problem : agent.report.fault_problems)
      if (reported_problems_.insert(problem.id).second &&
          create_file_exclusive(join_path(folder_, problem.id + ".problem"), problem.why).ok())
        report_not_injected(format("{} on {}: {}", problem.id, host, problem.why));
}

FaultInjector::Did FaultInjector::gpus_are_simulated(const FaultRequest& fault, const InjectionScene& scene,
                                                     std::string& why) const {
  const std::string host = scene.ranks.host_of(fault.rank);
  const HealthReport* report = scene.own_health;
  if (scene.agents) {
    const auto agent = scene.agents->agents().find(host);
    report = agent == scene.agents->agents().end() ? nullptr : &agent->second.report.health;
  }
  if (!report || report->looks == 0) return Did::not_now;
  if (!report->gpu_script.empty()) return Did::done;
  why = format(
      "{} has no simulated GPUs, and a driver of NVIDIA cannot be made to say it; load a simulated NVML there "
      "(docs/resiliency.md, \"Faults by name\"), or have SIGKILL or frozen_host instead",
      host);
  return Did::never;
}

FaultInjector::Did FaultInjector::inject(const FaultRequest& fault, const Injection& injection,
                                         const InjectionScene& scene, std::string& why) {
  const NamedFault* named = find_named_fault(fault.name);
  const auto never = [&](const std::string& reason) {
    why = reason;
    return Did::never;
  };
  if (!named || named->means == FaultMeans::none) return never(named ? named->what : "there is no such fault");
  // What is being started, or has just ended, is hurt when it is there again.
  if (pid_of(scene, fault.rank) <= 0) return Did::not_now;
  const std::string host = scene.ranks.host_of(fault.rank);
  const bool by_agent = named->means == FaultMeans::freeze_host || named->means == FaultMeans::silence_agent;
  if (by_agent && !scene.agents) return never("the job has no agents: its ranks are on one node");
  if (named->means == FaultMeans::end_standby && scene.standby.empty()) {
    if (!scene.agents || scene.agents->agents().size() < 2) return never("the job has no standby");
    return Did::not_now;
  }
  // An agent that is being started again, or has turned to another lead while this one stood still, would never hear of
  // it.
  const auto heard = [&](const std::string& node) {
    const auto agent = scene.agents->agents().find(node);
    return agent != scene.agents->agents().end() && is_heard(agent->second, clock_.monotonic_ns());
  };
  const bool by_order = by_agent || named->means == FaultMeans::signal || named->means == FaultMeans::slow ||
                        named->means == FaultMeans::gpu_script || named->means == FaultMeans::message;
  if (scene.agents && by_order && !heard(host)) return Did::not_now;
  if (named->means == FaultMeans::end_standby && !heard(scene.standby)) return Did::not_now;
  std::string shard;
  if (named->means == FaultMeans::damage_file) {
    shard = newest_shard(join_path(scene.launch.state_dir, "checkpoints"), fault.rank);
    if (shard.empty()) return Did::not_now;
  }
  if (named->means == FaultMeans::gpu_script)
    if (const Did can = gpus_are_simulated(fault, scene, why); can != Did::done) return can;
  if (named->means == FaultMeans::site_command && site_.of(fault.name).empty())
    return never(format("the site has no command for it; [faults] {} in its site file", fault.name));
  if (!claim(injection, scene.launch.launch)) return Did::done;  // by an earlier lead
  report_injected(injection, scene);
  if (const Status status = act(*named, injection, scene, shard); !status.ok()) return never(status.error().message());
  return Did::done;
}

Status FaultInjector::act(const NamedFault& named, const Injection& injection, const InjectionScene& scene,
                          const std::string& shard) {
  const FaultRequest& fault = injection.fault;
  const std::string host = scene.ranks.host_of(fault.rank);
  AgentOrder order = order_of(injection, "");
  switch (named.means) {
    case FaultMeans::signal: signal(scene, fault.rank, named.signal); break;
    case FaultMeans::point:
      return append_file_synced(scene.launch.fault_plan, format("{} rank={}\n", named.point, fault.rank));
    case FaultMeans::slow:
      slow_.push_back({fault.rank, scene.launch.launch,
                       clock_.monotonic_ns() + static_cast<std::int64_t>(fault.lasts.value * 1e9), false});
      break;
    case FaultMeans::freeze_host:
      order.folder = "freeze";
      scene.agents->order(host, order);
      if (host == scene.own_node) signal_self(scene, SIGSTOP);
      break;
    case FaultMeans::silence_agent:
      order.folder = "silence";
      order.lasts_ms = static_cast<std::int64_t>(fault.lasts.value * 1e3);
      scene.agents->order(host, order);
      break;
    case FaultMeans::end_standby:
      order.folder = "end";
      scene.agents->order(scene.standby, order);
      break;
    case FaultMeans::end_lead: signal_self(scene, SIGKILL); break;
    case FaultMeans::damage_file: return damage_file(shard);
    case FaultMeans::gpu_script:
      order.folder = "gpu", order.what = gpu_fault_lines(fault, device_of(scene.launch, fault.rank));
      if (!scene.agents) return append_to_gpu_script(scene.own_health->gpu_script, order.what, clock_.wall_ms());
      scene.agents->order(host, order);
      break;
    case FaultMeans::message:
      order.folder = "message", order.what = fault.name, order.ranks = {fault.rank};
      if (scene.agents)
        scene.agents->order(host, order);
      else if (!scene.own_sockets || !scene.own_sockets->say_fault(fault.rank, fault.name))
        return nobody_listens(fault.rank);
      break;
    case FaultMeans::site_command: {
      const auto deadline_ms = static_cast<std::int64_t>((site_.deadline.value + fault.lasts.value) * 1e3);
      return site_commands_.start(fault_request_text(fault),
                                  fault_command_arguments(site_.of(fault.name), host, fault.lasts),
                                  join_path(folder_, injection.id + ".log"), deadline_ms);
    }
    case FaultMeans::none: break;
  }
  return {};
}

bool FaultInjector::claim(const Injection& injection, int launch) {
  const std::string name = injection.fault.every_launch ? format("{}-launch-{}", injection.id, launch) : injection.id;
  return create_file_exclusive(join_path(folder_, name), fault_request_text(injection.fault)).ok();
}

void FaultInjector::report_injected(const Injection& injection, const InjectionScene& scene) {
  const FaultRequest& fault = injection.fault;
  Value fields = Value::make_table();
  fields.set("fault", fault.name);
  fields.set("rank", fault.rank);
  const FaultMeans means = find_named_fault(fault.name)->means;
  const bool of_standby = means == FaultMeans::end_standby, of_lead = means == FaultMeans::end_lead;
  fields.set("host", of_standby ? scene.standby : of_lead ? scene.own_node : scene.ranks.host_of(fault.rank));
  if (means == FaultMeans::gpu_script) fields.set("device", format("GPU {}", device_of(scene.launch, fault.rank)));
  if (fault.xid > 0) fields.set("xid", fault.xid);
  fields.set("step", scene.ranks.newest_step());
  fields.set("launch", scene.launch.launch);
  fields.set("means", text_of(means));
  fields.set("id", injection.id);
  events_.write("injected", std::move(fields));
  log_.warn(format("event=injected fault={} rank={} id={}", fault.name, fault.rank, injection.id));
}

// At every look the other half begins: stopped for one, at work for one. None is left stopped.
void FaultInjector::keep_slow(const InjectionScene& scene) {
  for (Slow& slow : slow_) {
    const bool over = clock_.monotonic_ns() >= slow.until_ns || scene.launch.launch != slow.launch;
    if (slow.stopped || !over) signal(scene, slow.rank, slow.stopped ? SIGCONT : SIGSTOP);
    slow.stopped = !slow.stopped && !over;
    slow.over = over && !slow.stopped;
  }
  std::erase_if(slow_, [](const Slow& slow) { return slow.over; });
}

void FaultInjector::signal(const InjectionScene& scene, int rank, int signal_number) {
  const pid_t pid = pid_of(scene, rank);
  if (pid <= 0) return;
  if (scene.agents)
    scene.agents->signal(scene.ranks.host_of(rank), {rank}, signal_number);
  else if (scene.ranks.rank(rank))
    (void)scene.ranks.signal(rank, signal_number, scene.launch.attempt_key).ok();  // who is not the job's is let be
  else
    ::kill(pid, signal_number);  // we have started it ourselves
}

// What agents were ordered at the same moment would never leave this process.
void FaultInjector::signal_self(const InjectionScene& scene, int signal_number) {
  if (scene.agents) scene.agents->look();
  ::kill(::getpid(), signal_number);
}

pid_t FaultInjector::pid_of(const InjectionScene& scene, int rank) {
  if (const RankReport* report = scene.ranks.rank(rank); report && report->beat.pid > 0)
    return report->state == ProcessState::ended ? -1 : static_cast<pid_t>(report->beat.pid);
  const auto started = scene.started_here.find(rank);
  return started == scene.started_here.end() || scene.agents ? -1 : started->second;
}

std::string newest_shard(const std::string& checkpoints, int rank) {
  const auto names = list_directory(checkpoints);
  std::string newest;
  if (!names.ok()) return newest;
  for (const std::string& name : *names)  // numbers have leading zeros
    if (starts_with(name, "step-") && name > newest &&
        file_exists(join_path(join_path(checkpoints, name), checkpoint_manifest_name)))
      newest = name;
  if (newest.empty()) return newest;
  const std::string folder = join_path(checkpoints, newest);
  const auto files = list_directory(folder);
  if (!files.ok()) return {};
  std::vector<std::string> shards;
  for (const std::string& file : *files)
    if (ends_with(file, ".safetensors")) shards.push_back(file);
  std::sort(shards.begin(), shards.end());
  if (shards.empty()) return {};
  return join_path(folder, shards[static_cast<std::size_t>(rank) % shards.size()]);
}

Status damage_file(const std::string& path) {
  Ownership wanted;
  wanted.forbidden = 0;
  LH_TRY(const FileDescriptor fd, open_owned_file(path, wanted, O_RDWR));
  const off_t at = ::lseek(fd.get(), 0, SEEK_END) * 7 / 8;
  unsigned char byte = 0;
  if (::pread(fd.get(), &byte, 1, at) != 1) return errno_error(ErrorCode::io, "cannot read " + path, errno);
  byte = static_cast<unsigned char>(~byte);
  if (::pwrite(fd.get(), &byte, 1, at) != 1) return errno_error(ErrorCode::io, "cannot write " + path, errno);
  return {};
}

}  // namespace longhaul
