#include "worker/lead/fault_injector.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "contracts/checkpoint_format.h"

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
    case FaultMeans::none: break;
  }
  return "none";
}

}  // namespace

FaultInjector::FaultInjector(const FaultSettings& settings, int ranks, std::string stage_dir, const Clock& clock,
                             EventWriter& events, Logger& log)
    : book_(settings, ranks),
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
  book_.add({"told-" + order.id, *request});
  return {true, "taken: " + fault_request_text(*request)};
}

void FaultInjector::look(const InjectionScene& scene) {
  keep_slow(scene);
  const double since_s = static_cast<double>(clock_.wall_ms() - begun_ms_) * 1e-3;
  for (const Injection& injection : book_.due(since_s, scene.launch.launch, scene.ranks.newest_step())) {
    std::string why;
    const Did did = inject(injection.fault, injection, scene, why);
    if (did == Did::not_now) continue;
    book_.done(injection.id, scene.launch.launch);
    if (did == Did::never)
      events_.message("warn", format("not injected: {}: {}", fault_request_text(injection.fault), why));
  }
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
  // An agent that is being started again would never hear of it.
  const auto heard = [&](const std::string& node) {
    const auto agent = scene.agents->agents().find(node);
    return agent != scene.agents->agents().end() && agent->second.connected;
  };
  const bool by_order = by_agent || named->means == FaultMeans::signal || named->means == FaultMeans::slow;
  if (scene.agents && by_order && !heard(host)) return Did::not_now;
  if (named->means == FaultMeans::end_standby && !heard(scene.standby)) return Did::not_now;
  std::string shard;
  if (named->means == FaultMeans::damage_file) {
    shard = newest_shard(join_path(scene.launch.state_dir, "checkpoints"), fault.rank);
    if (shard.empty()) return Did::not_now;
  }
  if (!claim(injection, scene.launch.launch)) return Did::done;  // by an earlier lead
  tell(injection, scene);
  AgentOrder order;
  order.kind = AgentOrder::Kind::fault;
  switch (named->means) {
    case FaultMeans::signal: signal(scene, fault.rank, named->signal); break;
    case FaultMeans::point: {
      const Status added =
          append_file_synced(scene.launch.fault_plan, format("{} rank={}\n", named->point, fault.rank));
      if (!added.ok()) return never(added.error().message());
      break;
    }
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
    case FaultMeans::damage_file:
      if (const Status damaged = damage_file(shard); !damaged.ok()) return never(damaged.error().message());
      break;
    case FaultMeans::none: break;
  }
  return Did::done;
}

bool FaultInjector::claim(const Injection& injection, int launch) {
  const std::string name = injection.fault.every_launch ? format("{}-launch-{}", injection.id, launch) : injection.id;
  return create_file_exclusive(join_path(folder_, name), fault_request_text(injection.fault)).ok();
}

void FaultInjector::tell(const Injection& injection, const InjectionScene& scene) {
  const FaultRequest& fault = injection.fault;
  Value fields = Value::make_table();
  fields.set("fault", fault.name);
  fields.set("rank", fault.rank);
  const bool of_standby = find_named_fault(fault.name)->means == FaultMeans::end_standby;
  const bool of_lead = find_named_fault(fault.name)->means == FaultMeans::end_lead;
  fields.set("host", of_standby ? scene.standby : of_lead ? scene.own_node : scene.ranks.host_of(fault.rank));
  fields.set("step", scene.ranks.newest_step());
  fields.set("launch", scene.launch.launch);
  fields.set("means", text_of(find_named_fault(fault.name)->means));
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
  else
    ::kill(pid, signal_number);
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
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return errno_error(ErrorCode::io, "cannot open " + path, errno);
  const off_t at = ::lseek(fd.get(), 0, SEEK_END) * 7 / 8;
  unsigned char byte = 0;
  if (::pread(fd.get(), &byte, 1, at) != 1) return errno_error(ErrorCode::io, "cannot read " + path, errno);
  byte = static_cast<unsigned char>(~byte);
  if (::pwrite(fd.get(), &byte, 1, at) != 1) return errno_error(ErrorCode::io, "cannot write " + path, errno);
  return {};
}

}  // namespace longhaul
